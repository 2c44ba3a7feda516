"""Stages 2 and 3 of one job, without a model: a shard's rows become prompts, and prompts become batches."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from pipeline.asking import Asking
from pipeline.buckets import Budget, PlannedBatch, batch_rows, budget, plan, samples_each
from pipeline.costs import Costs
from pipeline.identity import Identities
from pipeline.inference.ends_digest import is_of_ends
from pipeline.ingest.rows import read_rows
from pipeline.prefix_tree import additions, with_cuts
from pipeline.prompts.shapes import columns_of
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Asked, Completion, Follower, Prompt, Row, tasks_of
from pipeline.settings import Settings
from pipeline.sharing import foretell, whole_tokens
from pipeline.spec import JobSpec
from pipeline.store.ledger import Ledger
from pipeline.store.records import JobRecord, ShardRecord
from pipeline.timing import Stopwatch
from pipeline.twins import for_each_row

#: Rows on which the encoder proves its shortcuts before it takes them.
SAMPLE_ROWS = 64
#: Rows encoded in one call: enough for all cores, little enough for very long texts.
_ENCODE_ROWS = 512


@dataclass(frozen=True, slots=True)
class Encoded:
    """What a shard has become; `prompts` are those of the batches in `planned`, in the same order."""

    planned: list[PlannedBatch]
    prompts: list[tuple[Prompt, ...]]
    failures: list[Completion]
    seconds: float
    n_cut: int = 0  #: rows whose text was cut to fit
    n_neutralised: int = 0  #: rows whose text held special tokens
    copies: Sequence[Completion] = ()  #: of rows that were answered before
    followers: Sequence[Follower] = ()  #: rows whose answer is on its way to a row of another shard
    prompt_tokens: int = 0  #: of all rows' prompts, whole, those of copies and followers too
    planned_tokens: int = 0  #: of these, what has to be computed; with the first shard, also what all rows begin with


class Encoding:
    """Every worker that makes one for the same job has the same `prefix`, and the same prompts for the same rows."""

    def __init__(
        self,
        job: JobRecord,
        spec: JobSpec,
        vocabulary: Vocabulary,
        context: int,
        costs: Costs,
        settings: Settings,
        first: ShardRecord,
    ) -> None:
        """`context` is the model's, `first` the job's shard 0. Raises JobError, or TryAgain."""
        self._costs, self._settings, self._key = costs, settings, spec.key
        self._dedupes, self._questions = spec.dedupe, len(spec.questions) or 1
        # What names a model by the ends of its files may name another job's model, too.
        self._reuses = spec.reuse_results and not is_of_ends(job.model_digest)
        self.columns = columns_of(spec)
        sample = list(islice(self._read(first), SAMPLE_ROWS))
        self._asking = Asking(spec, vocabulary, context, job.submitted, sample)
        self.identity = Identities(spec, job.model_digest, self.task)

    @property
    def prefix(self) -> tuple[int, ...]:
        """Token ids that all prompts of the job continue."""
        return self._asking.prefix

    @property
    def task(self) -> Asked:
        return self._asking.task

    @property
    def samples(self) -> float:
        """Answers to each row, on average over its questions."""
        return samples_each(self.task)

    def shard(self, shard: ShardRecord, within: Budget | None = None, ledger: Ledger | None = None) -> Encoded:
        """Batches are `within` the budget, by itself that of the settings. The `ledger` knows of answers that there are
        already, or that are on their way. Raises InputError or TryAgain."""
        watch, neutralised = Stopwatch(), self._asking.neutralised
        with watch.stage("encode"):
            prompts, failures = self._encode(self._read(shard))
            distinct = left = self._asking.distinct(prompts)
            copies, followers = list[Completion](), list[Follower]()
            if ledger is not None and (self._dedupes or self._reuses):
                left, copies, followers = self._met(left, shard, ledger)
            groups = grouped(left, self._costs, self.task, within or budget(self._settings, None))
        planned = [batch for batch, _ in groups]
        sharing = foretell(self.prefix, [prompt for _, batch in groups for prompt in batch], self.task)
        return Encoded(
            planned,
            [prompts for _, prompts in groups],
            failures,
            watch.seconds["encode"],
            n_cut=sum(prompt.cut_tokens > 0 for prompt in prompts),
            n_neutralised=self._asking.neutralised - neutralised,
            copies=copies,
            followers=followers,
            prompt_tokens=whole_tokens(self.prefix, distinct, self.task),
            planned_tokens=sharing.computed_tokens + (len(self.prefix) if shard.shard_no == 0 else 0),
        )

    def rows(self, shard: ShardRecord, row_ids: Sequence[int]) -> tuple[tuple[Prompt, ...], list[Completion]]:
        """The prompts of a batch once more, or why a row has none. Raises InputError or TryAgain."""
        prompts, failures = self._encode(self._read(shard, row_ids), row_ids)
        shared = with_cuts(self._asking.distinct(prompts), self._costs, self.task, self._settings.batch_rows)
        return tuple(shared), failures

    def _met(
        self, prompts: Sequence[Prompt], shard: ShardRecord, ledger: Ledger
    ) -> tuple[list[Prompt], list[Completion], list[Follower]]:
        """The prompts that are to be answered, the completions of all rows that have an answer already, and rows whose
        answer is on its way to another shard's."""
        identity_of = self.identity.behind(self.prefix)
        hashes = [identity_of(prompt) or b"" for prompt in prompts]
        first = {own: prompt.row_id for prompt, own in zip(reversed(prompts), reversed(hashes), strict=True)}
        first.pop(b"", None)  # of prompts whose answers are drawn
        # In this order: what is no longer on its way by now has its answer.
        leaders = ledger.lead(shard.job_id, shard.shard_no, first) if self._dedupes else {}
        answers = ledger.answers_to(shard.job_id, list(first), of_any_job=self._reuses)
        left, copies, followers = list[Prompt](), list[Completion](), list[Follower]()
        for prompt, own in zip(prompts, hashes, strict=True):
            if own in answers:
                copies += for_each_row(prompt, _copied(answers[own], prompt))
            elif own in leaders:
                followers += _following(prompt, leaders[own])
            else:
                left.append(prompt)
        return left, copies, followers

    def _read(self, shard: ShardRecord, row_ids: Sequence[int] | None = None) -> Iterable[Row]:
        """Rows of the input, which `row_ids` name by their questions."""
        count = self._questions
        wanted = None if row_ids is None else {row_id // count for row_id in row_ids}
        return read_rows(shard.path, shard.row_from // count, columns=self.columns, key=self._key, row_ids=wanted)

    def _encode(
        self, rows: Iterable[Row], row_ids: Collection[int] | None = None
    ) -> tuple[list[Prompt], list[Completion]]:
        wanted = None if row_ids is None else frozenset(row_ids)
        prompts: list[Prompt] = []
        failures: list[Completion] = []
        remaining = iter(rows)
        while some := list(islice(remaining, _ENCODE_ROWS)):
            for outcome in self._asking.ask(some, wanted):
                if isinstance(outcome, Prompt):
                    prompts.append(outcome)
                else:
                    failures.append(outcome)
        return prompts, failures


def grouped(
    prompts: Sequence[Prompt], costs: Costs, asked: Asked, within: Budget
) -> list[tuple[PlannedBatch, tuple[Prompt, ...]]]:
    """Stage 3: what pays to share is marked, and rows that are best answered together come together."""
    shared = with_cuts(prompts, costs, asked, within.max_rows)
    planned = plan(
        [(prompt.row_id, prompt.tokens) for prompt in shared],
        max_rows=batch_rows(asked, within.max_rows),
        max_tokens=within.max_tokens,
        together=additions(shared),
        questions=len(tasks_of(asked)),
    )
    by_id = {prompt.row_id: prompt for prompt in shared}
    groups = [(batch, tuple(by_id[row_id] for row_id in batch.row_ids)) for batch in planned]
    return [(_with_all_rows(batch, prompts), prompts) for batch, prompts in groups]


def _following(prompt: Prompt, leader: int) -> list[Follower]:
    twins = (Follower(twin.row_id, twin.key, twin.cut_tokens, leader) for twin in prompt.twins)
    return [Follower(prompt.row_id, prompt.key, prompt.cut_tokens, leader), *twins]


def _copied(found: Completion, prompt: Prompt) -> Completion:
    return replace(found, row_id=prompt.row_id, key=prompt.key, reused_tokens=found.prompt_tokens)


def _with_all_rows(batch: PlannedBatch, prompts: Sequence[Prompt]) -> PlannedBatch:
    if not any(prompt.twins for prompt in prompts):
        return batch
    row_ids = tuple(chain.from_iterable(prompt.row_ids for prompt in prompts))
    return replace(batch, row_ids=row_ids, prompt_rows=tuple(len(prompt.row_ids) for prompt in prompts))
