"""Stage 7: two jobs' answers to the same keys: how far they agree, and where they do not. The database joins them, so
that nothing grows with the jobs but its own temporary files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    Engine,
    FromClause,
    Row,
    Select,
    Text,
    and_,
    case,
    func,
    literal,
    literal_column,
    or_,
    select,
    type_coerce,
)

from pipeline.store.records import JobRecord
from pipeline.store.schema import results
from pipeline.store.selection import Block
from pipeline.store.transactions import reading

_BLOCK_ROWS = 1000
_COMPARED = ("status", "label", "score", "output", "error")
#: Of which a mean is told.
_MEASURED = ("score", "logprob")
#: What PostgreSQL calls the columns of changed_rows.
_KINDS = {"row_id": "int8", "score": "float8"}


@dataclass(frozen=True, slots=True)
class Agreement:
    """Counts of rows by key; of several questions, of answers by key and question. A row has changed where its status,
    its label or its text is another one."""

    both: int  #: keys that both jobs have results for
    only_first: int
    only_second: int
    status: int  #: rows of both whose status is another one
    label: int
    text: int
    changed: int  #: any of the three
    confusion: dict[tuple[str, str], int]  #: rows by the first job's label and the second's, where both have one
    written: int  #: rows of both that have a text in one of them: vectors and scores of texts are not compared
    score_change: float | None  #: mean of the second's score less the first's, where both have one
    logprob_change: float | None  #: the same

    @property
    def share(self) -> float | None:
        """Of the rows of both, those that have not changed; None where none has anything that is compared."""
        return None if self.written == 0 else 1 - self.changed / self.both

    @property
    def kappa(self) -> float | None:
        """Cohen's (1960): agreement on labels beyond what chance would give; None where that is not defined."""
        n = sum(self.confusion.values())
        labels = {label for pair in self.confusion for label in pair}
        if n == 0:
            return None
        agreed = sum(count for (first, second), count in self.confusion.items() if first == second) / n
        by_chance = sum(self._share_of(label, 0, n) * self._share_of(label, 1, n) for label in labels)
        return None if by_chance == 1 else (agreed - by_chance) / (1 - by_chance)

    def _share_of(self, label: str, side: int, n: int) -> float:
        return sum(count for pair, count in self.confusion.items() if pair[side] == label) / n


def agreement(engine: Engine, first: JobRecord, second: JobRecord) -> Agreement:
    one, other = _side(engine, first, "one"), _side(engine, second, "other")
    change = _Change(one, other)
    sums = {"status": change.status, "label": change.label, "text": change.text, "changed": change.any}
    sums["written"] = or_(one.c.output.is_not(None), other.c.output.is_not(None))
    changes = {name: other.c[name] - one.c[name] for name in _MEASURED}
    query = (
        select(
            one.c.label.label("first_label"),
            other.c.label.label("second_label"),
            func.count().label("rows"),
            *(func.sum(case((condition, 1), else_=0)).label(name) for name, condition in sums.items()),
            *(func.count(change).label(f"{name}_rows") for name, change in changes.items()),
            *(func.sum(change).label(f"{name}_change") for name, change in changes.items()),
        )
        .join_from(one, other, _same(one, other))
        .group_by(one.c.label, other.c.label)
    )
    with reading(engine) as connection:
        n_first, n_second = (_count(connection, job) for job in (first, second))
        groups = connection.execute(query).all()
    both = sum(group.rows for group in groups)
    return Agreement(
        both=both,
        only_first=n_first - both,
        only_second=n_second - both,
        **{name: int(sum(getattr(group, name) for group in groups)) for name in sums},
        confusion={
            (group.first_label, group.second_label): group.rows
            for group in groups
            if group.first_label is not None and group.second_label is not None
        },
        score_change=_mean(groups, "score"),
        logprob_change=_mean(groups, "logprob"),
    )


