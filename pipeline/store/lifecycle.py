"""Stage 6: a job's own states, from cutting to done, and into cancelled and back."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from uuid import uuid4

from sqlalchemy import Connection, delete, exists, insert, select, update
from sqlalchemy.exc import IntegrityError

from pipeline.errors import RefusedError
from pipeline.rows import Completion, Status
from pipeline.store.entries import NEWEST, hold_job, insert_results, set_job, shard_record
from pipeline.store.records import BatchState, JobRecord, JobState, ShardRecord, ShardState
from pipeline.store.schema import batches, jobs, results, shards


def create(
    connection: Connection,
    name: str | None,
    spec_json: str,
    fingerprint: str,
    model_digest: str,
    input_digest: str,
    now: float,
) -> JobRecord:
    job = JobRecord(
        id=uuid4().hex,
        name=_free_name(connection, now) if name is None else name,
        spec_json=spec_json,
        fingerprint=fingerprint,
        model_digest=model_digest,
        input_digest=input_digest,
        state=JobState.CUTTING,
        n_rows=None,
        submitted_at=now,
        finished_at=None,
        error=None,
    )
    if name == NEWEST:
        raise RefusedError(f'"{NEWEST}" stands for the newest job. Give the job another name.')
    try:
        connection.execute(insert(jobs), asdict(job))
    except IntegrityError as error:
        raise RefusedError(f'There is a job named "{job.name}" already. Give another name, or none.') from error
    return job


def finish_cutting(connection: Connection, job_id: str, n_rows: int) -> None:
    job = hold_job(connection, job_id)
    if job.state is not JobState.CUTTING:
        raise RefusedError(f'Job "{job.name}" is not being cut any more: it was cancelled, or another run cut it.')
    set_job(connection, job_id, state=JobState.RUNNING, n_rows=n_rows)


def discard(connection: Connection, job_id: str) -> None:
    job = hold_job(connection, job_id)
    if job.state is not JobState.CUTTING:
        raise RefusedError(f'Job "{job.name}" is cut, so it may have results that must not be lost; cancel it instead.')
    connection.execute(delete(shards).where(shards.c.job_id == job_id))
    connection.execute(delete(jobs).where(jobs.c.id == job_id))


def complete(connection: Connection, job_id: str, now: float) -> bool:
    pending_shard = exists().where(shards.c.job_id == job_id, shards.c.state == ShardState.PENDING)
    open_batch = exists().where(batches.c.job_id == job_id, batches.c.finished_at.is_(None))
    completed = connection.execute(
        update(jobs)
        .where(jobs.c.id == job_id, jobs.c.state == JobState.RUNNING, ~pending_shard, ~open_batch)
        .values(state=JobState.DONE, finished_at=now, error=None)
    )
    return completed.rowcount == 1


def cancel(connection: Connection, job_id: str, now: float) -> list[ShardRecord]:
    """Nothing more is answered or encoded; the shards whose rows are to be cancelled by cancel_rows."""
    job = hold_job(connection, job_id)
    if job.state is JobState.DONE:
        raise RefusedError(f'Job "{job.name}" is done; there is nothing to cancel.')
    set_job(connection, job_id, state=JobState.CANCELLED, finished_at=now)
    connection.execute(
        update(batches)
        .where(batches.c.job_id == job_id, batches.c.finished_at.is_(None))
        .values(
            state=BatchState.CANCELLED,
            fence=batches.c.fence + 1,
            lease_until=None,
            lease_owner=None,
            finished_at=now,
        )
    )
    found = connection.execute(select(shards).where(shards.c.job_id == job_id).order_by(shards.c.shard_no))
    return [shard_record(row) for row in found]


def cancel_rows(connection: Connection, shard: ShardRecord, keys: Sequence[tuple[int, str]], now: float) -> int:
    """Nothing, where the job was revived in between."""
    if hold_job(connection, shard.job_id).state is not JobState.CANCELLED:
        return 0
    finished = set(
        connection.scalars(
            select(results.c.row_id).where(
                results.c.job_id == shard.job_id, results.c.row_id.between(shard.row_from, shard.row_to - 1)
            )
        )
    )
    unanswered = [
        Completion(row_id=row_id, key=key, status=Status.CANCELLED) for row_id, key in keys if row_id not in finished
    ]
    insert_results(connection, shard.job_id, None, 0, unanswered, now)
    return len(unanswered)


def revive(connection: Connection, job_id: str) -> None:
    job = hold_job(connection, job_id)
    if job.state is not JobState.CANCELLED:
        raise RefusedError(f'Job "{job.name}" is not cancelled.')
    connection.execute(delete(results).where(results.c.job_id == job_id, results.c.status == Status.CANCELLED))
    connection.execute(
        update(batches)
        .where(batches.c.job_id == job_id, batches.c.state == BatchState.CANCELLED)
        .values(state=BatchState.PENDING, finished_at=None)
    )
    state = JobState.CUTTING if job.n_rows is None else JobState.RUNNING
    set_job(connection, job_id, state=state, finished_at=None, error=None)


def restate(connection: Connection, job_id: str, spec_json: str) -> None:
    set_job(connection, job_id, spec_json=spec_json)


def note(connection: Connection, job_id: str, text: str | None) -> None:
    set_job(connection, job_id, error=text)


def _free_name(connection: Connection, now: float) -> str:
    """job-YYYYMMDD-N, with the lowest N above all that are taken on that day (UTC)."""
    stem = f"job-{datetime.fromtimestamp(now, UTC):%Y%m%d}-"
    taken = connection.scalars(select(jobs.c.name).where(jobs.c.name.startswith(stem, autoescape=True)))
    numbers = [int(tail) for tail in (name.removeprefix(stem) for name in taken) if tail.isdecimal()]
    return f"{stem}{max(numbers, default=0) + 1}"
