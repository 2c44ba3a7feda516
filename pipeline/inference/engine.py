"""Stage 5: a batch in, a completion for each of its rows out. Knows token ids only; text comes from `decode`."""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from pipeline.constraints import Constraints, Guide
from pipeline.inference.capacity import FORWARD_TOKENS, Capacity, is_out_of_memory, usual_lane_bytes
from pipeline.inference.completions import Finished, chosen, embedded, finish, scored, written
from pipeline.inference.embeddings import embed
from pipeline.inference.generation import Generation
from pipeline.inference.labels import Labelling
from pipeline.inference.lane_pool import LanePool
from pipeline.inference.logprobs import token_logprobs, token_text
from pipeline.inference.model import LanguageModel
from pipeline.inference.planting import plant
from pipeline.inference.prefix_store import Path, PrefixStore
from pipeline.inference.ranks import Answer
from pipeline.inference.sampling import Picker
from pipeline.inference.seats import Party, Seat, by_task, passing, seat
from pipeline.inference.stem import Chain, Stem
from pipeline.inference.stopping import Decoder, StopRule
from pipeline.inference.targets import Scoring
from pipeline.rows import (
    Asked,
    Batch,
    BatchTiming,
    Choose,
    Completion,
    Embed,
    Generate,
    Score,
    Task,
    TokenLogprob,
    samples_of,
    tasks_of,
)
from pipeline.timing import Stopwatch

Complete = Callable[[Seat], Completion]


@dataclass(frozen=True, slots=True)
class _Common:
    """To all parties of a batch."""

    watch: Stopwatch
    questions: int  #: asked of each row
    passing: Container[Path]


