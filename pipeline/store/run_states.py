"""Which runs of schedules may be begun now, which come too late for it, and what becomes of one whose job has ended."""

import json
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, exists, or_, select

from pipeline.store.records import JobState
from pipeline.store.schedule_records import RunState
from pipeline.store.schema import OPEN_RUN, schedule_runs, schedules

#: How the run of a job ends that the fleet has ended.
ENDS = {JobState.DONE: RunState.DONE, JobState.CANCELLED: RunState.CANCELLED}
_EARLIER = schedule_runs.alias("earlier")


def claimable(now: float) -> Select[Any]:
    """With what tells whether it comes too late. A paused schedule starts nothing, and what has its job goes on."""
    run = schedule_runs.c
    earlier = and_(_EARLIER.c.schedule_id == run.schedule_id, _EARLIER.c.scheduled_for < run.scheduled_for)
    held_up = exists().where(earlier, _EARLIER.c.finished_at.is_(None))
    newest = _EARLIER.c.scheduled_for.desc()
    ran = select(_EARLIER.c.finished_at).where(earlier, _EARLIER.c.state != RunState.SKIPPED).order_by(newest).limit(1)
    return (
        select(
            *(run.id, run.fence, run.job_id, run.note, run.scheduled_for, schedules.c.grace_s, schedules.c.spec_json),
            ran.scalar_subquery().label("before_ended"),
        )
        .join(schedules, schedules.c.id == run.schedule_id)
        .where(OPEN_RUN, is_free(now), or_(schedules.c.paused_at.is_(None), run.job_id.is_not(None)), ~held_up)
    )


def is_late(row: Row[*tuple[Any, ...]], now: float) -> bool:
    """The run that it waited for in a queue does not count against it."""
    since = max(row.scheduled_for, row.before_ended or 0.0)
    return row.job_id is None and now - since > row.grace_s


def after_job(row: Row[*tuple[Any, ...]], now: float) -> dict[str, object]:
    """What a run becomes whose job has come to this end, or was deleted."""
    if row.state is None:
        return {"state": RunState.FAILED, "finished_at": now, "note": "Its job was deleted before it was done."}
    if row.state is JobState.DONE and has_file(row.spec_json):
        return {"state": RunState.DUE}
    return {"state": ENDS[row.state], "finished_at": row.finished_at}


def has_file(spec_json: str) -> bool:
    """Whether the job is not over for a person before its file is written."""
    return json.loads(spec_json).get("output") is not None


def is_free(now: float) -> ColumnElement[bool]:
    """Due, and not put off; or the process that had begun it is dead."""
    run = schedule_runs.c
    is_due = and_(run.state == RunState.DUE, or_(run.lease_until.is_(None), run.lease_until <= now))
    return or_(is_due, and_(run.state == RunState.BEGUN, run.lease_until <= now))
