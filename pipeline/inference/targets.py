"""Scoring texts: the log-probability of each token of a row's target, in one forward with its prompt's own tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.inference.attention import Level, Prefill
from pipeline.inference.capacity import Capacity
from pipeline.inference.forward import Ids, forward, positions, whole_rows
from pipeline.inference.lanes import Lanes
from pipeline.inference.model import LanguageModel
from pipeline.inference.padding import Padding
from pipeline.inference.stem import Stem
from pipeline.rows import TokenLogprob

#: Logits of one forward at most, in numbers: 256 MB of fp32.
_LOGITS = 1 << 26

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
        self._most = max(1, _LOGITS // model.vocab_size)

    def run(self, capacity: Capacity) -> list[Likelihood]:
        inputs = [_inputs(row) for row in self._rows]
        places = range(len(self._rows))
        parts = capacity.parts(inputs, lambda part: self._score(places[part]), alike=self._model.deterministic)
        return [found for part in parts for found in part]

    def _score(self, places: Sequence[int]) -> list[Likelihood]:
        """Split until the logits are few enough; a row alone goes in steps then."""
        if sum(len(self._rows[place][1]) for place in places) <= self._most:
            return self._together(places)
        if len(places) == 1:
            return [self._in_steps(places[0])]
        middle = len(places) // 2
        return [*self._score(places[:middle]), *self._score(places[middle:])]

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

    def _in_steps(self, place: int) -> Likelihood:
        """Each step reads the keys and values of those before it, as levels of the row's own."""
        ids, target = _inputs(self._rows[place]), self._rows[place][1]
        start, first = self._stem.lengths[place], len(ids) - len(target)
        before: list[Level] = []
        found: list[Likelihood] = []
        for at in range(0, len(ids), self._most):
            step = ids[at : at + self._most]
            lanes = Lanes(self._model.shape, 1, len(step))
            kept = range(max(first, at), at + len(step))
            logits = forward(
                self._model,
                self._numbers(step),
                self._numbers(range(start + at, start + at + len(step))),
                keep=self._numbers([token - at for token in kept]),
                levels=[*self._stem.levels([place], [len(step)]), *before],
                own=[Prefill(self._model.kernel, Padding([len(step)], self._model.device), lanes)],
            )
            before.append(Level(lanes, 0, self._numbers([start + at]), len(step), None, None, None))
            found.append(self._measured(logits, target[len(target) - len(ids) + kept.start :][: len(kept)]))
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
