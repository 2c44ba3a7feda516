"""Stage 6: a job's own states, from cutting to done, and into cancelled and back."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from pipeline.errors import RefusedError
from pipeline.rows import Completion, Status
from pipeline.store import notices, run_states, schedule_runs
from pipeline.store.entries import NEWEST, SHARD, hold_job, insert_results, set_job, shard_record
from pipeline.store.purged import require_results, require_shards
from pipeline.store.records import BatchState, JobRecord, JobState, ShardRecord
from pipeline.store.schedule_records import Event
from pipeline.store.schema import batches, followers, jobs, pages, results, shards
from pipeline.store.work import FREE, UNDER_WAY, hold, is_open, take_back, write

#: Rows that are named in one statement: SQLite's older versions take 999 values.
_AT_ONCE = 400


def create(
    connection: Connection,
    name: str | None,
    spec_json: str,
    fingerprint: str,
    model_digest: str,
    input_digest: str,
    now: float,
    *,
    fleet: bool,
    priority: int,
    context: int | None,
    tokenizer: str | None,
    questions: Sequence[str],
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
        fleet=fleet,
        priority=priority,
        context=context,
        tokenizer=tokenizer,
        utc_offset_s=_utc_offset_s(now),
        questions=tuple(questions),
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
    if connection.scalar(select(exists().where(batches.c.job_id == job_id, batches.c.attempts > 0))):
        raise RefusedError(f'Job "{job.name}" has batches that are begun, whose results must not be lost.')
    for table in (results, followers, batches, shards, pages):
        connection.execute(delete(table).where(table.c.job_id == job_id))
    connection.execute(delete(jobs).where(jobs.c.id == job_id))
    schedule_runs.unlink(connection, job_id)


def complete(connection: Connection, job_id: str, now: float) -> bool:
    # Held before it is looked at: what else adds batches or shards to a job holds it too.
    job = hold_job(connection, job_id)
    if job.state is not JobState.RUNNING or connection.scalar(select(_has_open(job_id))):
        return False
    set_job(connection, job_id, state=JobState.DONE, finished_at=now, paused_at=None, error=None)
    notices.add(connection, Event.DONE, job, now)
    if not run_states.has_file(job.spec_json):
        schedule_runs.mend(connection, job_id, now)
    return True


def completable(connection: Connection) -> list[str]:
    """The fleet's jobs that are done, as far as one look tells."""
    running = and_(jobs.c.fleet, jobs.c.state == JobState.RUNNING)
    return list(connection.scalars(select(jobs.c.id).where(running, ~_has_open(jobs.c.id)).order_by(jobs.c.id)))


def pause(connection: Connection, job_id: str, reason: str | None, now: float) -> None:
    job = hold_job(connection, job_id)
    if job.state not in UNDER_WAY:
        raise RefusedError(f'Job "{job.name}" is {job.state}; there is nothing to pause.')
    if job.paused_at is None:
        set_job(connection, job_id, paused_at=now, error=reason)
        notices.add(connection, Event.PAUSED if reason is None else Event.FAILED, job, now)
        _take_back(connection, job_id)


def unpause(connection: Connection, job_id: str) -> None:
    if hold_job(connection, job_id).paused_at is None:
        return
    set_job(connection, job_id, paused_at=None, error=None)
    # Whoever lets it go on has seen to what the workers died of.
    connection.execute(update(shards).where(shards.c.job_id == job_id, shards.c.crashes > 0).values(crashes=0))


def take_over(connection: Connection, job_id: str, fleet: bool) -> None:
    if hold_job(connection, job_id).fleet is fleet:
        return
    set_job(connection, job_id, fleet=fleet)
    _take_back(connection, job_id)
    _stop_encoding(connection, job_id)


def cancel(connection: Connection, job_id: str, now: float) -> list[ShardRecord]:
    """Nothing more is answered or encoded; the shards whose rows are to be cancelled by cancel_rows."""
    job = hold_job(connection, job_id)
    if job.state is JobState.DONE:
        raise RefusedError(f'Job "{job.name}" is done; there is nothing to cancel.')
    require_shards(job)
    if job.state is not JobState.CANCELLED:
        notices.add(connection, Event.CANCELLED, job, now)
    set_job(connection, job_id, state=JobState.CANCELLED, finished_at=now, paused_at=None)
    _stop_encoding(connection, job_id)
    hold(connection, batches, and_(batches.c.job_id == job_id, batches.c.enqueued_at.is_not(None)), wait=True)
    closed = FREE[batches] | {"state": BatchState.CANCELLED, "fence": batches.c.fence + 1, "finished_at": now}
    connection.execute(
        update(batches).where(batches.c.job_id == job_id, batches.c.finished_at.is_(None)).values(closed)
    )
    found = connection.execute(select(*SHARD).where(shards.c.job_id == job_id).order_by(shards.c.shard_no))
    return [shard_record(row) for row in found]


