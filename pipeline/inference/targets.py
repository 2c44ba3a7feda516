"""Scoring texts: the log-probability of each token of a row's target, in one forward with its prompt's own tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.inference.capacity import Capacity
from pipeline.inference.forward import Ids, forward, positions, whole_rows
from pipeline.inference.lanes import Lanes
from pipeline.inference.long_row import LongRow
from pipeline.inference.model import LanguageModel
from pipeline.inference.stem import Stem
from pipeline.rows import TokenLogprob

#: Logits of one forward at most, in numbers: 256 MB of fp32.
MOST_SCORED_LOGITS = 1 << 26

#: Logits [tokens, vocab] and the tokens [tokens] that did come -> what is told of each.
Report = Callable[[Tensor, Tensor], Sequence[TokenLogprob | None]]
#: A prompt's own ids, then its target's.
Row = tuple[Ids, Ids]


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Of the tokens of one target, in their order; not finite where the model's logits were not."""

    logprobs: tuple[float, ...]
    tokens: tuple[TokenLogprob, ...] = ()


class Scoring:
    """Over the rows of a batch, which continue the stem."""

    def __init__(self, model: LanguageModel, stem: Stem, rows: Sequence[Row], report: Report | None) -> None:
        self._model, self._stem, self._rows, self._report = model, stem, rows, report
        self._most = max(1, MOST_SCORED_LOGITS // model.vocab_size)

    def run(self, capacity: Capacity) -> list[Likelihood]:
        inputs = [_inputs(row) for row in self._rows]
        places = range(len(self._rows))

        def score(part: slice) -> list[Likelihood]:
            return self._score(places[part], capacity)

        def in_steps(place: int) -> list[Likelihood]:
            return [self._in_steps(place, capacity)]

        parts = capacity.parts(inputs, score, in_steps, alike=self._model.deterministic)
        return [found for part in parts for found in part]

    def _score(self, places: Sequence[int], capacity: Capacity) -> list[Likelihood]:
        """Split until the logits are few enough; a row alone goes in steps then."""
        if sum(len(self._rows[place][1]) for place in places) <= self._most:
            return self._together(places)
        if len(places) == 1:
            return [self._in_steps(places[0], capacity)]
        middle = len(places) // 2
        return [*self._score(places[:middle], capacity), *self._score(places[middle:], capacity)]

    def _together(self, places: Sequence[int]) -> list[Likelihood]:
        rows = [self._rows[place] for place in places]
        inputs = [_inputs(row) for row in rows]
        lengths = list(map(len, inputs))
        ends = torch.tensor(lengths).cumsum(0).tolist()
        kept = [end - n for end, (_, target) in zip(ends, rows, strict=True) for n in range(len(target), 0, -1)]
        logits = forward(
            self._model,
            self._numbers([token for ids in inputs for token in ids]),
            self._numbers(positions(self._stem, places, lengths)),
            keep=self._numbers(kept),
            levels=self._stem.levels(places, lengths),
            own=list(whole_rows(self._model, lengths, None, 0)),
        )
        targets = [target for _, target in rows]
        parts = torch.split(logits, list(map(len, targets)))
        return [self._measured(part, target) for part, target in zip(parts, targets, strict=True)]

    def _in_steps(self, place: int, capacity: Capacity) -> Likelihood:
        ids, target = _inputs(self._rows[place]), self._rows[place][1]
        first = len(ids) - len(target)
        row = LongRow(self._model, self._stem, place, ids, Lanes(self._model.shape, 1, len(ids)))

        def score(step: slice) -> Likelihood:
            kept = range(max(first, step.start), step.stop)
            return self._measured(row.logits(step, kept), target[kept.start - first :][: len(kept)])

        found = list(capacity.steps(score, len(ids), most=self._most))
        return Likelihood(
            tuple(logprob for step in found for logprob in step.logprobs),
            tuple(token for step in found for token in step.tokens),
        )

    def _measured(self, logits: Tensor, token_ids: Ids) -> Likelihood:
        targets = self._numbers(token_ids)
        logprobs = logits.gather(-1, targets[:, None])[:, 0] - logits.logsumexp(-1)
        tokens = self._report(logits, targets) if self._report else ()
        return Likelihood(tuple(logprobs.tolist()), tuple(token for token in tokens if token is not None))

    def _numbers(self, values: Sequence[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.long, device=self._model.device)


def _inputs(row: Row) -> list[int]:
    """What the model reads; nothing is computed after the last token."""
    own, target = row
    return [*own, *target[:-1]]
