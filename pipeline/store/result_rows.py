"""Stage 7: results as the database keeps them, some columns of some rows, for whoever makes tables of them."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Engine, Enum, Row, Text, func, select, type_coerce

from pipeline.rows import Status
from pipeline.store.column_types import AnyText
from pipeline.store.records import JobRecord
from pipeline.store.schema import results
from pipeline.store.transactions import reading

#: Columns that hold lists.
NESTED = ("labels", "scores", "samples", "logprobs")


def read_columns(
    engine: Engine,
    job: JobRecord,
    names: Sequence[str],
    limit: int | None,
    *,
    rows: range | None = None,
    status: Status | None = None,
    condition: ColumnElement[bool] | None = None,
) -> Sequence[Row[*tuple[Any, ...]]]:
    """Of the job's results, or of a run of its rows, in their order; `limit` counts rows of the input. Of several
    questions, all answers to each row of which one is wanted.

    Texts are as the database has them, with escapes (column_types.py); what is nested in a column is JSON text.
    """
    count, run = job.n_questions, list(_run(job, rows))
    wanted = (*run, *_wanted(status, condition))
    query = select(*(_as_kept(results.c[name]) for name in names)).order_by(results.c.row_id)
    if count == 1:
        query = query.where(*wanted).limit(limit)
    else:
        of_input = _first(count).label("first")
        some = select(of_input).where(*wanted).distinct().order_by(of_input).limit(limit)
        query = query.where(*run, _first(count).in_(some.correlate(None)))
    with reading(engine) as connection:
        return connection.execute(query).all()


def by_question(
    names: Sequence[str], found: Sequence[Row[*tuple[Any, ...]]], count: int
) -> tuple[list[int], list[dict[str, Sequence[Any]]]]:
    """Rows of the input, and of each of their `count` questions the columns, None where there is no answer yet.

    `names` begin with row_id, which is that of the input in the first question's columns, as is a key.
    """
    if count == 1:
        columns: dict[str, Sequence[Any]] = dict(zip(names, zip(*found, strict=True), strict=True))
        return list(columns["row_id"]), [columns]
    places = [divmod(row_id, count) for row_id, *_ in found]
    rows = list(dict.fromkeys(row for row, _ in places))
    at = {row: place for place, row in enumerate(rows)}
    of_questions: list[dict[str, list[Any]]] = [{name: [None] * len(rows) for name in names} for _ in range(count)]
    for (row, question), values in zip(places, found, strict=True):
        for name, value in zip(names, values, strict=True):
            of_questions[question][name][at[row]] = value
            if name == "key":
                of_questions[0]["key"][at[row]] = value
    of_questions[0]["row_id"] = rows
    return rows, [dict(columns) for columns in of_questions]


def count_rows(
    engine: Engine, job: JobRecord, status: Status | None, condition: ColumnElement[bool] | None = None
) -> int:
    """Of the input, those that have such an answer, counted one by one."""
    rows = func.count() if job.n_questions == 1 else func.count(_first(job.n_questions).distinct())
    query = select(rows).select_from(results).where(results.c.job_id == job.id, *_wanted(status, condition))
    with reading(engine) as connection:
        return int(connection.scalar(query) or 0)


def _run(job: JobRecord, rows: range | None) -> Iterator[ColumnElement[bool]]:
    yield results.c.job_id == job.id
    if rows is not None:
        yield results.c.row_id.between(rows.start, rows.stop - 1)


def _wanted(status: Status | None, condition: ColumnElement[bool] | None) -> Iterator[ColumnElement[bool]]:
    if status is not None:
        yield results.c.status == status
    if condition is not None:
        yield condition


def _first(count: int) -> ColumnElement[int]:
    """The row_id of the first question of the same row."""
    return results.c.row_id - results.c.row_id % count


def _as_kept(column: Column[Any]) -> ColumnElement[Any]:
    is_text = isinstance(column.type, AnyText | Enum) or column.name in NESTED
    return type_coerce(column, Text).label(column.name) if is_text else column
