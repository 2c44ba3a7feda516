"""Stage 6: answers that are in the database already, found by what they hang on (pipeline/identity.py)."""

from collections.abc import Sequence
from dataclasses import fields, replace

from sqlalchemy import Connection, func, select, tuple_

from pipeline.rows import Completion, Status
from pipeline.store.schema import results

#: Looked for in one statement: SQLite's older versions take 999 values.
_AT_ONCE = 400
_COMPLETION = [results.c[field.name] for field in fields(Completion)]


def answers_to(connection: Connection, prompt_hashes: Sequence[bytes]) -> dict[bytes, Completion]:
    """Those that any job has, by hash: whole or cut by the limit, never errors. `copied_from` is the job's id."""
    found: dict[bytes, Completion] = {}
    for first in range(0, len(prompt_hashes), _AT_ONCE):
        found |= _some_answers(connection, prompt_hashes[first : first + _AT_ONCE])
    return found


def _some_answers(connection: Connection, prompt_hashes: Sequence[bytes]) -> dict[bytes, Completion]:
    answered = results.c.status.in_([Status.OK, Status.TRUNCATED])
    # One each, however many rows have it.
    job_of = (
        select(results.c.prompt_hash, func.min(results.c.job_id).label("job_id"))
        .where(results.c.prompt_hash.in_(prompt_hashes), answered)
        .group_by(results.c.prompt_hash)
        .subquery()
    )
    one_each = connection.execute(
        select(results.c.job_id, func.min(results.c.row_id))
        .join(job_of, (results.c.prompt_hash == job_of.c.prompt_hash) & (results.c.job_id == job_of.c.job_id))
        .where(answered)
        .group_by(results.c.prompt_hash, results.c.job_id)
    ).all()
    rows = connection.execute(
        select(results.c.job_id, *_COMPLETION).where(
            tuple_(results.c.job_id, results.c.row_id).in_([(job_id, row_id) for job_id, row_id in one_each])
        )
    )
    return {row.prompt_hash: _copy(*row) for row in rows}


def _copy(job_id: str, *of_completion: object) -> Completion:
    names = (field.name for field in fields(Completion))
    found = Completion(**dict(zip(names, of_completion, strict=True)))  # type: ignore[arg-type]
    return replace(found, copied_from=job_id, prompt_hash=None)
