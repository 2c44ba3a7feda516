"""Out of Arrow into Python, the same way wherever a value or a key is looked at."""

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.ingest.strange import Retype, values_within, within


def values_of(column: pa.Array | pa.ChunkedArray) -> list[object]:
    """Python has no nanoseconds: times are cut to microseconds. Where it lacks a date, all of the column's are text.

    Raises InputError for a time that Arrow cannot tell either.
    """
    try:
        values = _listed(_retyped(column, _in_microseconds))
    except (OverflowError, ValueError):
        try:
            values = _listed(_retyped(column, _dates_as_text))
        except pa.ArrowException as error:
            raise InputError(f"A column of the input holds times that cannot be read: {error}.") from error
    return values


def rows_of(table: pa.Table) -> list[dict[str, object]]:
    """By the columns' names."""
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*map(values_of, table.columns), strict=True)]


def keys_of(column: pa.Array) -> list[str | None]:
    """None where there is no key: a null, or an empty text."""
    return [None if value is None or value == "" else str(value) for value in values_of(column)]


def require_key_type(name: str, kind: pa.DataType) -> None:
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_null(kind):
        raise InputError(f'The column "{name}" is {kind}, which cannot be a key. Choose one of text or whole numbers.')


def _listed(column: pa.Array | pa.ChunkedArray) -> list[object]:
    try:
        values: list[object] = column.to_pylist()
    except UnicodeDecodeError:
        return values_within(column)
    return values


def _retyped(column: pa.Array | pa.ChunkedArray, leaf: Retype) -> pa.Array | pa.ChunkedArray:
    kind = within(column.type, leaf)
    return column if kind == column.type else column.cast(kind, safe=False)


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if pa.types.is_time64(kind):
        return pa.time64("us")
    return pa.duration("us") if pa.types.is_duration(kind) and kind.unit == "ns" else kind


def _dates_as_text(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_temporal(kind) else kind
