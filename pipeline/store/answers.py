"""Stage 7: the answers to each row of the input together; where a job has several questions, there is one to each."""

from dataclasses import fields
from itertools import groupby

from sqlalchemy import ColumnElement, Engine, func, select

from pipeline.rows import Completion, Status
from pipeline.store.queries import read_results
from pipeline.store.records import JobRecord
from pipeline.store.schema import results
from pipeline.store.transactions import reading

#: In the order of the questions; None is not there yet.
Answers = tuple[Completion | None, ...]

_COMPLETION = [results.c[field.name] for field in fields(Completion)]


def read_answers(
    engine: Engine, job: JobRecord, row_ids: range, status: Status | None = None, limit: int | None = None
) -> list[tuple[int, Answers]]:
    """(row of the input, its answers) of those that have any, in their order; `row_ids` are those of whole rows.

    With `status`, of rows of which any answer ended so, with all of their answers.
    """
    count = job.n_questions
    if count == 1:
        return [(found.row_id, (found,)) for found in read_results(engine, job.id, row_ids, status, limit)]
    its_rows = results.c.row_id.between(row_ids.start, row_ids.stop - 1)
    query = select(*_COMPLETION).where(results.c.job_id == job.id, its_rows).order_by(results.c.row_id)
    if status is not None:
        wanted = select(_first(count)).where(results.c.job_id == job.id, its_rows, results.c.status == status)
        query = query.where(_first(count).in_(wanted.correlate(None)))
    with reading(engine) as connection:
        found = [Completion(**row._mapping) for row in connection.execute(query)]
    rows = groupby(found, key=lambda answer: answer.row_id // count)
    return [(row, _in_order(list(answers), count)) for row, answers in rows][:limit]


def count_rows(engine: Engine, job: JobRecord, status: Status | None) -> int:
    """Of the input, those that have an answer, or of which any answer ended so."""
    query = select(func.count(_first(job.n_questions).distinct())).where(results.c.job_id == job.id)
    with reading(engine) as connection:
        return connection.scalar(query if status is None else query.where(results.c.status == status)) or 0


def _first(count: int) -> ColumnElement[int]:
    """The row_id of the first question of the same row."""
    return results.c.row_id - results.c.row_id % count


def _in_order(answers: list[Completion], count: int) -> Answers:
    by_place = {answer.row_id % count: answer for answer in answers}
    return tuple(by_place.get(place) for place in range(count))
