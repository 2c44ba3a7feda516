"""Columns by name and type: what several inputs must have in common to be one table."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa
from pyarrow.compute import run_end_decode
from pyarrow.parquet import ParquetWriter

from pipeline.errors import InputError

#: Different ways to store the same thing.
_PLAIN = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}


def common_schema(schemas: Sequence[tuple[str, pa.Schema]]) -> pa.Schema:
    """One schema for all, by (name of the input, its schema); an input without any column agrees with all.

    Column order may differ, and the first input's counts. A column of nulls agrees with any type, and whole
    numbers with broken ones. A column that holds nothing but nulls is read as text. Raises InputError.
    """
    schemas = [(name, _plain(name, schema)) for name, schema in schemas if len(schema)]
    if not schemas:
        return pa.schema([])
    first, _ = schemas[0]
    _, schema = reduce(lambda known, other: (first, _joined(known, other)), schemas)
    schema = pa.schema([(field.name, retype(field.type, _null_as_text)) for field in schema])
    for field in schema:
        _require_storable(field, first)
    return schema


def conform(batch: pa.RecordBatch, schema: pa.Schema, name: str) -> pa.RecordBatch:
    """The same rows with the columns in the order and of the types of `schema`."""
    columns = [_cast(batch.column(field.name), field, name) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def retype(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """`kind` with `leaf` applied to it, or within lists and structs to what they are made of."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, retype(field.type, leaf)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(retype(kind.value_type, leaf))
    return leaf(kind)


def _plain(name: str, schema: pa.Schema) -> pa.Schema:
    for column, times in Counter(schema.names).items():
        if times > 1:
            raise InputError(f'There are {times} columns named "{column}" in {name}. Rename all but one.')
    return pa.schema([(field.name, retype(field.type, _plain_type)) for field in schema])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    packed = pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)
    stored = kind.value_type if packed else kind
    return _PLAIN.get(stored, stored)


def _joined(known: tuple[str, pa.Schema], other: tuple[str, pa.Schema]) -> pa.Schema:
    (first, schema), (name, new) = known, other
    for here, there, missing in (
        (first, name, set(schema.names) - set(new.names)),
        (name, first, set(new.names) - set(schema.names)),
    ):
        if missing:
            column = min(missing)
            raise InputError(
                f'{there} has no column "{column}", but {here} has. '
                "Several inputs are one table: give them the same columns, or submit them as jobs of their own."
            )
    return pa.schema([_joined_field(field, new.field(field.name), first, name) for field in schema])


def _joined_field(field: pa.Field, new: pa.Field, first: str, name: str) -> pa.Field:
    if pa.types.is_null(field.type) or field.type.equals(new.type):
        return new
    if pa.types.is_null(new.type):
        return field
    if _may_widen(field.type, new.type):
        try:
            return pa.unify_schemas([pa.schema([field]), pa.schema([new])], promote_options="permissive").field(0)
        except pa.ArrowException:
            pass
    raise InputError(
        f'The column "{field.name}" is {field.type} in {first} but {new.type} in {name}. '
        "Several inputs are one table: write the column with the same type in both."
    )


def _may_widen(one: pa.DataType, other: pa.DataType) -> bool:
    numbers = all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in (one, other))
    return numbers or (pa.types.is_nested(one) and pa.types.is_nested(other))


def _require_storable(field: pa.Field, name: str) -> None:
    if _is_hollow(field.type):
        raise InputError(
            f'The column "{field.name}" of {name} holds objects without any field, which cannot be kept. '
            "Leave it out, or give the first of them a field."
        )
    try:
        ParquetWriter(pa.BufferOutputStream(), pa.schema([field])).close()
    except pa.ArrowException as error:
        raise InputError(
            f'The column "{field.name}" of {name} is {field.type}, which cannot be kept. '
            "Leave it out, or write it as text."
        ) from error


def _is_hollow(kind: pa.DataType) -> bool:
    """Parquet has no struct without fields."""
    if pa.types.is_struct(kind):
        return kind.num_fields == 0 or any(_is_hollow(field.type) for field in kind)
    return pa.types.is_list(kind) and _is_hollow(kind.value_type)


def _null_as_text(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_null(kind) else kind


def _unpacked(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    return run_end_decode(column) if pa.types.is_run_end_encoded(column.type) else column


def _cast(column: pa.Array, field: pa.Field, name: str) -> pa.Array:
    if column.type.equals(field.type):
        return column
    try:
        return _unpacked(column).cast(field.type)
    except pa.ArrowException as error:
        raise InputError(
            f'The column "{field.name}" of {name} holds a value that is no {field.type}, '
            f"the type it has in the other inputs: {error}."
        ) from error
