"""Answers for the rows of a batch: they stream through the lanes, and a lane that falls free is taken at the next step.

step    | 0               | 1                   | 2               | 3
lane 0  | row 0 prefill   | row 0 decode        | decode, ends    | row 2 prefill
lane 1  | row 1 prefill   | row 1 decode, ends  | row 3 prefill   | row 3 decode       each step is one packed forward
"""

from collections import deque
from collections.abc import Callable, Sequence

from torch import Tensor

from pipeline.constraints import Guide
from pipeline.inference.capacity import Capacity, is_out_of_memory
from pipeline.inference.crew import Crew
from pipeline.inference.lane_pool import LanePool
from pipeline.inference.long_row import LongRow
from pipeline.inference.model import LanguageModel
from pipeline.inference.padding import length_class
from pipeline.inference.ranks import Answer, Rank
from pipeline.inference.sampling import Picker
from pipeline.inference.stem import Stem
from pipeline.inference.stopping import StopRule
from pipeline.rows import TokenLogprob
from pipeline.timing import Stopwatch

#: Logits of one step at most, in numbers: 512 MB of fp32.
MOST_LOGITS = 1 << 27

#: Logits of a step, the ids picked -> what is to be told of them.
Report = Callable[[Tensor, Tensor], Sequence[TokenLogprob | None]]


