"""Before a model's first batch: its packed logits against its plain ones, so that a family unforeseen is found out."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pipeline.errors import ModelError
from pipeline.inference import attention
from pipeline.inference.attention import Decode
from pipeline.inference.forward import forward, prefill
from pipeline.inference.lanes import Lanes
from pipeline.inference.model import LanguageModel
from pipeline.inference.padded import padded_states
from pipeline.inference.stem import Node, Stem

#: Largest difference, as a share of the largest logit.
_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float16: 1e-2}
_TOKENS = 5
#: Places in a lane that no row fills, which must not be seen.
_ROOM = 3


@torch.inference_mode()
def prove(model: LanguageModel) -> None:
    """Two short rows after a shared prefix, packed, against each alone through transformers' own attention.

    Their last tokens are decoded, those before them prefilled. Raises ModelError where the logits differ.
    """
    numbers = torch.Generator().manual_seed(0)
    prefix, *rows = torch.randint(model.vocab_size, (3, _TOKENS), generator=numbers).tolist()
    ours = _packed(model, prefix, rows)
    model.network.set_attn_implementation("eager")
    whole = torch.tensor([[*prefix, *row] for row in rows], device=model.device)
    plain = model.network(input_ids=whole, use_cache=False, logits_to_keep=2).logits.float()
    model.network.set_attn_implementation(attention.registered())
    difference = ((ours - plain).abs().max() / plain.abs().max()).item()
    if not difference <= _TOLERANCE[model.shape.dtype]:
        raise ModelError(
            f"Models of type {model.network.config.model_type} cannot be answered exactly with shared prefixes: "
            f"packed logits differ from the plain model's by {difference:.1%}. Llama, Qwen and GPT-2 models work"
            f"{'' if model.shape.dtype == torch.float32 else ', and this one may with --dtype float32'}."
        )


@torch.inference_mode()
def prove_padding(model: LanguageModel) -> None:
    """A short row padded beside a long one, against each alone. Raises ModelError where their states differ."""
    numbers = torch.Generator().manual_seed(0)
    long, short = torch.randint(model.vocab_size, (2, 2 * _TOKENS), generator=numbers).tolist()
    rows = [long, short[:_TOKENS]]
    alone = torch.cat([states for row in rows for states in padded_states(model, [row])])
    difference = ((torch.cat(padded_states(model, rows)) - alone).abs().max() / alone.abs().max()).item()
    if not difference <= _TOLERANCE[model.shape.dtype]:
        raise ModelError(
            f"Models of type {model.network.config.model_type} cannot embed texts of different lengths together: "
            f"padding changes their states by {difference:.1%}. BERT, RoBERTa and MPNet models work."
        )


def _packed(model: LanguageModel, prefix: Sequence[int], rows: Sequence[Sequence[int]]) -> Tensor:
    """Logits [rows, 2, vocab] after the last tokens of each row."""
    kept, lanes = Lanes(model.shape, 1, _TOKENS), Lanes(model.shape, len(rows), _TOKENS + _ROOM)
    prefill(model, Stem([()], model.device), [0], [prefix], kept)
    stem, places = Stem([(Node(0, kept),)] * len(rows), model.device), range(len(rows))
    prefilled = prefill(model, stem, places, [row[:-1] for row in rows], lanes)
    last = torch.full((len(rows),), _TOKENS - 1, device=model.device)
    decoded = forward(
        model,
        token_ids=torch.tensor([row[-1] for row in rows], device=model.device),
        positions=_TOKENS + last,
        keep=0,
        levels=stem.levels(places, [1] * len(rows)),
        own=[Decode(model.decode_kernel, lanes, last, last + 1, _TOKENS)],
    )
    return torch.stack([prefilled, decoded], 1)
