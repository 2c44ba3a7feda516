"""Out of Arrow into Python, the same way wherever a value or a key is looked at."""

import pyarrow as pa

from pipeline.errors import InputError


def values_of(column: pa.Array) -> list[object]:
    """Python has no nanoseconds: times are cut to microseconds."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    elif pa.types.is_time64(kind) and kind.unit == "ns":
        column = column.cast(pa.time64("us"), safe=False)
    elif pa.types.is_duration(kind) and kind.unit == "ns":
        column = column.cast(pa.duration("us"), safe=False)
    try:
        values: list[object] = column.to_pylist()
    except (OverflowError, ValueError):  # a year that Python does not have
        values = column.cast(pa.string()).to_pylist()
    return values


def keys_of(column: pa.Array) -> list[str | None]:
    """None where there is no key: a null, or an empty text."""
    return [None if value is None or value == "" else str(value) for value in values_of(column)]


def require_key_type(name: str, kind: pa.DataType) -> None:
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_null(kind):
        raise InputError(f'The column "{name}" is {kind}, which cannot be a key. Choose one of text or whole numbers.')
