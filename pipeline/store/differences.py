"""What a run of an incremental schedule found new beside the run before it: counted once, when its job is done."""

import json
import math
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import Connection, Engine, Row, and_, case, func, select, update

from pipeline.rows import Status
from pipeline.store.entries import job_record
from pipeline.store.records import JobRecord, JobState
from pipeline.store.schedule_records import Difference, RunRecord
from pipeline.store.schema import UNCOUNTED_RUN, jobs, results, schedule_runs, schedules
from pipeline.store.transactions import reading, writing

_HAS_RESULTS = and_(jobs.c.state == JobState.DONE, jobs.c.results_purged_at.is_(None))


def count_differences(engine: Engine, job_id: str | None = None) -> None:
    """Of all runs whose jobs are done and that have none yet, or of that of one job. For each, all results of two jobs
    are read."""
    for run, has_key in _uncounted(engine, job_id):
        with reading(engine) as connection:
            # Without a key of its own a row goes by its place, which says nothing of an earlier job's rows.
            before = _last_job(connection, run.schedule_id, run.scheduled_for) if has_key else None
            found = _difference(connection, str(run.job_id), None if before is None else before.id)
        with writing(engine) as connection:
            counted = update(schedule_runs).where(schedule_runs.c.id == run.id)
            connection.execute(counted.values(difference=json.dumps(asdict(found))))


def difference_of(run: RunRecord) -> Difference | None:
    return None if run.difference is None else Difference(**json.loads(run.difference))


def last_job(engine: Engine, schedule_id: str, before: float = math.inf) -> JobRecord | None:
    """That of the newest run for a time before this whose job is done, and whose results are still there."""
    with reading(engine) as connection:
        return _last_job(connection, schedule_id, before)


def _last_job(connection: Connection, schedule_id: str, before: float) -> JobRecord | None:
    run = schedule_runs.c
    query = (
        select(jobs)
        .join(schedule_runs, run.job_id == jobs.c.id)
        .where(run.schedule_id == schedule_id, run.scheduled_for < before, _HAS_RESULTS)
    )
    row = connection.execute(query.order_by(run.scheduled_for.desc()).limit(1)).one_or_none()
    return None if row is None else job_record(row)


def _run_record(row: Row[Any]) -> RunRecord:
    return RunRecord(**{column.name: getattr(row, column.name) for column in schedule_runs.c})


def _uncounted(engine: Engine, job_id: str | None) -> list[tuple[RunRecord, bool]]:
    """Each with whether its job's rows have keys of their own."""
    incremental = select(schedules.c.id).where(schedules.c.incremental)
    query = (
        select(schedule_runs, jobs.c.spec_json)
        .join(jobs, jobs.c.id == schedule_runs.c.job_id)
        .where(schedule_runs.c.schedule_id.in_(incremental), _HAS_RESULTS, UNCOUNTED_RUN)
        .order_by(schedule_runs.c.scheduled_for)
    )
    with reading(engine) as connection:
        found = connection.execute(query if job_id is None else query.where(jobs.c.id == job_id))
        return [(_run_record(row), json.loads(row.spec_json).get("key") is not None) for row in found]


def _difference(connection: Connection, job_id: str, before: str | None) -> Difference:
    """By one pass over both jobs' keys: a join of them would be quadratic on SQLite, which has no index of keys. Of
    several questions, a row is what the worst of its answers is."""
    mine, theirs = results.c.job_id == job_id, results.c.job_id == before
    is_copy = func.coalesce(results.c.copied_from, job_id) != job_id
    failed = results.c.status.not_in([Status.OK, Status.TRUNCATED])
    facts = {"here": mine, "there": theirs, "anew": and_(mine, ~is_copy), "failed": and_(theirs, failed)}
    keys = (
        select(*(func.max(case((is_so, 1), else_=0)).label(name) for name, is_so in facts.items()))
        .where(results.c.job_id.in_([job_id] if before is None else [job_id, before]))
        .group_by(results.c.key)
        .subquery()
    )
    kind = case(
        (keys.c.here == 0, "gone"),
        (keys.c.anew == 0, "reused"),
        (keys.c.there == 0, "new"),
        (keys.c.failed == 0, "changed"),
        else_="again",
    ).label("kind")
    counted: dict[str, int] = dict(connection.execute(select(kind, func.count()).group_by(kind)).all())
    return Difference(**{field.name: counted.get(field.name, 0) for field in fields(Difference)})
