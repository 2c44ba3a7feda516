"""The running rows as the device sees them. While none joins or leaves, a step only changes numbers in place."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pipeline.inference.attention import Decode, Own
from pipeline.inference.forward import forward, positions, whole_rows
from pipeline.inference.model import LanguageModel
from pipeline.inference.ranks import Answer, Rank
from pipeline.inference.spans import Spans
from pipeline.inference.stem import Stem


class Crew:
    """Laid out anew whenever rows have joined or left; rank after rank, in the order of their lanes."""

    def __init__(self, model: LanguageModel, stem: Stem, ranks: Sequence[Rank]) -> None:
        self._model, self._stem = model, stem
        self._ranks = [rank for rank in ranks if rank.running]
        self._sizes = [len(rank.running) for rank in self._ranks]
        self._longest = [max(answer.length for answer in rank.running) + 1 for rank in self._ranks]
        self.answers = [answer for rank in self._ranks for answer in rank.running]
        self.places = [answer.place for answer in self.answers]
        self._token_ids = self._numbers([answer.newest for answer in self.answers])
        self._lane_places = self._numbers([answer.length for answer in self.answers])
        self._positions = self._lane_places + self._numbers([stem.lengths[place] for place in self.places])
        self._levels = stem.levels(self.places, [1] * len(self.places))

    def step(self) -> Tensor:
        """Logits [running, vocab] after each row's newest token; none may be overdue."""
        return forward(self._model, self._token_ids, self._positions, 0, self._levels, self._own())

    def step_with(self, newcomers: Sequence[tuple[Rank, Sequence[Answer]]]) -> Tensor:
        """The same, and logits after the prompts of those just admitted, in their order: one forward for all.

        What is overdue comes first, so that the newest tokens find its keys in their lanes.
        """
        answers = [answer for _, admitted in newcomers for answer in admitted]
        places, lengths = [answer.place for answer in answers], [len(answer.ids) for answer in answers]
        token_ids = self._numbers([token for answer in answers for token in answer.ids])
        late = [answer for answer in self.answers if answer.overdue]
        late_places, late_lengths = [answer.place for answer in late], [answer.overdue for answer in late]
        before, running = sum(late_lengths), len(self.places)
        return forward(
            self._model,
            torch.cat([self._numbers(_overdue_ids(late)), self._token_ids, token_ids]),
            torch.cat(
                [
                    self._numbers(_overdue_positions(self._stem, late)),
                    self._positions,
                    self._numbers(positions(self._stem, places, lengths)),
                ]
            ),
            keep=before + torch.cat([self._numbers(range(running)), running - 1 + self._numbers(lengths).cumsum(0)]),
            levels=self._stem.levels([*late_places, *self.places, *places], [*late_lengths, *[1] * running, *lengths]),
            own=[*self._spans(), *self._own(), *self._prompts(newcomers)],
        )

    def advance(self, token_ids: Tensor) -> None:
        """Each row's next token [running]; all go on."""
        self._token_ids.copy_(token_ids)
        self._lane_places += 1
        self._positions += 1
        self._longest = [longest + 1 for longest in self._longest]

    def _own(self) -> list[Own]:
        ranks = zip(self._ranks, torch.split(self._lane_places, self._sizes), self._longest, strict=True)
        return [
            Decode(
                self._model.decode_kernel,
                rank.lanes,
                places,
                places + 1,
                rank.lanes.capacity if self._model.deterministic else longest,
            )
            for rank, places, longest in ranks
        ]

    def _spans(self) -> list[Own]:
        """In the order of the answers."""
        late = [
            (rank, [(lane, answer) for lane, answer in enumerate(rank.running) if answer.overdue])
            for rank in self._ranks
        ]
        return [
            Spans(
                self._model.kernel,
                rank.lanes,
                [lane for lane, _ in some],
                [answer.length - answer.overdue for _, answer in some],
                [answer.overdue for _, answer in some],
            )
            for rank, some in late
            if some
        ]

    def _prompts(self, newcomers: Sequence[tuple[Rank, Sequence[Answer]]]) -> list[Own]:
        return [
            own
            for rank, admitted in newcomers
            for own in whole_rows(
                self._model,
                [len(answer.ids) for answer in admitted],
                rank.lanes,
                len(rank.running) - len(admitted),
            )
        ]

    def _numbers(self, values: Sequence[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.long, device=self._model.device)


def _overdue_ids(answers: Sequence[Answer]) -> list[int]:
    return [token for answer in answers for token in answer.token_ids[-answer.overdue - 1 : -1]]


def _overdue_positions(stem: Stem, answers: Sequence[Answer]) -> list[int]:
    ends = [(answer, stem.lengths[answer.place] + answer.length) for answer in answers]
    return [position for answer, end in ends for position in range(end - answer.overdue, end)]
