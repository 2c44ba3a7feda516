"""Stage 7: results as the database keeps them, some columns of some rows, for whoever makes tables of them."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Engine, Enum, Row, Text, func, select, type_coerce

from pipeline.rows import Status
from pipeline.store.column_types import AnyText
from pipeline.store.schema import results
from pipeline.store.transactions import reading

#: Columns that hold lists.
NESTED = ("labels", "scores", "samples", "logprobs")


def read_columns(
    engine: Engine,
    job_id: str,
    names: Sequence[str],
    limit: int | None,
    *,
    rows: range | None = None,
    status: Status | None = None,
    condition: ColumnElement[bool] | None = None,
) -> Sequence[Row[tuple[object, ...]]]:
    """Of the job's results, or of a run of its rows, in their order. Texts are as the database has them, with escapes
    (column_types.py); what is nested in a column is JSON text."""
    query = (
        select(*(_as_kept(results.c[name]) for name in names))
        .where(results.c.job_id == job_id)
        .order_by(results.c.row_id)
        .limit(limit)
    )
    if rows is not None:
        query = query.where(results.c.row_id >= rows.start, results.c.row_id < rows.stop)
    if status is not None:
        query = query.where(results.c.status == status)
    if condition is not None:
        query = query.where(condition)
    with reading(engine) as connection:
        return connection.execute(query).all()


def count_results(engine: Engine, job_id: str, status: Status | None, condition: ColumnElement[bool] | None) -> int:
    """One by one, as only a condition needs it."""
    query = select(func.count()).select_from(results).where(results.c.job_id == job_id)
    for which in (None if status is None else results.c.status == status, condition):
        query = query if which is None else query.where(which)
    with reading(engine) as connection:
        return int(connection.scalar(query) or 0)


def _as_kept(column: Column[Any]) -> ColumnElement[Any]:
    is_text = isinstance(column.type, AnyText | Enum) or column.name in NESTED
    return type_coerce(column, Text).label(column.name) if is_text else column
