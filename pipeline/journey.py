"""The order of the stages, written once: how a job's rows get from their input to their results, in one process."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path

from pipeline.buckets import batch_rows, plan
from pipeline.inference.bisection import answer_bisecting
from pipeline.inference.engine import Engine
from pipeline.inference.prefix_store import PrefixStore
from pipeline.ingest.inputs import Source
from pipeline.ingest.rows import read_rows
from pipeline.ingest.shards import cut
from pipeline.means import Means, fit, make_encoder, make_task
from pipeline.prefix_tree import additions, with_cuts
from pipeline.rows import Batch, BatchTiming, Completion, Prompt, Row
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.ledger import Ledger
from pipeline.store.records import Claim, JobRecord, ShardRecord
from pipeline.timing import Stopwatch

#: Rows on which the encoder proves its shortcuts before it takes them.
SAMPLE_ROWS = 64
#: Rows encoded in one call: enough for all cores, little enough for very long texts.
_ENCODE_ROWS = 512


def cut_job(
    ledger: Ledger, job: JobRecord, spec: JobSpec, source: Source, directory: Path, shard_rows: int, cut_rows: int
) -> None:
    """Stage 1. A shard is a file before it is in the ledger; the first `cut_rows` rows are there already."""
    for shard in cut(source, directory, shard_rows=shard_rows, key=spec.key, limit=spec.limit, skip_rows=cut_rows):
        ledger.add_shard(job.id, shard.shard_no, shard.path, shard.row_from, shard.row_to)
        cut_rows = shard.row_to
    ledger.finish_cutting(job.id, cut_rows)


class Journey:
    """Stages 2 to 6 of one job: `encode_next` turns a shard into batches, `answer` closes a claimed one."""

    def __init__(
        self, job: JobRecord, spec: JobSpec, means: Means, ledger: Ledger, shards: list[ShardRecord], settings: Settings
    ) -> None:
        self._job_id, self._key, self._ledger, self._settings = job.id, spec.key, ledger, settings
        self._columns = means.template.columns
        self._shards = {shard.shard_no: shard for shard in shards}
        sample = list(islice(self._read(shards[0]), SAMPLE_ROWS))
        self._encoder = make_encoder(spec, means.template, means.vocabulary, job.submitted_at, sample)
        self._task = make_task(spec, self._encoder)
        self._engine = Engine(means.model, PrefixStore.open(means.model, settings), means.vocabulary.decode)
        self._model, self._costs = means.model, means.costs
        self._encoded: dict[int, list[Prompt]] = {}

    def encode_next(self) -> bool:
        """Stages 2 and 3 for the next shard; False where none is left."""
        shard = self._ledger.next_unencoded_shard(self._job_id)
        if shard is None:
            return False
        watch = Stopwatch()
        with watch.stage("encode"):
            prompts, failures = self._encode(self._read(shard))
            planned = plan(
                [(prompt.row_id, len(prompt.own_ids)) for prompt in prompts],
                max_rows=batch_rows(self._task, self._settings.batch_rows),
                max_tokens=self._settings.batch_tokens,
                together=additions(prompts),
            )
        seconds = watch.seconds["encode"]
        numbers = self._ledger.record_encoding(self._job_id, shard.shard_no, planned, failures, seconds)
        by_id = {prompt.row_id: prompt for prompt in prompts}
        batches = zip(numbers, planned, strict=bool(numbers))
        self._encoded = {number: [by_id[row_id] for row_id in batch.row_ids] for number, batch in batches}
        return True

    def answer(self, claim: Claim) -> bool:
        """Stages 5 and 6; False where the batch was meanwhile given to another, whose answers count."""
        watch = Stopwatch()
        with watch.stage("encode"):
            prompts, failures = self._prompts(claim)
        completions, timing = failures, BatchTiming()
        if prompts:
            batch = Batch(
                self._job_id, claim.batch_no, claim.fence, claim.attempts, self._encoder.prefix, tuple(prompts)
            )
            answered, timing = answer_bisecting(self._engine, batch, self._task)
            completions = answered + failures
        timing = replace(timing, encode_s=watch.seconds["encode"])
        return self._ledger.finish(claim, completions, timing, str(self._model.device))

    def _prompts(self, claim: Claim) -> tuple[list[Prompt], list[Completion]]:
        """Token ids are kept for as long as this process needs them; lost ones come from the shard again."""
        if claim.batch_no in self._encoded:
            return self._encoded.pop(claim.batch_no), []
        return self._encode(self._read(self._shards[claim.shard_no], claim.row_ids))

    def _read(self, shard: ShardRecord, row_ids: tuple[int, ...] | None = None) -> Iterable[Row]:
        return read_rows(shard.path, shard.row_from, columns=self._columns, key=self._key, row_ids=row_ids)

    def _encode(self, rows: Iterable[Row]) -> tuple[list[Prompt], list[Completion]]:
        prompts: list[Prompt] = []
        failures: list[Completion] = []
        remaining = iter(rows)
        while some := list(islice(remaining, _ENCODE_ROWS)):
            for outcome in self._encoder.encode(some):
                outcome = fit(outcome, self._encoder, self._task, self._model)
                if isinstance(outcome, Prompt):
                    prompts.append(outcome)
                else:
                    failures.append(outcome)
        return with_cuts(prompts, self._costs, self._task, self._settings.batch_rows), failures
