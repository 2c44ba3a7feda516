"""How many bytes a batch will take beside the model's weights, told before it runs."""

from collections import Counter
from collections.abc import Sequence

from pipeline.inference.capacity import FORWARD_TOKENS, usual_lane_bytes
from pipeline.inference.model import LanguageModel
from pipeline.inference.padding import length_class

#: Tensors of a forward that are alive at once where a layer is widest: the residual stream and its norm, and of the MLP
#: the activated gate, what it gates, and their product.
_STREAMS, _INNER = 2, 3
#: Measured with a small model on a CPU: what a heap leaves between blocks, and what kernels keep once they have run.
_SLACK, _FIXED = 1.1, 24 << 20


def predicted_bytes(model: LanguageModel, prefix_tokens: int, own_tokens: Sequence[int], limit: int) -> int:
    """At the peak, for rows of so many own tokens behind one prefix, which generate up to `limit` tokens each.

    The prefix is computed in one forward; the rows' own tokens take several where they are many.
    """
    token = model.shape.bytes_per_token()
    classes = Counter(length_class(own + limit) for own in own_tokens)
    lanes = min(sum(capacity * rows for capacity, rows in classes.items()) * token, usual_lane_bytes(model.device))
    forward = max(prefix_tokens, min(sum(own_tokens), FORWARD_TOKENS), max(own_tokens))
    logits = len(own_tokens) * model.vocab_size * 4
    whole = prefix_tokens * token + lanes + forward * _widths(model) * model.shape.dtype.itemsize + logits
    return int(whole * _SLACK) + _FIXED


def _widths(model: LanguageModel) -> int:
    """Numbers for each token of a forward."""
    config = model.network.config
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    return _STREAMS * int(config.hidden_size) + _INNER * int(inner)
