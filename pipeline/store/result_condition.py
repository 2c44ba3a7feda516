"""Stage 7: what `--where` says of results, as a condition whose every value is bound."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Double,
    Engine,
    Integer,
    Numeric,
    and_,
    case,
    cast,
    literal,
    not_,
    or_,
    type_coerce,
)
from sqlalchemy.types import Enum

from pipeline.errors import SpecError, nearest
from pipeline.ingest.expression import Literal, columns_of, like_as, read
from pipeline.store.column_types import AnyText
from pipeline.store.schema import results

ResultCondition = ColumnElement[bool]

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_LEFT_OUT = ("job_id", "embedding", "prompt_hash", "created_at")
#: By the names that they have in an export.
_COLUMNS = {column.name: column for column in results.c if column.name not in _LEFT_OUT} | {
    "answered_at": results.c.created_at
}
#: By letters that mean the same in every locale; more digits behind an E are no number that a database can hold.
_NUMBER = r"\A[ \t\n\f\r]*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?[ \t\n\f\r]*\Z"
_BEYOND = 2**63  #: no database has such whole numbers, but as floats


def asks_results_alone(text: str) -> bool:
    """Whether the database can tell. Raises SpecError where it cannot be read."""
    return set(columns_of(text)) <= _COLUMNS.keys()


def result_condition(text: str, engine: Engine) -> ResultCondition:
    """Raises SpecError with the place of a fault, for a column that is not there, or a comparison without a meaning."""
    return read(text, _OfResults(_DIALECTS[engine.dialect.name]))


@dataclass(frozen=True, slots=True)
class _Dialect:
    """What databases do not have in common."""

    by_code_point: Callable[[ColumnElement[Any]], ColumnElement[Any]]  #: a text, compared so whatever the locale
    like: Callable[[ColumnElement[Any], str], ResultCondition]  #: with notice of case, in a time linear in the text


class _OfResults:
    """As of inputs (ingest/condition.py): text is compared with a number as the number that it is, and case counts."""

    def __init__(self, dialect: _Dialect) -> None:
        self._dialect = dialect

    def column(self, name: str) -> Column[Any]:
        if name not in _COLUMNS:
            raise SpecError(
                f'The results have no column "{name}".{nearest(name, list(_COLUMNS))} Their columns are: '
                f"{', '.join(_COLUMNS)}."
            )
        return _COLUMNS[name]

    def is_true(self, column: Column[Any]) -> ResultCondition | None:
        return None

    def is_null(self, column: Column[Any]) -> ResultCondition:
        return column.is_(None)

    def compare(self, column: Column[Any], sign: str, value: Literal) -> ResultCondition:
        found: ResultCondition
        if column is results.c.created_at:
            found = _OPERATORS[sign](column, _seconds(value))
        elif isinstance(value, str) and _is_text(column):
            found = _OPERATORS[sign](self._text(column), value)
        elif isinstance(value, bool | str) or not (_is_text(column) or _is_number(column)):
            raise _without_meaning(column, value)
        else:
            found = _OPERATORS[sign](self._number(column) if _is_text(column) else column, _bound(value))
        return found

    def like(self, column: Column[Any], pattern: str) -> ResultCondition:
        if not _is_text(column):
            raise _without_meaning(column, pattern)
        return self._dialect.like(self._text(column), pattern)

    def opposite(self, part: ResultCondition) -> ResultCondition:
        return not_(part)

    def any_of(self, parts: Sequence[ResultCondition]) -> ResultCondition:
        return or_(*parts)

    def every_of(self, parts: Sequence[ResultCondition]) -> ResultCondition:
        return and_(*parts)

    def _text(self, column: Column[Any]) -> ColumnElement[Any]:
        return self._dialect.by_code_point(type_coerce(column, AnyText))

    def _number(self, column: Column[Any]) -> ColumnElement[Any]:
        """Null where the text is none."""
        text = self._text(column)
        return case((text.regexp_match(_NUMBER), cast(text, Numeric)), else_=None)


def _is_text(column: Column[Any]) -> bool:
    return isinstance(column.type, AnyText | Enum)


def _is_number(column: Column[Any]) -> bool:
    return isinstance(column.type, Integer | Double)


def _seconds(value: Literal) -> float:
    """Since 1970; a time without a zone is one of UTC."""
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise _without_meaning(results.c.created_at, value) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _bound(value: int | float) -> ColumnElement[Any]:
    whole = isinstance(value, int) and abs(value) < _BEYOND
    return literal(value, BigInteger()) if whole else literal(float(value), Double())


def _without_meaning(column: Column[Any], value: Literal) -> SpecError:
    name = next(name for name, known in _COLUMNS.items() if known is column)
    if column is results.c.created_at:
        return SpecError(
            f"--where compares {name}, which is a time, with {value!r}, and that has no meaning. Write '2026-12-01' or "
            "'2026-12-01 08:30', of UTC, or with a zone as in '2026-12-01T08:30+01:00'."
        )
    kind = "text" if _is_text(column) else "a number" if _is_number(column) else "a list"
    return SpecError(f'--where compares the column "{name}", which is {kind}, with {value!r}, and that has no meaning.')


def _glob(text: ColumnElement[Any], pattern: str) -> ResultCondition:
    """SQLite's LIKE takes no notice of case."""
    translated = like_as(pattern, {"%": "*", "_": "?"}, lambda sign: f"[{sign}]" if sign in "*?[" else sign)
    return text.bool_op("GLOB")(translated)


def _like(text: ColumnElement[Any], pattern: str) -> ResultCondition:
    """PostgreSQL's own takes a backslash before any character."""
    translated = like_as(pattern, {"%": "%", "_": "_"}, lambda sign: f"\\{sign}" if sign in "%_\\" else sign)
    return text.like(translated)


_DIALECTS = {
    "sqlite": _Dialect(lambda text: text, _glob),
    "postgresql": _Dialect(lambda text: text.collate("C"), _like),
}
