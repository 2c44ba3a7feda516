"""What a column of text cannot hold, carried in it all the same, so that only the row that has it is at fault.

Halves of surrogate pairs, and bytes that are no UTF-8, stand in the column as they are; what is no text at all stands
there as JSON behind a byte that UTF-8 never has. All of it costs those columns alone that have some.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

_MARK = b"\xff"
_HALF = re.compile("[\ud800-\udfff]")
_BYTES = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}

Retype = Callable[[pa.DataType], pa.DataType]


def within(kind: pa.DataType, leaf: Retype) -> pa.DataType:
    """`kind` with `leaf` applied to it, or to all that it is made of."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(within(field.type, leaf)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(within(kind.key_type, leaf), within(kind.item_type, leaf))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(within(kind.value_type, leaf), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(within(kind.value_type, leaf))
    return pa.list_(within(kind.value_type, leaf)) if pa.types.is_list(kind) else leaf(kind)


def is_torn(text: str) -> bool:
    return not text.isascii() and _HALF.search(text) is not None


def require_sound(batch: pa.RecordBatch) -> None:
    """Text that is no UTF-8 is left to the row that has it. Raises pa.ArrowInvalid for what cannot be read at all."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        for column in batch.columns:
            _as_bytes(column).validate(full=True)


def strange_rows(batch: pa.RecordBatch) -> dict[int, str]:
    """By the places of rows that hold what no prompt takes where text stands, the first column in which they do."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        columns = list(zip(batch.schema.names, map(_strange_places, batch.columns), strict=True))
        return {place: name for name, places in reversed(columns) for place in places}
    return {}


def carried(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    """A column of them. Raises pa.ArrowException where even so one of them does not fit."""
    return pa.array([_through(value, kind, _stored) for value in values], within(kind, _bytes_of)).view(kind)


def values_within(column: pa.Array | pa.ChunkedArray) -> list[object]:
    """What was carried, and text that cannot be one with halves of surrogate pairs where it is broken."""
    stored = column.cast(within(column.type, _bytes_of)).to_pylist()
    return [_through(value, column.type, _found) for value in stored]


def readable(table: pa.Table) -> pa.Table:
    """With text alone, for whoever writes it out: what was no text is JSON, and what is broken is U+FFFD."""
    for place, field in enumerate(table.schema):
        try:
            table.column(place).validate(full=True)
        except pa.ArrowInvalid:
            values = [_through(value, field.type, _shown) for value in values_within(table.column(place))]
            table = table.set_column(place, field, pa.array(values, field.type))
    return table


def _strange_places(column: pa.Array) -> list[int]:
    stored = column.cast(within(column.type, _bytes_of)).to_pylist()
    return [place for place, value in enumerate(stored) if _holds_strange(value, column.type)]


def _holds_strange(value: object, kind: pa.DataType) -> bool:
    found: list[object] = []
    _through(value, kind, lambda stored: found.append(_found(stored)))
    return any(is_torn(each) if isinstance(each, str) else isinstance(each, list | dict) for each in found)


def _as_bytes(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, _as_bytes(column.dictionary))
    return column.view(within(column.type, _bytes_of))


def _bytes_of(kind: pa.DataType) -> pa.DataType:
    return _BYTES.get(kind, kind)


def _through(value: Any, kind: pa.DataType, leaf: Callable[[Any], object]) -> object:
    """Each value that stands where `kind` has text, by another one."""
    if value is None:
        return None
    if kind in _BYTES:
        return leaf(value)
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return {field.name: _through(value.get(field.name), field.type, leaf) for field in kind}
    if pa.types.is_map(kind):
        return [(_through(name, kind.key_type, leaf), _through(part, kind.item_type, leaf)) for name, part in value]
    if isinstance(value, list):
        return [_through(part, kind.value_type, leaf) for part in value]
    return value


def _stored(value: object) -> bytes:
    return value.encode(errors="surrogatepass") if isinstance(value, str) else _MARK + json.dumps(value).encode()


def _found(stored: bytes) -> object:
    if stored.startswith(_MARK):
        try:
            return json.loads(stored.removeprefix(_MARK))
        except (ValueError, RecursionError):
            return stored.decode(errors="surrogateescape")
    try:
        return stored.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return stored.decode(errors="surrogateescape")


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _HALF.sub("\ufffd", text)
