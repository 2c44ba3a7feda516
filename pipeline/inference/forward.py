"""One prefill: the rows that fit in a forward, packed end to end after the prefix that they share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.inference.attention import Prefill
from pipeline.inference.lanes import Lanes
from pipeline.inference.model import LanguageModel
from pipeline.inference.padding import Padding

#: Prompt tokens in one forward: enough to fill two cores or a small GPU, little enough to bound activations.
FORWARD_TOKENS = 2048
#: The same with padding, which kernels that want one sequence a row add.
PADDED_TOKENS = 2 * FORWARD_TOKENS

Ids = Sequence[int]


@dataclass(frozen=True, slots=True)
class Stem:
    """The prefix that all rows of a batch continue: its length in tokens and, unless it is empty, its one lane."""

    length: int
    lanes: Lanes | None


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


def prefill(model: LanguageModel, stem: Stem, rows: Sequence[Ids], lanes: Lanes | None, first_lane: int = 0) -> Tensor:
    """Logits [rows, vocab] after each row's last token; keys and values go to `lanes` from `first_lane` on."""
    lengths = [len(row) for row in rows]
    return model.logits(
        token_ids=[token for row in rows for token in row],
        positions=[stem.length + place for length in lengths for place in range(length)],
        keep=(torch.tensor(lengths).cumsum(0) - 1).tolist(),
        packed=Prefill(model.kernel, Padding(lengths, model.device), stem.lanes, lanes, first_lane),
    )


def visible(lengths: Tensor, longest: int) -> Tensor:
    """Additive mask [rows, 1, 1, longest]: 0 for the first lengths[i] places of row i, -inf beyond."""
    hidden = torch.arange(longest, device=lengths.device) >= lengths[:, None]
    return torch.zeros(hidden.shape, device=lengths.device).masked_fill(hidden, float("-inf"))[:, None, None]
