"""Stage 7: columns of Arrow as JSON, by Arrow's own kernels, so that hardly any value becomes an object of Python's."""

import json
from collections.abc import Callable, Collection, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.ingest.values import values_of
from pipeline.store.plain import as_json

_TEXT = pa.large_string()  #: a page of rows may hold more than the two GB of a small one
_NULL = "null"
_USUAL = '\\"\n\r\t'  #: of what is escaped; the backslash first, for the others get one
_SPACE = 32  #: below are controls
_CONTROLS = "".join(map(chr, range(_SPACE)))
_WHOLE = r"^-?[0-9]+$"


def json_lines(table: pa.Table, as_they_are: Collection[str]) -> pa.Buffer:
    """An object a row; columns that are `as_they_are` hold JSON already."""
    columns = (
        (name, column.cast(_TEXT) if name in as_they_are else json_texts(column))
        for name, column in zip(table.column_names, (column.combine_chunks() for column in table.columns), strict=True)
    )
    lines = _objects(columns, "}\n")
    whole = pa.LargeListArray.from_arrays(pa.array([0, len(lines)], pa.int64()), lines)
    return pc.binary_join(whole, pa.scalar("", _TEXT))[0].as_buffer()


def json_texts(column: pa.Array) -> pa.Array:
    """Each value as plain.py has it, on one line; what is null, or no finite number, as `null`."""
    texts = next((texts for is_so, texts in _TEXTS if is_so(column.type)), _one_by_one)
    return pc.if_else(column.is_valid(), texts(column), _NULL)


def json_cells(column: pa.Array) -> pa.Array:
    """The same, and null where there is nothing."""
    return pc.if_else(column.is_valid(), json_texts(column), None)


def _objects(columns: Iterable[tuple[str, pa.Array]], end: str) -> pa.Array:
    parts: list[pa.Array | str] = []
    for name, texts in columns:
        parts += [f"{', ' if parts else '{'}{json.dumps(name, ensure_ascii=False)}: ", pc.coalesce(texts, _NULL)]
    return _joined(*parts, end)


def _structs(column: pa.StructArray) -> pa.Array:
    return _objects(((field.name, json_texts(column.field(at))) for at, field in enumerate(column.type)), "}")


def _lists(column: pa.ListArray | pa.LargeListArray) -> pa.Array:
    texts = pa.LargeListArray.from_arrays(column.offsets.cast(pa.int64()), json_texts(column.values))
    return _joined("[", pc.binary_join(texts, pa.scalar(", ", _TEXT)), "]")


def _vectors(column: pa.FixedSizeListArray) -> pa.Array:
    return _lists(column.cast(pa.list_(column.type.value_type)))


def _strings(column: pa.Array) -> pa.Array:
    column = column.cast(_TEXT)
    data = _bytes(column)
    if ((data < _SPACE) | (data == ord('"')) | (data == ord("\\"))).any():
        column = _escaped(column, _USUAL)
        if (_bytes(column) < _SPACE).any():
            column = _escaped(column, _CONTROLS)
    return _joined('"', column, '"')


def _bytes(column: pa.LargeStringArray) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Of all its texts, and maybe of others beside a slice: in UTF-8, what is no byte of theirs is in none of them."""
    return np.frombuffer(column.buffers()[-1] or b"", np.uint8)


def _escaped(column: pa.LargeStringArray, characters: str) -> pa.LargeStringArray:
    for character in characters:
        column = pc.replace_substring(column, character, json.dumps(character)[1:-1])
    return column


def _floats(column: pa.FloatingPointArray) -> pa.Array:
    """Those that are whole with a point, since readers take others for integers."""
    numbers = column.cast(pa.float64())
    texts = numbers.cast(_TEXT)
    texts = pc.if_else(pc.match_substring_regex(texts, _WHOLE), _joined(texts, ".0"), texts)
    return pc.if_else(pc.is_finite(numbers), texts, _NULL)


def _bare(column: pa.Array) -> pa.Array:
    return column.cast(_TEXT)


def _decoded(column: pa.DictionaryArray) -> pa.Array:
    return json_texts(column.dictionary_decode())


def _one_by_one(column: pa.Array) -> pa.Array:
    return pa.array(map(as_json, values_of(column)), _TEXT)


def _joined(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(
        *(pa.scalar(part, _TEXT) if isinstance(part, str) else part for part in (*parts, ""))
    )


_TEXTS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (pa.types.is_string, _strings),
    (pa.types.is_large_string, _strings),
    (pa.types.is_integer, _bare),
    (pa.types.is_boolean, _bare),
    (pa.types.is_floating, _floats),
    (pa.types.is_struct, _structs),
    (pa.types.is_list, _lists),
    (pa.types.is_large_list, _lists),
    (pa.types.is_fixed_size_list, _vectors),
    (pa.types.is_dictionary, _decoded),
)
