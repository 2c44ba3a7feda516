"""Stage 6: batches that workers died of. They are halved until the row at fault is alone, and that row is an error."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Row, and_, select, update

from pipeline.rows import Completion, Status
from pipeline.store.entries import SHARD, NewBatch, hold_job, insert_batches, insert_results, shard_record
from pipeline.store.records import BatchState, ShardRecord
from pipeline.store.schema import BLAMED, batches, jobs, shards
from pipeline.store.work import MOST_CRASHES, UNDER_WAY, goes_on, is_blamed, is_on

#: The error_type of a row that no worker survived.
CRASH = "crash"


@dataclass(frozen=True, slots=True)
class Suspect:
    """A batch that nobody is given any more."""

    job_id: str
    batch_no: int
    shard_no: int
    row_ids: tuple[int, ...]
    prompt_rows: tuple[int, ...]  #: rows of each prompt, in the order of `row_ids`

    @property
    def is_alone(self) -> bool:
        """There is one prompt, which cannot be halved, however many rows have it."""
        return len(self.prompt_rows) == 1


def suspects(connection: Connection, job_id: str) -> list[tuple[Suspect, ShardRecord]]:
    """Of a job that goes on; each with the shard that its rows are in."""
    found = connection.execute(
        select(batches.c.batch_no, batches.c.row_ids, batches.c.prompt_rows, *SHARD)
        .join(shards, and_(shards.c.job_id == batches.c.job_id, shards.c.shard_no == batches.c.shard_no))
        .where(batches.c.job_id == job_id, _is_suspect(), is_on(job_id, *UNDER_WAY))
        .order_by(batches.c.batch_no)
    )
    return [(_suspect(job_id, row), shard_record(row)) for row in found]


def suspected_jobs(connection: Connection) -> list[str]:
    """Ids of the fleet's jobs that have suspects."""
    found = (
        select(batches.c.job_id)
        .join(jobs, jobs.c.id == batches.c.job_id)
        .where(_is_suspect(), jobs.c.fleet, goes_on(*UNDER_WAY))
        .distinct()
        .order_by(batches.c.job_id)
    )
    return list(connection.scalars(found))


def split(connection: Connection, suspect: Suspect, now: float) -> bool:
    """Into halves by prompts, each of which takes the blame for one end with it, and for one that was seen where there
    was such; False where another transaction was first."""
    parent = _close(connection, suspect, BatchState.SPLIT, now)
    if parent is None:
        return False
    prompt_rows = suspect.prompt_rows
    middle = len(prompt_rows) // 2
    row = sum(prompt_rows[:middle])
    halves = [
        NewBatch(
            shard_no=suspect.shard_no,
            row_ids=row_ids,
            n_tokens=parent.n_tokens * len(each) // len(prompt_rows),
            crashes=min(parent.crashes, MOST_CRASHES[batches] - 1),
            silences=0 if parent.crashes else MOST_CRASHES[batches] - 1,
            error=parent.error,
            prompt_rows=each if max(each) > 1 else (),
        )
        for row_ids, each in (
            (suspect.row_ids[:row], prompt_rows[:middle]),
            (suspect.row_ids[row:], prompt_rows[middle:]),
        )
    ]
    insert_batches(connection, suspect.job_id, halves, now)
    return True


def bury(connection: Connection, suspect: Suspect, keys: Mapping[int, str], now: float) -> bool:
    """The one prompt's rows, whose `keys` are among these, end as errors; False where another transaction was first."""
    batch = _close(connection, suspect, BatchState.DEAD, now, n_error=len(suspect.row_ids))
    if batch is None:
        return False
    told = _told(batch.crashes, batch.silences, batch.error)
    errors = [
        Completion(row_id, keys[row_id], Status.ERROR, error_type=CRASH, error=told) for row_id in suspect.row_ids
    ]
    insert_results(connection, suspect.job_id, suspect.batch_no, batch.attempts, errors, now)
    return True


def _told(crashes: int, silences: int, last: str | None) -> str:
    """What is known of those that had the row: an end that was seen, or silence."""
    if crashes >= MOST_CRASHES[batches]:
        return f"More than one process ended while it was answering this row. The last one: {last}."
    besides = f" One more process ended: {last}." if crashes else ""
    return (
        f"No sign of life came of {silences} workers, one after the other, while they were answering this row, until "
        f"their leases had run out.{besides}"
    )


def _suspect(job_id: str, row: Row[tuple[object, ...]]) -> Suspect:
    return Suspect(job_id, row.batch_no, row.shard_no, row.row_ids, row.prompt_rows or (1,) * len(row.row_ids))


def _is_suspect() -> ColumnElement[bool]:
    return and_(BLAMED, batches.c.state == BatchState.PENDING, is_blamed(batches))


def _close(
    connection: Connection, suspect: Suspect, state: BatchState, now: float, **values: object
) -> Row[tuple[object, ...]] | None:
    """Its row, where it still is a suspect; the job is held."""
    hold_job(connection, suspect.job_id)
    named = and_(batches.c.job_id == suspect.job_id, batches.c.batch_no == suspect.batch_no)
    closed = update(batches).where(named, _is_suspect()).values(state=state, finished_at=now, **values)
    return connection.execute(closed.returning(batches)).one_or_none()