class Generation:
    """One batch; `run` closes every answer. The picker and its guide know the answers by their places."""

    def __init__(
        self,
        model: LanguageModel,
        stem: Stem,
        answers: Sequence[Answer],
        rule: StopRule,
        picker: Picker,
        pool: LanePool,
        capacity: Capacity,
        report: Report | None = None,
        guide: Guide | None = None,
    ) -> None:
        self._model, self._stem, self._rule, self._picker = model, stem, rule, picker
        self._capacity, self._report, self._guide, self._pool = capacity, report, guide, pool
        # What must come next needs no logits, unless they are to be told; how much of it a forward reads beside a row's
        # own tokens depends on other rows, and so do last digits.
        self._skips = guide is not None and report is None and not model.deterministic
        blocks = pool.open([answer.longest for answer in answers])
        self._ranks = [
            Rank(lanes, deque(answer for answer in answers if length_class(answer.longest) == longest))
            for longest, lanes in sorted(blocks.items(), reverse=True)
        ]
        self._crew = Crew(model, stem, self._ranks)

    def run(self, watch: Stopwatch) -> None:
        """A forward with prompts in it counts as prefill, whatever it decodes beside them."""
        while any(rank.waiting or rank.running for rank in self._ranks):
            with watch.stage("prefill"):
                self._read_in_steps()
            newcomers = self._admit()
            with watch.stage("prefill" if newcomers else "decode"):
                self._step(newcomers)
            self._pool.in_use = len(self._crew.answers)

    def _admit(self) -> list[tuple[Rank, list[Answer]]]:
        """The longest rows first, for they may take longest; a row that no forward holds runs when it is alone."""
        room = self._capacity.tokens - self._overdue
        seats = self._seats
        newcomers = []
        for rank in self._ranks:
            if admitted := rank.admit(room, seats):
                newcomers.append((rank, admitted))
                room -= sum(len(answer.ids) for answer in admitted)
                seats -= len(admitted)
        if not newcomers and not self._crew.answers:
            rank = next(rank for rank in self._ranks if rank.waiting)
            newcomers.append((rank, rank.admit(len(rank.waiting[0].ids), 1)))
        return newcomers

    @property
    def _overdue(self) -> int:
        return sum(answer.overdue for answer in self._crew.answers)

    @property
    def _seats(self) -> int:
        most = min(self._capacity.rows, max(1, MOST_LOGITS // self._model.vocab_size))
        return most - sum(len(rank.running) for rank in self._ranks)

    def _read_in_steps(self) -> None:
        """What no forward holds, but for a row's newest token, with which it goes on among those that run."""
        seats, behind = self._seats, self._overdue > self._capacity.longest
        for rank in self._ranks:
            for answer in rank.running if behind else ():
                self._read(rank, answer, answer.length - answer.overdue)
            while rank.waiting and len(rank.waiting[0].ids) > self._capacity.longest:
                admitted = rank.admit(len(rank.waiting[0].ids), min(1, self._seats))
                if not admitted:
                    break
                self._read(rank, admitted[0], 0)
        if self._seats < seats:
            self._crew = Crew(self._model, self._stem, self._ranks)

    def _read(self, rank: Rank, answer: Answer, start: int) -> None:
        ids, lane = answer.ids[:-1], rank.running.index(answer)
        row = LongRow(self._model, self._stem, answer.place, ids, rank.lanes, lane)
        for _ in self._capacity.steps(row.read, len(ids), start):
            pass
        answer.overdue = 0

    def _step(self, newcomers: Sequence[tuple[Rank, Sequence[Answer]]]) -> None:
        """Its logits are gone before the next one asks for memory."""
        logits = self._forward(newcomers)
        if logits is not None:
            self._extend([*self._crew.answers, *(answer for _, some in newcomers for answer in some)], logits)

    def _forward(self, newcomers: Sequence[tuple[Rank, Sequence[Answer]]]) -> Tensor | None:
        """None where memory ran out, and less is to be tried."""
        if not newcomers and not any(answer.overdue for answer in self._crew.answers):
            return self._crew.step()
        try:
            return self._crew.step_with(newcomers)
        except Exception as error:
            tokens = [len(answer.ids) for _, admitted in newcomers for answer in admitted]
            if not is_out_of_memory(error) or not self._tries_less(tokens):
                raise
            for rank, admitted in newcomers:
                rank.dismiss(admitted)
            return None

    def _tries_less(self, tokens: Sequence[int]) -> bool:
        """Of what prompts, or else forced tokens, brought into a forward, or else of rows; False where all is least."""
        running = len(self._crew.answers)
        if len(tokens) > 1:
            self._capacity.halve(sum(tokens))
            return True
        alone = sum(tokens) or self._overdue
        if alone > running and self._capacity.shorten(alone):
            return True
        if tokens and running:
            self._capacity.rows = running
            return True
        return False

    def _extend(self, answers: Sequence[Answer], logits: Tensor) -> None:
        """The only place that waits for the device: for the tokens picked, and what is to be told of them."""
        picked = self._picker.choose([answer.place for answer in answers], logits)
        told = [None] * len(answers) if self._report is None else self._report(logits, picked)
        for answer, token, logprob in zip(answers, picked.tolist(), told, strict=True):
            answer.overdue = 0
            self._append(answer, token, logprob)
            if self._guide is not None and self._skips:
                self._append_forced(answer, self._guide)
        left = [rank.close() for rank in self._ranks]
        if any(left) or any(answer.overdue for answer in answers) or len(answers) > len(self._crew.answers):
            self._crew = Crew(self._model, self._stem, self._ranks)
        else:
            self._crew.advance(picked)

    def _append(self, answer: Answer, token: int, logprob: TokenLogprob | None) -> None:
        if token < 0:
            stuck = self._guide is not None and self._guide.is_stuck(answer.place)
            answer.finish = "stuck" if stuck else "numeric"
            return
        answer.token_ids.append(token)
        if logprob is not None:
            answer.logprobs.append(logprob)
        whole = self._guide is not None and self._guide.take(answer.place, token)
        if whole or self._rule.stops(answer.token_ids):
            answer.finish = "stop"
        elif len(answer.token_ids) >= answer.limit:
            answer.finish = "length"

    def _append_forced(self, answer: Answer, guide: Guide) -> None:
        """All that must come next, without a forward; the next one reads it beside the newest token."""
        before = len(answer.token_ids)
        while answer.finish is None and (forced := guide.forced(answer.place)):
            self._append(answer, forced[0], None)
        answer.overdue = len(answer.token_ids) - before
        self._picker.pass_over(answer.place, answer.token_ids[before:])
