"""How many bytes a batch will take beside the model's weights, told before it runs."""

from collections.abc import Sequence

from pipeline.inference.capacity import FORWARD_TOKENS, usual_lane_bytes
from pipeline.inference.generation import MOST_LOGITS
from pipeline.inference.model import LanguageModel
from pipeline.inference.padding import length_class
from pipeline.inference.targets import MOST_SCORED_LOGITS
from pipeline.rows import Choose, Embed, Generate, Prompt, Score, Task

#: Tensors of a forward that are alive at once where a layer is widest: of the residual stream's width itself, its norm
#: and what attention leaves; and of the MLP the activated gate, what it gates, and their product.
_STREAMS, _INNER = 4, 3
#: Measured on a CPU: what a heap leaves between blocks, and what kernels keep once they have run.
_SLACK, _FIXED = 1.1, 16 << 20


def predicted_bytes(model: LanguageModel, prefix_tokens: int, prompts: Sequence[Prompt], task: Task) -> int:
    """At the peak, for rows behind one prefix, which is computed in one forward; their own tokens take several."""
    own = [prompt.tokens for prompt in prompts]
    kept = (prefix_tokens + _lane_tokens(model, own, task)) * model.shape.bytes_per_token()
    forward = max(prefix_tokens, min(sum(own), FORWARD_TOKENS), max(own))
    layer = forward * _widths(model) * model.shape.dtype.itemsize
    logits = _logit_rows(model, prompts, task) * model.vocab_size * 4
    # When the logits come, the layers are done, and leave their room to them.
    return int(kept * _SLACK + max(layer * _SLACK, logits)) + _FIXED


def _lane_tokens(model: LanguageModel, own: Sequence[int], task: Task) -> int:
    most = usual_lane_bytes(model.device) // model.shape.bytes_per_token()
    match task:
        case Generate():
            # A prompt that several samples read is a node, which lies once by itself and once beside the others.
            split = task.samples > 1
            lanes = [length_class(min((1 if split else n) + task.max_tokens, model.context)) for n in own]
            return min(sum(lanes) * task.samples, most) + (2 * sum(own) if split else 0)
        case Choose() if any(len(label) > 1 for label in task.label_ids):
            return min(len(own), _together(own)) * length_class(max(own))
    return 0


def _together(own: Sequence[int]) -> int:
    """Rows in a forward."""
    return max(1, FORWARD_TOKENS // max(own))


def _logit_rows(model: LanguageModel, prompts: Sequence[Prompt], task: Task) -> int:
    """Rows of the vocabulary's length in fp32, that memory comes to hold at once."""
    own = [prompt.tokens for prompt in prompts]
    some = min(len(own), _together(own))
    scored = max(1, MOST_SCORED_LOGITS // model.vocab_size)
    match task:
        case Generate():
            answers = min(len(own) * task.samples, max(1, MOST_LOGITS // model.vocab_size))
            admitted = some if task.samples == 1 else answers
            return _grown(model, answers, admitted) + answers * (1 + _copies(task))
        case Choose():
            branches = sum(len(label) - 1 for label in task.label_ids)
            return 2 * some + 3 * max(branches, min(some * branches, scored, FORWARD_TOKENS))
        case Score():
            target = max(len(prompt.target) for prompt in prompts)
            return min(some * target, scored) + min(target, scored)
        case Embed():
            return 0


def _grown(model: LanguageModel, answers: int, admitted: int) -> int:
    """A CPU's heap keeps the logits of each step at which more rows run, for the next ones are larger."""
    if model.device.type != "cpu":
        return answers
    return sum(range(admitted, answers, admitted)) + answers


def _copies(task: Generate) -> int:
    """Beside the logits, of their size: what is told of them, and what each step of picking from them makes."""
    asked = task.sampling
    penalised = (asked.repetition_penalty != 1) + (asked.presence_penalty != 0) + (asked.frequency_penalty != 0)
    narrowed = 2 * (asked.top_p is not None) + 2 * (asked.min_p is not None) + (asked.top_k is not None)
    # To draw, they are divided by the temperature, made shares, and those summed up in double precision, a copy of it.
    drawn = 6 + narrowed if asked.temperature > 0 else 0
    # Bits become numbers of 64 bits, twice.
    held = 6 if task.constraint is not None else 0
    return (task.logprobs is not None) + 2 * penalised + drawn + held


def _widths(model: LanguageModel) -> int:
    """Numbers for each token of a forward."""
    config = model.network.config
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    return _STREAMS * int(config.hidden_size) + _INNER * int(inner)
