"""Inside stage 5: scores of tokens that a row has seen already are lowered, before one of them is picked."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

#: Scores of tokens that were seen -> what they become.
Rule = Callable[[Tensor], Tensor]

#: In a row that has seen less than others: over any token id.
_NOTHING = 1 << 40


def repetition(penalty: float) -> Rule:
    """As transformers' RepetitionPenaltyLogitsProcessor has it (Keskar et al. 2019): scores are scaled towards less."""
    return lambda scores: torch.where(scores < 0, scores * penalty, scores / penalty)


def presence(penalty: float) -> Rule:
    """As OpenAI's API has it: a score is lowered once, however often its token was seen."""
    return lambda scores: scores - penalty


class Penalty:
    """A rule for all rows of a batch, and what each of them has seen: its history first, then what is added."""

    def __init__(self, rule: Rule, histories: Sequence[Sequence[int]]) -> None:
        distinct = [torch.tensor(sorted(set(history)), dtype=torch.long) for history in histories]
        self._rule = rule
        self._seen = pad_sequence(distinct, batch_first=True, padding_value=_NOTHING)

    def lower(self, places: Sequence[int], scores: Tensor) -> Tensor:
        """scores [rows, vocab] -> the same; `places` are those of the rows in the batch."""
        self._seen = self._seen.to(scores.device)
        # One column more takes what is nothing, and tokens that a model reads but has no scores for.
        token_ids = self._seen[list(places)].clamp(max=scores.shape[-1])
        wide = pad(scores, (0, 1))
        return wide.scatter(1, token_ids, self._rule(wide.gather(1, token_ids)))[:, :-1]

    def add(self, places: Sequence[int], token_ids: Sequence[int]) -> None:
        """One token for each of the places, which are distinct."""
        column = torch.full((len(self._seen), 1), _NOTHING)
        column[list(places), 0] = torch.tensor(token_ids, dtype=torch.long)
        self._seen = torch.cat([self._seen, column.to(self._seen.device)], 1)
