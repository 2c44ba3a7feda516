"""Stage 6: error rows go back into batches, and leave the sums that counted them."""

from itertools import groupby

from sqlalchemy import Connection, delete, select, update

from pipeline.errors import RefusedError
from pipeline.rows import Status
from pipeline.store.asked import asked
from pipeline.store.entries import NewBatch, hold_job, insert_batches, row_ids_of, set_job
from pipeline.store.purged import require_results, require_shards
from pipeline.store.records import JobState
from pipeline.store.schema import batches, results, shards


def retry_errors(connection: Connection, job_id: str, batch_rows: int, now: float) -> int:
    job = hold_job(connection, job_id)
    require_results(job)
    require_shards(job)
    if job.state is JobState.CANCELLED:
        raise RefusedError(f'Job "{job.name}" is cancelled; let it go on (resume) before its errors are retried.')
    failed = _failed_rows(connection, job_id)
    if not failed:
        return 0
    connection.execute(delete(results).where(results.c.job_id == job_id, results.c.status == Status.ERROR))
    # Every error of the job goes, so that every sum of errors is 0 again; batches that are done never open again.
    for table in (batches, shards):
        connection.execute(update(table).where(table.c.job_id == job_id, table.c.n_error > 0).values(n_error=0))
    # A batch holds so many answers; each row has as many as it has samples.
    samples = [fields.get("n", 1) for fields in asked(job.spec_json)]
    most = max(1, batch_rows * len(samples) // sum(samples))
    insert_batches(connection, job_id, _pack(failed, most), now)
    if job.state is JobState.DONE:
        set_job(connection, job_id, state=JobState.RUNNING, finished_at=None)
    return len(failed)


def _failed_rows(connection: Connection, job_id: str) -> list[tuple[int, int]]:
    """(shard_no, row_id), in order."""
    failed = set(
        connection.scalars(select(results.c.row_id).where(results.c.job_id == job_id, results.c.status == Status.ERROR))
    )
    if not failed:
        return []
    homes = select(shards.c.shard_no, shards.c.row_from, shards.c.row_to, shards.c.row_ids)
    found = connection.execute(homes.where(shards.c.job_id == job_id).order_by(shards.c.shard_no))
    return [(home.shard_no, row_id) for home in found for row_id in sorted(failed.intersection(row_ids_of(home)))]


def _pack(failed: list[tuple[int, int]], most: int) -> list[NewBatch]:
    """Batches of one shard each, of so many rows at most."""
    packed = []
    for shard_no, rows in groupby(failed, key=lambda row: row[0]):
        row_ids = [row_id for _, row_id in rows]
        packed += [NewBatch(shard_no, tuple(row_ids[first : first + most])) for first in range(0, len(row_ids), most)]
    return packed
