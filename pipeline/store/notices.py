"""The outbox of notices: written in the transaction that records an end, claimed by whoever sends them.

A sender that dies leaves its notice to another one, so each is sent at least once.
"""

import json
from collections.abc import Callable
from uuid import uuid4

from sqlalchemy import Connection, Engine, and_, delete, exists, false, insert, or_, select, true, update

from pipeline.store.records import JobRecord
from pipeline.store.schedule_records import Event, NoticeRecord, NoticeState, RunState
from pipeline.store.schema import PENDING, notices, schedule_runs
from pipeline.store.transactions import moment, reading, writing

_ENDS = (Event.DONE, Event.CANCELLED)
#: The run of its job is not over, where the job is, or is told of by the process that is at it.
_AWAITED = exists().where(
    schedule_runs.c.job_id == notices.c.job_id,
    or_(
        schedule_runs.c.state == RunState.BEGUN,
        and_(schedule_runs.c.state.in_([RunState.DUE, RunState.RUNNING]), notices.c.event.in_(_ENDS)),
    ),
)


def add(connection: Connection, event: Event, job: JobRecord, now: float) -> None:
    """Nothing, where nobody wants to be told."""
    _add(connection, event, job.spec_json, now, job.id, None)


def add_of_run(
    connection: Connection, event: Event, run_id: str, spec_json: str, now: float, job_id: str | None = None
) -> None:
    """The same of a run of a schedule, whose job is `spec_json`."""
    _add(connection, event, spec_json, now, job_id, run_id)


def take_back_done(connection: Connection, job_id: str) -> None:
    """What the run of the job still had to do after it failed, and that is told instead."""
    unsent = and_(notices.c.job_id == job_id, notices.c.event == Event.DONE, PENDING)
    connection.execute(delete(notices).where(unsent))


class Notices:
    """`clock` tells seconds since the epoch, the database's own unless given."""

    def __init__(self, engine: Engine, clock: Callable[[], float] | None = None) -> None:
        self._engine, self._clock = engine, clock

    def claim(self, lease_s: float, job_id: str | None = None) -> NoticeRecord | None:
        """The oldest that nobody is sending, of one job or of all; None where there is none. What a job's end means for
        the run of a schedule is recorded first."""
        of_it = true() if job_id is None else notices.c.job_id == job_id
        query = select(notices).where(PENDING, ~_AWAITED, of_it)
        with reading(self._engine) as connection:
            now = moment(connection) if self._clock is None else self._clock()
            free = or_(notices.c.lease_until.is_(None), notices.c.lease_until <= now)
            row = connection.execute(query.where(free).order_by(notices.c.occurred_at).limit(1)).one_or_none()
        if row is None:  # as a rule, and then nobody need wait for this
            return None
        as_seen = and_(notices.c.id == row.id, notices.c.lease_until.is_not_distinct_from(row.lease_until))
        mine = update(notices).where(as_seen, PENDING).values(lease_until=now + lease_s)
        with writing(self._engine) as connection:
            return NoticeRecord(**row._mapping) if connection.execute(mine).rowcount else None

    def close(self, notice: NoticeRecord, error: str | None) -> None:
        """Sent, or given up for the reason in `error`."""
        state = NoticeState.SENT if error is None else NoticeState.FAILED
        with writing(self._engine) as connection:
            told = {"state": state, "error": error, "lease_until": None}
            connection.execute(update(notices).where(notices.c.id == notice.id).values(told))

    def unsent(self, *, job_id: str | None = None, run_id: str | None = None) -> str | None:
        """Why the newest notice of a job, or of a run or its job, could not be sent; None where it could, or is still
        to be."""
        subjects = ((notices.c.job_id, job_id), (notices.c.run_id, run_id))
        of_it = or_(false(), *(column == value for column, value in subjects if value is not None))
        query = select(notices.c.error).where(of_it).order_by(notices.c.occurred_at.desc()).limit(1)
        with reading(self._engine) as connection:
            return connection.scalar(query)


def _add(
    connection: Connection, event: Event, spec_json: str, now: float, job_id: str | None, run_id: str | None
) -> None:
    if json.loads(spec_json).get("notify") is None:
        return
    found = {"id": uuid4().hex, "event": event, "occurred_at": now, "job_id": job_id, "run_id": run_id}
    connection.execute(insert(notices), found | {"state": NoticeState.PENDING})
