"""The order of the stages, written once: how a job's rows get from their input to their results, in one process."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pipeline.answering import NOBODY, Answering, Witness, closed, make_engine
from pipeline.encoding import Encoding
from pipeline.ingest.inputs import Source
from pipeline.ingest.shards import Shard, cut
from pipeline.ingest.sorted_shards import Sorting, sort_into_shards
from pipeline.ingest.taking import Tally
from pipeline.means import Means
from pipeline.messages import Payload
from pipeline.rows import Prompt
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.ledger import Ledger
from pipeline.store.records import Claim, JobRecord, PageRecord, ShardRecord
from pipeline.timing import timed


def cut_job(
    ledger: Ledger, job: JobRecord, spec: JobSpec, source: Source, directory: str, shard_rows: int, cut_rows: int
) -> Tally:
    """Stage 1. A shard is a file before it is in the ledger; the input's first `cut_rows` rows are there already."""
    tally, count = Tally(), job.n_questions
    for shard, cut_s in timed(_cut(spec, source, directory, shard_rows, cut_rows, tally)):
        row_from, row_to = shard.row_from * count, shard.row_to * count
        ledger.add_shard(job.id, shard.shard_no, shard.path, row_from, row_to, None, cut_s)
        cut_rows = shard.row_to
    ledger.finish_cutting(job.id, cut_rows * count)
    return tally


def page_job(
    ledger: Ledger, job: JobRecord, spec: JobSpec, source: Source, directory: str, page_rows: int, cut_rows: int
) -> Tally:
    """Stage 1, first half, where rows are sorted: all of them in the order of the input, to be sorted and exported."""
    tally, count = Tally(), job.n_questions
    for page in _cut(spec, source, directory, page_rows, cut_rows, tally):
        ledger.add_page(job.id, page.shard_no, page.path, page.row_from * count, page.row_to * count)
    return tally


def sort_job(
    ledger: Ledger,
    job: JobRecord,
    directory: str,
    sorting: Sorting,
    pages: Sequence[PageRecord],
    shards: Sequence[ShardRecord],
) -> None:
    """Its second half; `shards` are there already. Each is handed out as soon as it is there."""
    count = job.n_questions
    of_input = [replace(page, row_from=page.row_from // count, row_to=page.row_to // count) for page in pages]
    skip_rows = shards[-1].row_to // count if shards else 0
    sorted_rows = sort_into_shards(of_input, directory, sorting, skip_shards=len(shards), skip_rows=skip_rows)
    for shard, cut_s in timed(sorted_rows):
        row_ids = [row_id * count + place for row_id in shard.row_ids or () for place in range(count)]
        row_from, row_to = shard.row_from * count, shard.row_to * count
        ledger.add_shard(job.id, shard.shard_no, shard.path, row_from, row_to, row_ids, cut_s)
    ledger.finish_cutting(job.id, pages[-1].row_to)


def _cut(
    spec: JobSpec, source: Source, directory: str, shard_rows: int, skip_rows: int, tally: Tally
) -> Iterator[Shard]:
    return cut(
        source, directory, shard_rows=shard_rows, key=spec.key, limit=spec.limit, skip_rows=skip_rows, tally=tally
    )


class Journey:
    """Stages 2 to 6 of one job: `encode_next` turns a shard into batches, `answer` closes a claimed one."""

    def __init__(
        self,
        job: JobRecord,
        spec: JobSpec,
        means: Means,
        ledger: Ledger,
        shards: list[ShardRecord],
        settings: Settings,
        witness: Witness = NOBODY,
    ) -> None:
        context = job.context or means.model.context
        self._encoding = Encoding(job, spec, means.vocabulary, context, means.costs, settings, shards[0])
        by_number = {shard.shard_no: shard for shard in shards}
        self._answering = Answering(make_engine(means, settings), self._encoding, by_number.__getitem__)
        self._job_id, self._ledger, self._witness = job.id, ledger, witness
        #: Token ids are kept for as long as this process needs them; lost ones come from the shard again.
        self._encoded: dict[int, tuple[Prompt, ...]] = {}

    def encode_next(self) -> bool:
        """Stages 2 and 3 for the next shard; False where none is left."""
        shard = self._ledger.next_unencoded_shard(self._job_id)
        if shard is None:
            return False
        encoded = self._encoding.shard(shard, ledger=self._ledger)
        numbers = self._ledger.record_encoding(
            self._job_id,
            shard.shard_no,
            encoded.planned,
            encoded.failures,
            encoded.seconds,
            n_cut=encoded.n_cut,
            n_neutralised=encoded.n_neutralised,
            copies=encoded.copies,
            followers=encoded.followers,
            prompt_tokens=encoded.prompt_tokens,
            planned_tokens=encoded.planned_tokens,
        )
        self._encoded = dict(zip(numbers, encoded.prompts, strict=bool(numbers)))
        return True

    def answer(self, claim: Claim) -> bool:
        """Stages 5 and 6; False where the batch was meanwhile given to another, whose answers count."""
        prompts = self._encoded.pop(claim.batch_no, None)
        self._witness.taken(claim)
        if not self._ledger.begin(claim):
            return False
        payload = None if prompts is None else Payload(self._encoding.prefix, prompts)
        outcome = closed(self._answering.run(claim, payload), self._ledger.finish)
        self._witness.closed(outcome)
        return outcome.recorded