def _mean(groups: Sequence[Row[*tuple[Any, ...]]], name: str) -> float | None:
    """Of the change in a column, over all groups."""
    rows: int = sum(getattr(group, f"{name}_rows") for group in groups)
    return sum(getattr(group, f"{name}_change") or 0.0 for group in groups) / rows if rows else None


class ChangedRows:
    """Rows that have changed, or that one of the jobs alone has, side by side: those of the first job in its order,
    then what the second alone has. Streamed."""

    name = "the comparison"

    def __init__(self, engine: Engine, first: JobRecord, second: JobRecord) -> None:
        self._engine, self._first, self._second = engine, first, second

    def facts(self) -> tuple[str, str]:
        return self._first.id, self._second.id

    def blocks(self) -> Iterator[Block]:
        queries = (self._changed(), self._only_second())
        names = tuple(queries[0].selected_columns.keys())
        kinds = tuple(_KINDS.get(name.partition("_")[2], "text") for name in names)
        yield Block(names, kinds, [])
        with reading(self._engine) as connection:
            for query in queries:
                for rows in connection.execution_options(yield_per=_BLOCK_ROWS).execute(query).partitions():
                    yield Block(names, kinds, rows)

    def _changed(self) -> Select[Any]:
        one, other = _side(self._engine, self._first, "one"), _side(self._engine, self._second, "other")
        change = _Change(one, other)
        is_alone = other.c.key.is_(None)
        what = case(
            (is_alone, "only in the first"),
            (change.status, "status"),
            (change.label, "label"),
            else_="text",
        )
        return (
            select(one.c.key, one.c.question, what.label("change"), *_both_sides(one, other))
            .outerjoin_from(one, other, _same(one, other))
            .where(or_(is_alone, change.any))
            .order_by(one.c.row_id)
        )

    def _only_second(self) -> Select[Any]:
        one, other = _side(self._engine, self._first, "one"), _side(self._engine, self._second, "other")
        change: Any = literal("only in the second").label("change")
        return (
            select(other.c.key, other.c.question, change, *_both_sides(one, other))
            .outerjoin_from(other, one, _same(one, other))
            .where(one.c.key.is_(None))
            .order_by(other.c.row_id)
        )


class _Change:
    """Conditions on two sides; null is a value like others."""

    def __init__(self, one: FromClause, other: FromClause) -> None:
        self.status = one.c.status.is_distinct_from(other.c.status)
        self.label = one.c.label.is_distinct_from(other.c.label)
        self.text = one.c.output.is_distinct_from(other.c.output)
        self.any = or_(self.status, self.label, self.text)


def _side(engine: Engine, job: JobRecord, name: str) -> CTE:
    """SQLite takes a job's rows for few, and would look through all of them for each key. Told that they are many, and
    to have them as a table of their own, it makes an index of their keys."""
    columns = (results.c.row_id, results.c.key, results.c.question, type_coerce(results.c.status, Text).label("status"))
    others = (results.c[column] for column in dict.fromkeys(_COMPARED + _MEASURED) if column != "status")
    is_its: Any = results.c.job_id == job.id
    if engine.dialect.name == "sqlite":
        is_its = func.likelihood(is_its, literal_column("0.5"))
    side = select(*columns, *others).where(is_its).cte(name)
    return side.prefix_with("MATERIALIZED", dialect="sqlite")


def _same(one: FromClause, other: FromClause) -> ColumnElement[bool]:
    return and_(one.c.key == other.c.key, one.c.question.is_not_distinct_from(other.c.question))


def _both_sides(one: FromClause, other: FromClause) -> Iterator[object]:
    for column in ("row_id", *_COMPARED):
        yield one.c[column].label(f"first_{column}")
        yield other.c[column].label(f"second_{column}")


def _count(connection: Connection, job: JobRecord) -> int:
    return int(connection.scalar(select(func.count()).where(results.c.job_id == job.id)) or 0)
