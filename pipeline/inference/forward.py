"""One forward: rows packed end to end behind the levels that they share, and the logits after some of the tokens."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import torch
from torch import Tensor
from torch.nn.functional import pad

from pipeline.inference.attention import Level, Own, Packed, Prefill
from pipeline.inference.lanes import Lanes
from pipeline.inference.model import LanguageModel
from pipeline.inference.padding import Padding, length_class
from pipeline.inference.stem import Stem

Ids = Sequence[int]

#: Tokens of a deterministic forward are a multiple of it: what is left over by vector instructions is computed by
#: others, which round otherwise, and kernels take few queries to other routines than many.
_STEP = 32


def prefill(
    model: LanguageModel,
    stem: Stem,
    places: Sequence[int],
    rows: Sequence[Ids],
    lanes: Lanes | None,
    first_lane: int = 0,
) -> Tensor:
    """Logits [rows, vocab] after each row's last token; `places` are the rows' places in the stem.

    Keys and values go to `lanes` from `first_lane` on, and nowhere where that is None.
    """
    lengths = [len(row) for row in rows]
    return forward(
        model,
        torch.tensor([token for row in rows for token in row], device=model.device),
        torch.tensor(positions(stem, places, lengths), device=model.device),
        keep=torch.tensor(lengths, device=model.device).cumsum(0) - 1,
        levels=stem.levels(places, lengths),
        own=list(whole_rows(model, lengths, lanes, first_lane)),
    )


def positions(stem: Stem, places: Sequence[int], lengths: Sequence[int]) -> list[int]:
    """Of all tokens of whole rows."""
    starts = [stem.lengths[place] for place in places]
    return [start + n for start, length in zip(starts, lengths, strict=True) for n in range(length)]


def whole_rows(model: LanguageModel, lengths: Sequence[int], lanes: Lanes | None, first_lane: int) -> Iterator[Prefill]:
    """Neighbours of like length attend together, so that little is padded; sorted rows make few such groups."""
    lane = first_lane
    for longest, group in groupby(lengths, length_class):
        some = list(group)
        padding = Padding(some, model.device, longest=longest if model.deterministic else None)
        yield Prefill(model.kernel, padding, lanes, lane)
        lane += len(some)


def forward(
    model: LanguageModel,
    token_ids: Tensor,
    positions: Tensor,
    keep: Tensor | int,
    levels: Sequence[Level],
    own: Sequence[Own],
) -> Tensor:
    """fp32 logits after those tokens of the forward that `keep` counts; 0 keeps all."""
    if model.deterministic and isinstance(keep, int):
        keep = torch.arange(len(token_ids), device=model.device)
    token_ids, positions, packed = _planned(model, token_ids, positions, levels, own)
    return model.logits(token_ids, positions, keep, packed)


def states(
    model: LanguageModel, token_ids: Tensor, positions: Tensor, levels: Sequence[Level], own: Sequence[Own]
) -> Tensor:
    """fp32 states [tokens, width] of all tokens of the forward, behind the model's final norm."""
    return model.states(*_planned(model, token_ids, positions, levels, own))[: len(token_ids)]


def row_states(model: LanguageModel, stem: Stem, places: Sequence[int], rows: Sequence[Ids]) -> Tensor:
    """Those of all tokens of whole rows."""
    lengths = [len(row) for row in rows]
    token_ids = torch.tensor([token for row in rows for token in row], device=model.device)
    at = torch.tensor(positions(stem, places, lengths), device=model.device)
    own = list(whole_rows(model, lengths, None, 0))
    return states(model, token_ids, at, stem.levels(places, lengths), own)


def _planned(
    model: LanguageModel, token_ids: Tensor, positions: Tensor, levels: Sequence[Level], own: Sequence[Own]
) -> tuple[Tensor, Tensor, Packed]:
    """A deterministic forward is filled up with tokens that nobody reads."""
    extra = -len(token_ids) % _STEP if model.deterministic else 0
    if extra:
        own = [*own, Prefill(model.kernel, Padding([extra], model.device))]
        token_ids, positions = pad(token_ids, (0, extra)), pad(positions, (0, extra))
    return token_ids, positions, Packed(model.kernel, positions, levels, own)
