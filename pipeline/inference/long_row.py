"""A row of which no forward holds all tokens: read step by step, each behind those before it, which lie in its lane."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.inference.attention import Level, Own, Prefill
from pipeline.inference.forward import forward, states
from pipeline.inference.lanes import Lanes
from pipeline.inference.model import LanguageModel
from pipeline.inference.padding import Padding
from pipeline.inference.stem import Stem


@dataclass(frozen=True, slots=True)
class LongRow:
    """The stem's row at `place`, whose own tokens are `ids`. Steps are consecutive; one that failed may be repeated.

    lane      |  read before, seen by all of the step  |  the step, each token sees those before it  |  unused
    places    0                                      start                                         stop
    """

    model: LanguageModel
    stem: Stem
    place: int
    ids: Sequence[int]
    lanes: Lanes
    lane: int = 0

    def read(self, step: slice) -> Tensor:
        """fp32 logits [1, vocab] after the step's last token."""
        return self.logits(step, range(step.stop - 1, step.stop))

    def logits(self, step: slice, kept: range) -> Tensor:
        """fp32 logits [kept, vocab] after those of the step's tokens, as the row counts them."""
        keep = self._numbers(kept) - step.start
        return forward(self.model, *self._tokens(step), keep, self._levels(step), self._own(step))

    def states(self, step: slice) -> Tensor:
        """fp32 states [tokens, width] of the step's tokens, behind the model's final norm."""
        return states(self.model, *self._tokens(step), self._levels(step), self._own(step))

    def _tokens(self, step: slice) -> tuple[Tensor, Tensor]:
        first = self.stem.lengths[self.place]
        return self._numbers(self.ids[step]), self._numbers(range(first + step.start, first + step.stop))

    def _levels(self, step: slice) -> list[Level]:
        shared = self.stem.levels([self.place], [step.stop - step.start])
        if step.start == 0:
            return shared
        first = self._numbers([self.stem.lengths[self.place]])
        return [*shared, Level(self.lanes, self.lane, first, step.start, None, None, None)]

    def _own(self, step: slice) -> list[Own]:
        padding = Padding([step.stop - step.start], self.model.device)
        return [Prefill(self.model.kernel, padding, self.lanes, self.lane, step.start)]

    def _numbers(self, values: Sequence[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.long, device=self.model.device)
