"""A column by its name, or what is in one by a dotted path: `review.text`, `messages.0.content`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import InputError, nearest

#: Arrow allocates as far as the place that is asked for, and does not survive where it cannot.
_PLACE_DIGITS = 6


@dataclass(frozen=True, slots=True)
class ColumnPath:
    """A column of a table, and the steps from it to what is meant: names of fields, places in lists, keys of maps."""

    name: str  #: as a person wrote it
    column: str
    steps: tuple[str, ...]
    type: pa.DataType

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """Null where something on the way is null, or not there."""
        found = batch.column(self.column)
        for step in self.steps:
            found = _taken(found, step)
        return found


def find_path(schema: pa.Schema, name: str) -> ColumnPath:
    """A column of that very name comes before a path. Raises InputError with what there is, and the nearest name."""
    if not schema.names:
        raise InputError("The input is empty: it has neither columns nor rows.")
    column = max(
        (there for there in schema.names if name == there or name.startswith(f"{there}.")), key=len, default=""
    )
    if not column:
        if mark := _other_delimiter(schema.names):
            raise InputError(
                f'The input has no column "{name}". It has one alone, "{schema.names[0]}", which looks like several '
                f"with {mark} between them: in CSV the cells are parted by commas, in TSV by tabs."
            )
        hint = nearest(name, schema.names) or nearest(name.partition(".")[0], schema.names)
        raise InputError(f'The input has no column "{name}".{hint} Its columns are: {", ".join(schema.names)}.')
    steps = tuple(name.removeprefix(column).split(".")[1:])
    kind, sofar = schema.field(column).type, column
    if steps and pa.types.is_string(kind):
        raise _within_text(column, steps)
    for step in steps:
        kind = _type_of(kind, step, sofar)
        sofar = f"{sofar}.{step}"
    return ColumnPath(name, column, steps, kind)


def _within_text(column: str, steps: Sequence[str]) -> InputError:
    keys = [step if step.isdigit() else f"'{step}'" for step in steps]
    part = "".join(f"->{key}" for key in keys[:-1])
    return InputError(
        f'The column "{column}" is string, which has no part "{steps[0]}". JSON of a database comes as text: '
        f"where this is that, select the part as a column of its own, such as {column}{part}->>{keys[-1]} AS part."
    )


def _other_delimiter(names: Sequence[str]) -> str | None:
    """What a spreadsheet may have put between cells; those of such a file come as one column."""
    marks = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
    return next((word for mark, word in marks.items() if mark in names[0]), None) if len(names) == 1 else None


def require_columns(schema: pa.Schema, wanted: Sequence[str]) -> None:
    """Raises InputError as find_path does."""
    for name in wanted:
        find_path(schema, name)


def look_up(values: Mapping[str, object], name: str) -> object:
    """The same in one row of plain Python; None where it is not there."""
    column = max((there for there in values if name == there or name.startswith(f"{there}.")), key=len, default=None)
    if column is None:
        return None
    found = values[column]
    for step in name.removeprefix(column).split(".")[1:]:
        if isinstance(found, list) and found and isinstance(found[0], tuple):
            found = dict(found)
        if isinstance(found, list):
            found = found[int(step)] if int(step) < len(found) else None
        else:
            found = found.get(step) if isinstance(found, dict) else None
    return found


def _is_list(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view)
    return any(test(kind) for test in tests)


def _type_of(kind: pa.DataType, step: str, sofar: str) -> pa.DataType:
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        if names.count(step) == 1:
            return kind.field(step).type
        raise InputError(
            f'The column "{sofar}" has no field "{step}".{nearest(step, names)} Its fields are: {", ".join(names)}.'
        )
    if _is_list(kind):
        if step.isascii() and step.isdigit() and len(step) <= _PLACE_DIGITS:
            return kind.value_type
        if step.isascii() and step.isdigit():
            raise InputError(
                f'The column "{sofar}" is a list, and {step[:9]}... is too far in it. '
                f"A place has up to {_PLACE_DIGITS} digits."
            )
        raise InputError(
            f'The column "{sofar}" is a list: name a place in it, counted from 0, such as "{sofar}.0", not "{step}".'
        )
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return kind.item_type
    raise InputError(f'The column "{sofar}" is {kind}, which has no part "{step}".')


def _taken(column: pa.Array, step: str) -> pa.Array:
    kind = column.type
    if pa.types.is_struct(kind):
        return pc.struct_field(column, [step])
    if pa.types.is_map(kind):
        return pc.map_lookup(column, step, "first")
    place = int(step)
    return pc.list_element(pc.list_slice(column, place, place + 1, return_fixed_size_list=True), 0)