class Engine:
    """One model on one device, kept warm; prefixes, lanes, and how much memory allows, last from batch to batch."""

    def __init__(
        self,
        model: LanguageModel,
        prefixes: PrefixStore,
        decode: Decoder,
        *,
        forward_tokens: int = FORWARD_TOKENS,
        max_lane_bytes: int | None = None,
        constraints: Constraints | None = None,
        write: Decoder | None = None,
    ) -> None:
        """`write` is what makes an answer's text, where that differs from what `decode` makes of a few tokens.

        Without `constraints`, no answer can be held to any.
        """
        self._model, self._prefixes, self._write = model, prefixes, write or decode
        self._pool = LanePool(model.shape, max_lane_bytes or usual_lane_bytes(model.device))
        self._capacity = Capacity(forward_tokens, whole=model.deterministic)
        self._labelling = Labelling(self._capacity)
        self._text = token_text(decode)
        self._constraints = constraints

    @property
    def prefixes(self) -> PrefixStore:
        return self._prefixes

    @property
    def lanes(self) -> LanePool:
        return self._pool

    @property
    def device(self) -> str:
        return str(self._model.device)

    def answer(self, batch: Batch, task: Asked) -> tuple[list[Completion], BatchTiming]:
        """A completion for every prompt, in no promised order: join by row_id."""
        return self.run(batch, task).written()

    @torch.inference_mode()
    def run(self, batch: Batch, task: Asked) -> Finished:
        """All that needs the device.

        Where memory runs out although each forward is as small as can be, fewer rows run at once from then on.
        All is as before once that does not help either: other rows may have nothing of it.
        """
        known, lane_bytes = replace(self._capacity), self._pool.max_bytes
        while True:
            try:
                return self._run(batch, task)
            except Exception as error:
                if not is_out_of_memory(error) or not self._pool.halve():
                    self._capacity.recall(known)
                    self._pool.max_bytes = lane_bytes
                    raise

    def _run(self, batch: Batch, asked: Asked) -> Finished:
        """Task by task; but what their rows share, such as a text of which each asks something, is computed once."""
        by_reading = by_task(batch, asked, self._model)
        parties = [Party(task, model, self._seats(part, task)) for task, model, part in by_reading]
        questions = len(tasks_of(asked))
        common = _Common(Stopwatch(), questions, passing(parties, batch.prefix, questions))
        rows: list[Callable[[], Completion]] = []
        computed = sum(len(seat.own_ids) * party.samples for party in parties for seat in party.seats)
        for alike in _read_alike(parties):
            chains, planted = self._plant(alike[0].model, [path for party in alike for path in party.paths], common)
            computed += planted
            for party in alike:
                own, chains = chains[: len(party.paths)], chains[len(party.paths) :]
                rows += self._answered(party, own, common)
        seconds = common.watch.seconds
        timing = BatchTiming(
            prefix_s=seconds["prefix"],
            prefill_s=seconds["prefill"],
            decode_s=seconds["decode"],
            computed_tokens=computed,
            reused_tokens=sum(seat.tokens * party.samples for party in parties for seat in party.seats) - computed,
        )
        return Finished(tuple(rows), timing)

    def _plant(self, model: LanguageModel, paths: Sequence[Sequence[Path]], common: _Common) -> tuple[list[Chain], int]:
        with common.watch.stage("prefix"):
            return plant(model, self._prefixes, paths, self._capacity, common.passing)

    def _seats(self, batch: Batch, task: Task) -> list[Seat]:
        if isinstance(task, Embed) and (task.pooling == "mean" or not self._model.causal):
            batch = _undivided(batch)
        return seat(_uncut(batch)) if self._model.deterministic else seat(batch, split=samples_of(task) > 1)

    def _answered(self, party: Party, chains: Sequence[Chain], common: _Common) -> list[Callable[[], Completion]]:
        """`chains` are those of each answer."""
        with common.watch.stage("prefix"):
            stem = Stem(chains, self._model.device)
        match party.task:
            case Generate() as task:
                completing = self._generate(party, stem, task, common)
            case Choose() as task:
                completing = self._choose(party, stem, task, common.watch)
            case Score() as task:
                completing = self._score(party, stem, task, common.watch)
            case Embed() as task:
                completing = self._embed(party, stem, task, common.watch)
        return [partial(finish, seat, complete) for seat, complete in zip(party.seats, completing, strict=True)]

    def _generate(self, party: Party, stem: Stem, task: Generate, common: _Common) -> list[Complete]:
        """A question draws as it would if nothing else was asked."""
        rule = StopRule(self._model.stop_ids, task.stop, self._write)
        every = [(seat, sample_no) for seat in party.seats for sample_no in range(task.samples)]
        answers = [
            Answer(place, seat.own_ids, min(task.max_tokens, party.model.room - seat.tokens))
            for place, (seat, _) in enumerate(every)
        ]
        guide = self._guide(task, len(every))
        picker = Picker(
            task.sampling,
            [(seat.prompt.row_id // common.questions, sample_no) for seat, sample_no in every],
            [seat.token_ids for seat, _ in every],
            guide,
        )
        report = self._report(task.logprobs)

        def generate(model: LanguageModel, stem: Stem, some: Sequence[Answer]) -> None:
            Generation(model, stem, some, rule, picker, self._pool, self._capacity, report, guide).run(common.watch)

        generate(party.model, stem, answers)
        limits = [min(task.max_tokens, self._model.context - seat.tokens) for seat, _ in every]
        if grown := [answer for answer in answers if answer.grow(limits[answer.place])]:
            long = replace(party.model, stretched=True)
            paths = [() if answer.finish else seat.paths for answer, (seat, _) in zip(answers, every, strict=True)]
            chains, _ = self._plant(long, paths, common)
            generate(long, Stem(chains, self._model.device), grown)
        n = task.samples
        return [
            partial(written, answers=answers[n * row : n * (row + 1)], rule=rule, task=task)
            for row in range(len(party.seats))
        ]

    def _guide(self, task: Generate, count: int) -> Guide | None:
        if task.constraint is None:
            return None
        assert self._constraints is not None
        return self._constraints.guide(task.constraint, count, self._model.stop_ids)

    def _choose(self, party: Party, stem: Stem, task: Choose, watch: Stopwatch) -> list[Complete]:
        with watch.stage("prefill"):
            found = self._labelling.run(party.model, stem, [seat.own_ids for seat in party.seats], task)
        return [partial(chosen, probabilities=of_labels, task=task) for of_labels in found]

    def _score(self, party: Party, stem: Stem, task: Score, watch: Stopwatch) -> list[Complete]:
        rows = [(seat.own_ids, seat.prompt.target) for seat in party.seats]
        with watch.stage("prefill"):
            found = Scoring(party.model, stem, rows, self._report(task.logprobs)).run(self._capacity)
        return [partial(scored, found=likelihood) for likelihood in found]

    def _embed(self, party: Party, stem: Stem, task: Embed, watch: Stopwatch) -> list[Complete]:
        with watch.stage("prefill"):
            vectors = embed(party.model, stem, [seat.own_ids for seat in party.seats], task, self._capacity)
        return [partial(embedded, vector=vector) for vector in vectors]

    def _report(self, top: int | None) -> Callable[[Tensor, Tensor], list[TokenLogprob | None]] | None:
        return None if top is None else partial(token_logprobs, top=top, text=self._text)


def _read_alike(parties: Sequence[Party]) -> list[list[Party]]:
    """Those of short rows, and those of long ones."""
    return [
        alike
        for stretched in (False, True)
        if (alike := [party for party in parties if party.model.stretched == stretched])
    ]


def _uncut(batch: Batch) -> Batch:
    """Which nodes there are depends on other rows."""
    return replace(batch, prompts=tuple(replace(prompt, cuts=()) for prompt in batch.prompts))


def _undivided(batch: Batch) -> Batch:
    """For what needs all tokens of a prompt at once, and not only what they left behind for later ones."""
    prompts = (replace(prompt, own_ids=batch.prefix + prompt.own_ids, cuts=()) for prompt in batch.prompts)
    return replace(batch, prefix=(), prompts=tuple(prompts))
