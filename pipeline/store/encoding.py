"""Stage 6: shards, and what encoding one leaves behind: batches to answer, and rows that cannot be."""

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, insert, select, update

from pipeline.buckets import PlannedBatch
from pipeline.errors import RefusedError
from pipeline.rows import Completion, Status
from pipeline.store.entries import hold_job, insert_batches, insert_results, shard_record
from pipeline.store.records import JobState, ShardRecord, ShardState
from pipeline.store.schema import jobs, shards


def add_shard(connection: Connection, job_id: str, shard_no: int, path: Path, row_from: int, row_to: int) -> None:
    job = hold_job(connection, job_id)
    if job.state is not JobState.CUTTING:
        raise RefusedError(f'Job "{job.name}" is not being cut any more: it was cancelled, or another run cut it.')
    connection.execute(
        insert(shards).values(
            job_id=job_id,
            shard_no=shard_no,
            path=str(path),
            row_from=row_from,
            row_to=row_to,
            state=ShardState.PENDING,
            encode_s=0.0,
            n_error=0,
        )
    )


def next_unencoded(connection: Connection, job_id: str) -> ShardRecord | None:
    row = connection.execute(
        select(shards)
        .join(jobs, jobs.c.id == shards.c.job_id)
        .where(
            shards.c.job_id == job_id,
            shards.c.state == ShardState.PENDING,
            jobs.c.state != JobState.CANCELLED,
        )
        .order_by(shards.c.shard_no)
        .limit(1)
    ).one_or_none()
    return None if row is None else shard_record(row)


def record(
    connection: Connection,
    job_id: str,
    shard_no: int,
    planned: Sequence[PlannedBatch],
    failures: Sequence[Completion],
    encode_s: float,
    now: float,
) -> list[int]:
    if hold_job(connection, job_id).state is JobState.CANCELLED:
        return []
    here = (shards.c.job_id == job_id) & (shards.c.shard_no == shard_no)
    shard = shard_record(connection.execute(select(shards).where(here)).one())
    if shard.state is ShardState.ENCODED:
        return []
    _require_whole(shard, planned, failures)
    connection.execute(
        update(shards).where(here).values(state=ShardState.ENCODED, encode_s=encode_s, n_error=len(failures))
    )
    insert_results(connection, job_id, None, 1, failures, now)
    return insert_batches(connection, job_id, [(shard_no, batch.row_ids, batch.n_tokens) for batch in planned], now)


def _require_whole(shard: ShardRecord, planned: Sequence[PlannedBatch], failures: Sequence[Completion]) -> None:
    row_ids = [row_id for batch in planned for row_id in batch.row_ids]
    row_ids += [failure.row_id for failure in failures]
    if sorted(row_ids) != list(range(shard.row_from, shard.row_to)):
        raise ValueError(f"the batches and failures of shard {shard.shard_no} are not its rows, each once")
    if any(failure.status is not Status.ERROR for failure in failures):
        raise ValueError(f"a failure of shard {shard.shard_no} has another status than error")
