"""Stage 6: answers that are in the database already, found by what they hang on (pipeline/identity.py)."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import groupby
from operator import itemgetter

from sqlalchemy import ColumnElement, Connection, Row, and_, func, select, text

from pipeline.rows import Completion, Status
from pipeline.store.schema import results, schedule_runs, schedules

#: Looked for in one statement: SQLite's older versions take 999 values.
_AT_ONCE = 400
_COMPLETION = [results.c[field.name] for field in fields(Completion)]


def answers_to(
    connection: Connection, job_id: str, prompt_hashes: Sequence[bytes], *, of_any_job: bool
) -> dict[bytes, Completion]:
    """Those that the job has, or else any job, or any of the job's incremental schedule, by hash: whole or cut by the
    limit, never errors. `copied_from` is the id of the job that computed it, where it may be another one."""
    answered = and_(results.c.status.in_([Status.OK, Status.TRUNCATED]), *_of_jobs(connection, job_id, of_any_job))
    if connection.dialect.name == "postgresql":
        # Of a table that is new it knows too little to trust an index, and would read all of it again and again.
        connection.execute(text("SET LOCAL enable_seqscan = off"))
    found: dict[bytes, Completion] = {}
    for first in range(0, len(prompt_hashes), _AT_ONCE):
        found |= _some_answers(connection, prompt_hashes[first : first + _AT_ONCE], answered)
    if of_any_job:
        return found
    # Their rows go with those that they are copies of, and need not be found again.
    return {own: replace(answer, copied_from=None, prompt_hash=None) for own, answer in found.items()}


def _of_jobs(connection: Connection, job_id: str, of_any_job: bool) -> Iterator[ColumnElement[bool]]:
    # In a form that is in no index: by the ids of jobs a database would walk through all of their results.
    its_job = results.c.job_id.concat("")
    if not of_any_job:
        yield its_job == job_id
    elif (schedule_id := _incremental_schedule(connection, job_id)) is not None:
        yield its_job.in_(select(schedule_runs.c.job_id).where(schedule_runs.c.schedule_id == schedule_id))


def _incremental_schedule(connection: Connection, job_id: str) -> str | None:
    return connection.scalar(
        select(schedules.c.id)
        .join(schedule_runs, schedule_runs.c.schedule_id == schedules.c.id)
        .where(schedule_runs.c.job_id == job_id, schedules.c.incremental)
    )


def _some_answers(
    connection: Connection, prompt_hashes: Sequence[bytes], answered: ColumnElement[bool]
) -> dict[bytes, Completion]:
    # One each, however many rows have it.
    in_order = (results.c.job_id, results.c.row_id)
    place = func.row_number().over(partition_by=results.c.prompt_hash, order_by=in_order).label("place")
    theirs = select(*in_order, place).where(results.c.prompt_hash.in_(prompt_hashes), answered).subquery()
    one_each = connection.execute(select(theirs.c.job_id, theirs.c.row_id).where(theirs.c.place == 1)).all()
    found: dict[bytes, Completion] = {}
    for job_id, its in groupby(sorted((row.job_id, row.row_id) for row in one_each), key=itemgetter(0)):
        named = results.c.row_id.in_([row_id for _, row_id in its])
        rows = connection.execute(select(*_COMPLETION).where(results.c.job_id == job_id, named))
        found |= {row.prompt_hash: _copy(job_id, row) for row in rows}
    return found


def _copy(job_id: str, row: Row[tuple[object, ...]]) -> Completion:
    found = Completion(**row._mapping)
    return replace(found, copied_from=found.copied_from or job_id)
