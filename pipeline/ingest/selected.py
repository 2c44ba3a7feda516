"""A SELECT as input. A column's type is what the database says or the first rows show; a text is a text.

Later rows of another type are errors that name the row, since rows before them are written out already.
"""

import datetime
import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Protocol

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.ingest.strange import carried, is_torn

_AS_THEY_ARE = (str, int, float, bytes, datetime.date, datetime.time, datetime.timedelta)
#: What PostgreSQL says of a column counts more than its values, which may all be null.
_KINDS = {
    r"int[248]": pa.int64(),
    r"float[48]": pa.float64(),
    r"bool": pa.bool_(),
    r"date": pa.date32(),
    r"timestamp(\(\d+\))?": pa.timestamp("us"),
    r"timestamptz(\(\d+\))?": pa.timestamp("us", "UTC"),
    r"bytea": pa.binary(),
    r"(text|json|jsonb|uuid|bpchar|varchar|numeric)(\(\d+\))?": pa.string(),
}
_FIXED = re.compile(r"numeric\(\d+, ?(\d+)\)")
_DIGITS = 38  #: of a number with a fixed point


class Rows(Protocol):
    """Some rows, and what their columns are named and made of."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def kinds(self) -> tuple[str | None, ...]: ...
    @property
    def rows(self) -> Sequence[Sequence[object]]: ...


class Selected(Protocol):
    """Rows that are asked for anew each time."""

    name: str

    def blocks(self) -> Iterator[Rows]:
        """At least one, if only of no rows."""

    def facts(self) -> tuple[str, str]:
        """What another SELECT differs in."""


def schema(selected: Selected) -> pa.Schema:
    head = next(iter(selected.blocks()))
    columns = zip(head.names, head.kinds, _columns(head), strict=True)
    return pa.schema([(name, _type(name, kind, values, selected.name)) for name, kind, values in columns])


def batches(selected: Selected, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    first_row = 1
    for block in selected.blocks():
        if list(block.names) != schema.names:
            raise InputError(f"{selected.name} has other columns than a moment ago. Submit again.")
        arrays = []
        for field, values in zip(schema, _columns(block), strict=True):
            try:
                arrays.append(_array(values, field.type))
            except (pa.ArrowException, ValueError, TypeError, OverflowError):
                at = next(place for place, value in enumerate(values) if not _fits(value, field.type))
                raise _misfit(first_row + at, selected.name, field, values[at]) from None
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        first_row += len(block.rows)


def _array(values: list[object], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return carried(values, kind)


def _columns(block: Rows) -> list[list[object]]:
    columns = zip(*block.rows, strict=True) if block.rows else ([] for _ in block.names)
    return [_plain_column(kind, values) for kind, values in zip(block.kinds, columns, strict=True)]


def _plain_column(kind: str | None, values: Sequence[object]) -> list[object]:
    if kind in ("json", "jsonb"):
        return [None if value is None else _json(value) for value in values]
    if kind and _FIXED.fullmatch(kind):
        return list(values)
    return [_plain(value) for value in values]


def _plain(value: object) -> object:
    """Objects become JSON: as structs, they would lose what the first rows do not have.

    A decimal number becomes text, as what knows no type does, since a later one may have more places than the first.
    """
    if value is None or isinstance(value, _AS_THEY_ARE):
        return value
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(part, dict | list) for part in value)):
        return _json(value)
    return [_plain(part) for part in value] if isinstance(value, list) else str(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _type(name: str, kind: str | None, values: list[object], table: str) -> pa.DataType:
    if kind and (places := _FIXED.fullmatch(kind)):
        return pa.decimal128(_DIGITS, int(places[1]))
    for pattern, known in _KINDS.items():
        if kind and re.fullmatch(pattern, kind):
            return known
    values = ["" if isinstance(value, str) and is_torn(value) else value for value in values]
    try:
        return pa.array(values).type
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        at = bisect_left(range(len(values)), True, key=lambda last: not _are_alike(values[: last + 1]))
        raise _misfit(at + 1, table, pa.field(name, pa.array(values[:at]).type), values[at]) from None


def _are_alike(values: list[object]) -> bool:
    try:
        pa.array(values)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return False
    return True


def _fits(value: object, kind: pa.DataType) -> bool:
    try:
        pa.array([value], kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return False
    return True


def _misfit(row: int, table: str, field: pa.Field, value: object) -> InputError:
    shown = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}..."
    return InputError(
        f'Row {row} of {table} holds {shown} in the column "{field.name}", which the rows before it make {field.type}. '
        f"Give it one type in the SELECT, such as CAST({field.name} AS TEXT) AS {field.name}."
    )
