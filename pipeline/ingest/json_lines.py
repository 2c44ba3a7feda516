"""JSON Lines as input: an object a line. A column's type is what the first block of lines shows; a text is a text.

What stands in a column of text and is none is carried on (strange.py). Another line of another type is an error that
names the line, since rows before it are written out already.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from pipeline.errors import InputError
from pipeline.ingest.columns import retype
from pipeline.ingest.files import LineInput
from pipeline.ingest.lines import Block
from pipeline.ingest.mended_lines import Mended, mended
from pipeline.ingest.nesting import MOST_LEVELS, too_deep
from pipeline.ingest.strange import carried, is_torn


def schema(file: LineInput) -> pa.Schema:
    head = file.head()
    return _inferred(head, file.name) if head else pa.schema([])


def batches(file: LineInput, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """`schema` must be that of all inputs: it holds the types of columns of which this file shows only nulls."""
    for block in file.blocks():
        yield from _parsed(block, schema, file.name).to_batches()


def rows_in(block: Block) -> int:
    return _filled(block.data)


def _filled(lines: bytes) -> int:
    return sum(1 for line in lines.split(b"\n") if line.strip())


def _inferred(block: Block, name: str) -> pa.Schema:
    table = _parsed(block, None, name)
    return pa.schema([(field.name, retype(field.type, _date_as_text)) for field in table.schema])


def _date_as_text(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _parsed(block: Block, schema: pa.Schema | None, name: str) -> pa.Table:
    if (at := too_deep(block.data)) is not None:
        raise InputError(
            f"Line {block.first_line + at} of {name} holds lists or objects within each other that are more than "
            f"{MOST_LEVELS} deep. Write what is that deep as text."
        )
    try:
        table = _read(block.data, schema)
    except _UnreadableError:
        table = _mended(block, schema, name)
    for column in table.column_names:
        _require_digits(block, table, column, name)
    return table


def _require_digits(block: Block, table: pa.Table, column: str, name: str) -> None:
    """pyarrow rounds whole numbers of more than 64 bits without a word, so that two keys may become one."""
    if not pa.types.is_floating(table.schema.field(column).type):
        return
    if not pc.any(pc.greater_equal(pc.abs(table.column(column)), 2.0**63)).as_py():
        return
    for number, line in enumerate(block.data.split(b"\n"), start=block.first_line):
        value = json.loads(line.decode(errors="surrogateescape")).get(column) if line.strip() else None
        if isinstance(value, int) and abs(value) >= 1 << 63:
            raise InputError(
                f'Line {number} of {name} holds a whole number of more than 64 bits in the column "{column}": '
                f"{_short(value)}. Its last digits would be lost; write the column as text."
            )


def _mended(block: Block, schema: pa.Schema | None, name: str) -> pa.Table:
    """For a schema, it does not matter what stands where texts do."""
    found = mended(block.data.split(b"\n"), schema)
    data = b"\n".join(found.lines)
    try:
        table = _read(data, schema)
    except _UnreadableError as error:
        raise _fault(Block(data, block.first_line), schema, name) from error
    return table if schema is None else _with_strange(table, found, block.first_line, name)


def _with_strange(table: pa.Table, found: Mended, first_line: int, name: str) -> pa.Table:
    rows = {line: row for row, line in enumerate(line for line, text in enumerate(found.lines) if text.strip())}
    for column in {column: None for values in found.strange.values() for column in values}:
        lines = [line for line, values in found.strange.items() if column in values]
        kind, places = table.schema.field(column).type, np.arange(table.num_rows)
        places[[rows[line] for line in lines]] = table.num_rows + np.arange(len(lines))
        try:
            strange = carried([found.strange[line][column] for line in lines], kind)
        except (pa.ArrowException, OverflowError) as error:
            raise InputError(
                f'Line {first_line + lines[0]} of {name}, or one below it, holds a value in the column "{column}" '
                f"that is no {kind}: {error}. Write it with one type throughout, for example as text."
            ) from error
        whole = pa.concat_arrays([*table.column(column).chunks, strange])
        table = table.set_column(table.schema.get_field_index(column), table.schema.field(column), whole.take(places))
    return table


class _UnreadableError(Exception):
    """Some of these lines are not one object each, or not of the types expected."""


def _read(lines: bytes, schema: pa.Schema | None) -> pa.Table:
    """Raises _UnreadableError, also for what pyarrow lets pass: two objects on a line, one on two, a bare null."""
    if not lines.strip():
        return (schema or pa.schema([])).empty_table()
    surplus = "infer" if schema is None else "error"
    try:
        lines.decode()
        table = pa_json.read_json(
            pa.BufferReader(lines),
            pa_json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=surplus),
        )
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise _UnreadableError(str(error)) from error
    if table.num_rows != _filled(lines) or lines.startswith(b"null") or b"\nnull" in lines:
        raise _UnreadableError("each line must be one object")
    return table


def _fault(block: Block, schema: pa.Schema | None, name: str) -> InputError:
    """Names the first line that cannot be read: the one with which the lines up to it cannot be read either."""
    lines = block.data.split(b"\n")
    at = bisect_left(range(len(lines)), True, key=lambda last: _complaint(lines[: last + 1], schema) is not None)
    known = _read(b"\n".join(lines[:at]), None).schema if schema is None else schema
    why = _syntax(lines[at]) or _misfit(lines[at], known, schema is None)
    return InputError(
        f"Line {block.first_line + at} of {name} {why or f'cannot be read: {_complaint(lines[: at + 1], schema)}.'}"
    )


def _complaint(lines: list[bytes], schema: pa.Schema | None) -> str | None:
    try:
        _read(b"\n".join(lines), schema)
    except _UnreadableError as error:
        return str(error)
    return None


def _syntax(line: bytes) -> str | None:
    """What is wrong with a line on its own."""
    try:
        pairs = json.loads(line.decode(errors="surrogateescape"), object_pairs_hook=_Pairs)
    except json.JSONDecodeError as error:
        return f"is not JSON: {error.msg} at character {error.pos + 1}. Write one whole object on each line."
    if not isinstance(pairs, _Pairs):
        return f'is {_kind(pairs)}, not an object. Write each row as an object, such as {{"text": "..."}}.'
    names = [name for name, _ in pairs]
    if twice := [name for name in names if names.count(name) > 1]:
        return f'has the column "{twice[0]}" twice. Rename one of them.'
    if any(map(is_torn, _names(pairs))):
        return (
            "has a name with bytes that are no UTF-8, or with half of a surrogate pair (\\ud800 to \\udfff alone). "
            "Remove them or write U+FFFD."
        )
    return None


def _misfit(line: bytes, known: pa.Schema, is_head: bool) -> str | None:
    """Which column of the line does not fit the lines before it."""
    for name, value in json.loads(line.decode(errors="surrogateescape")).items():
        if name not in known.names:
            if is_head:
                continue
            return (
                f'has the column "{name}", which the first lines do not have. '
                f'Put a line that has every column first, such as "{name}": null.'
            )
        field = known.field(name)
        kind = retype(field.type, _as_wide) if is_head else field.type
        alone = json.dumps({name: value}).encode()
        if not pa.types.is_null(kind) and _complaint([alone], pa.schema([(name, kind)])):
            return (
                f'holds {_kind(value)} in the column "{name}": {_short(value)}. The lines before it make the '
                f"column {field.type}. Write it with one type throughout, for example as text."
            )
    return None


class _Pairs(list[tuple[str, object]]):
    """An object as it was written, names that occur twice included."""


def _names(value: object) -> Iterator[str]:
    """At all depths."""
    for part in value if isinstance(value, list) else ():
        if isinstance(value, _Pairs):
            yield part[0]
        yield from _names(part[1] if isinstance(value, _Pairs) else part)


def _kind(value: object) -> str:
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "null"}
    return words.get(type(value), "an object" if isinstance(value, dict | _Pairs) else "a list")


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode()
    return text if len(text) <= 60 else f"{text[:57]}..."


def _as_wide(kind: pa.DataType) -> pa.DataType:
    return pa.float64() if pa.types.is_integer(kind) else _date_as_text(kind)
