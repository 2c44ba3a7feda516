"""One forward: rows packed end to end behind the levels that they share, and the logits after some of the tokens."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from pipeline.inference.attention import Level, Own, Packed, Prefill
from pipeline.inference.lanes import Lanes
from pipeline.inference.model import LanguageModel
from pipeline.inference.padding import Padding
from pipeline.inference.stem import Stem

#: Prompt tokens in one forward: enough to fill two cores or a small GPU, little enough to bound activations.
FORWARD_TOKENS = 2048
#: The same with padding, which kernels that want one sequence a row add.
PADDED_TOKENS = 2 * FORWARD_TOKENS

Ids = Sequence[int]


def chunks(rows: Sequence[Ids]) -> Iterator[slice]:
    """Consecutive rows that fit in a forward together; a longer row goes alone. Sorted rows pad least."""
    start, tokens, longest = 0, 0, 0
    for place, row in enumerate(rows):
        tokens, longest = tokens + len(row), max(longest, len(row))
        full = tokens > FORWARD_TOKENS or longest * (place - start + 1) > PADDED_TOKENS
        if full and place > start:
            yield slice(start, place)
            start, tokens, longest = place, len(row), len(row)
    yield slice(start, len(rows))


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
        token_ids=[token for row in rows for token in row],
        positions=[stem.lengths[place] + n for place, row in zip(places, rows, strict=True) for n in range(len(row))],
        keep=(torch.tensor(lengths).cumsum(0) - 1).tolist(),
        levels=stem.levels(places, lengths),
        own=Prefill(Padding(lengths, model.device), lanes, first_lane),
    )


def forward(
    model: LanguageModel,
    token_ids: Sequence[int],
    positions: Sequence[int],
    keep: Sequence[int],
    levels: Sequence[Level],
    own: Own,
) -> Tensor:
    """fp32 logits [len(keep), vocab] after those tokens of the forward that `keep` counts."""
    where = torch.tensor(positions, device=model.device)
    return model.logits(
        torch.tensor(token_ids, device=model.device),
        where,
        torch.tensor(keep, device=model.device),
        Packed(model.kernel, where, levels, own),
    )
