"""Inside stage 5: scores of tokens that a row has seen already are lowered, before one of them is picked."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

#: scores [rows, vocab] and the ids that each row has seen [rows, n], some of them more than once -> scores.
Rule = Callable[[Tensor, Tensor], Tensor]

#: In a row that has seen less than others: over any token id.
_NOTHING = 1 << 40
#: Columns for what rows see grow by so many.
_ROOM = 64


def repetition(penalty: float) -> Rule:
    """As transformers' RepetitionPenaltyLogitsProcessor has it (Keskar et al. 2019): scores are scaled towards less."""

    def lowered(scores: Tensor, seen: Tensor) -> Tensor:
        found = scores.gather(1, seen)
        return scores.scatter(1, seen, torch.where(found < 0, found * penalty, found / penalty))

    return lowered


def presence(penalty: float) -> Rule:
    """As OpenAI's API has it: a score is lowered once, however often its token was seen."""
    return lambda scores, seen: scores.scatter(1, seen, scores.gather(1, seen) - penalty)


def frequency(penalty: float) -> Rule:
    """As OpenAI's API has it: a score is lowered each time that its token was seen."""
    return lambda scores, seen: scores.scatter_add(1, seen, scores.new_full(seen.shape, -penalty))


class Penalty:
    """A rule for all rows of a batch, and what each of them has seen: its history first, then what is added.

    What was seen stays on the device; how much it is, is known here, so that nothing has to wait for the device. While
    the places stay the same, nothing is brought to it either.
    """

    def __init__(self, rule: Rule, histories: Sequence[Sequence[int]]) -> None:
        distinct = [torch.tensor(sorted(set(history)), dtype=torch.long) for history in histories]
        self._rule = rule
        self._counts = [len(history) for history in distinct]
        self._seen = pad_sequence(distinct, batch_first=True, padding_value=_NOTHING)
        self._places: list[int] = []
        self._rows = self._columns = self._index([])  # of these places: where in `_seen` their next tokens go

    def lower(self, places: Sequence[int], scores: Tensor) -> Tensor:
        """scores [rows, vocab] -> the same; `places` are those of the rows in the batch, which are distinct."""
        if self._seen.device != scores.device:
            self._seen, self._places = self._seen.to(scores.device), []
        self._turn_to(places)
        longest = max((self._counts[place] for place in places), default=0)
        # One column more takes what is nothing, and tokens that a model reads but has no scores for.
        token_ids = self._seen[self._rows, :longest].clamp(max=scores.shape[-1])
        return self._rule(pad(scores, (0, 1)), token_ids)[:, :-1]

    def add(self, places: Sequence[int], token_ids: Tensor) -> None:
        """token_ids [rows], one for each of the places, which are distinct; below 0 is nothing."""
        self._turn_to(places)
        longest = max((self._counts[place] for place in places), default=0)
        if longest >= self._seen.shape[1]:
            self._seen = pad(self._seen, (0, longest + _ROOM - self._seen.shape[1]), value=_NOTHING)
        seen = token_ids.masked_fill(token_ids < 0, _NOTHING)
        self._seen.index_put_((self._rows, self._columns), seen.to(self._seen.device))
        self._columns += 1
        for place in places:
            self._counts[place] += 1

    def _turn_to(self, places: Sequence[int]) -> None:
        if self._places != list(places):
            self._places = list(places)
            self._rows = self._index(self._places)
            self._columns = self._index([self._counts[place] for place in places])

    def _index(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.long, device=self._seen.device)