def cancel_rows(connection: Connection, shard: ShardRecord, keys: Sequence[tuple[int, str]], now: float) -> int:
    """Nothing, where the job was revived in between."""
    if hold_job(connection, shard.job_id).state is not JobState.CANCELLED:
        return 0
    finished = set[int]()
    for first in range(0, len(keys), _AT_ONCE):
        row_ids = [row_id for row_id, _ in keys[first : first + _AT_ONCE]]
        its = (results.c.job_id == shard.job_id, results.c.row_id.in_(row_ids))
        finished.update(connection.scalars(select(results.c.row_id).where(*its)))
    unanswered = [
        Completion(row_id=row_id, key=key, status=Status.CANCELLED) for row_id, key in keys if row_id not in finished
    ]
    insert_results(connection, shard.job_id, None, 0, unanswered, now)
    return len(unanswered)


def revive(connection: Connection, job_id: str) -> None:
    job = hold_job(connection, job_id)
    if job.state is not JobState.CANCELLED:
        raise RefusedError(f'Job "{job.name}" is not cancelled.')
    require_results(job)
    require_shards(job)
    connection.execute(delete(results).where(results.c.job_id == job_id, results.c.status == Status.CANCELLED))
    connection.execute(
        update(batches)
        .where(batches.c.job_id == job_id, batches.c.state == BatchState.CANCELLED)
        .values(state=BatchState.PENDING, finished_at=None)
    )
    connection.execute(update(shards).where(shards.c.job_id == job_id).values(crashes=0))
    state = JobState.CUTTING if job.n_rows is None else JobState.RUNNING
    set_job(connection, job_id, state=state, finished_at=None, error=None)


def set_outlook(connection: Connection, job_id: str, sorts_rows: bool, predicted_reuse: float | None) -> None:
    set_job(connection, job_id, sorts_rows=sorts_rows, predicted_reuse=predicted_reuse)


def set_tokenizer(connection: Connection, job_id: str, location: str, context: int) -> None:
    set_job(connection, job_id, tokenizer=location, context=context)


def restate(connection: Connection, job_id: str, spec_json: str, priority: int) -> None:
    set_job(connection, job_id, spec_json=spec_json, priority=priority)


def note(connection: Connection, job_id: str, text: str | None, now: float) -> None:
    job = hold_job(connection, job_id)
    set_job(connection, job_id, error=text)
    if text is not None and not schedule_runs.is_begun(connection, job_id):
        notices.add(connection, Event.FAILED, job, now)


def _has_open(job_id: ColumnElement[str] | str) -> ColumnElement[bool]:
    return or_(is_open(job_id), exists().where(followers.c.job_id == job_id))


def _take_back(connection: Connection, job_id: str) -> None:
    """Messages that are on their way still find their work, if it is wanted when they arrive."""
    for table in (shards, batches):
        take_back(connection, table, table.c.job_id == job_id, wait=True)


def _stop_encoding(connection: Connection, job_id: str) -> None:
    """Whoever encodes a shard of the job holds it no more."""
    taken = and_(shards.c.job_id == job_id, shards.c.enqueued_at.is_not(None))
    keys = hold(connection, shards, taken, wait=True)
    write(connection, shards, keys, **FREE[shards], fence=shards.c.fence + 1)


def _utc_offset_s(now: float) -> int:
    """Of this machine, where the job is submitted."""
    offset = datetime.fromtimestamp(now, UTC).astimezone().utcoffset()
    return 0 if offset is None else round(offset.total_seconds())


def _free_name(connection: Connection, now: float) -> str:
    """job-YYYYMMDD-N, with the lowest N above all that are taken on that day (UTC)."""
    stem = f"job-{datetime.fromtimestamp(now, UTC):%Y%m%d}-"
    taken = connection.scalars(select(jobs.c.name).where(jobs.c.name.startswith(stem, autoescape=True)))
    numbers = [int(tail) for tail in (name.removeprefix(stem) for name in taken) if tail.isdecimal()]
    return f"{stem}{max(numbers, default=0) + 1}"
