"""Stage 1 of one job: the rows of its input become shards in the ledger, in the input's order or sorted."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pipeline.ingest.inputs import Source
from pipeline.ingest.shards import Shard, cut
from pipeline.ingest.sorted_shards import Sorting, sort_into_shards
from pipeline.ingest.taking import Tally
from pipeline.spec import JobSpec
from pipeline.store.ledger import Ledger
from pipeline.store.records import JobRecord, PageRecord, ShardRecord
from pipeline.timing import timed


def cut_job(
    ledger: Ledger, job: JobRecord, spec: JobSpec, source: Source, directory: str, shard_rows: int, cut_rows: int
) -> Tally:
    """A shard is a file before it is in the ledger; the input's first `cut_rows` rows are there already."""
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
    """The first half, where rows are sorted: all of them in the order of the input, to be sorted and exported."""
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
    """The second half; `shards` are there already. Each is handed out as soon as it is there."""
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
