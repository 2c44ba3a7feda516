"""Stage 7: what the tables of a database do not take, told before they are asked to."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import JobError, SpecError
from pipeline.ingest.values import values_of

#: Of a name, in PostgreSQL, which cuts what is longer.
_NAME_BYTES = 63
_LARGEST = 2**63 - 1


def require_names(dialect: str, table: Sequence[str], columns: Sequence[str]) -> None:
    """`table` is its name, and that of its schema. Raises SpecError."""
    if "" in columns:
        raise SpecError(
            "A column of the input has no name, and in a database each has one. Name it in the input, or leave the "
            "input out: --columns key,output"
        )
    if dialect != "postgresql":
        return
    for name in table:
        if len(name.encode()) > _NAME_BYTES:
            raise SpecError(f"--table {name} has a name longer than PostgreSQL's {_NAME_BYTES} bytes. Shorten it.")
    for name in columns:
        if len(name.encode()) > _NAME_BYTES:
            raise SpecError(
                f'The name of the column "{name}" is longer than PostgreSQL\'s {_NAME_BYTES} bytes. Shorten it in the '
                "input, or leave the input out: --columns key,output"
            )


def bindable_values(name: str, column: pa.Array, row_ids: Sequence[object]) -> list[object]:
    """Raises JobError, with the row, for a whole number beyond 64 bits with a sign, or a time beyond the year 9999."""
    values = values_of(column)
    if pa.types.is_uint64(column.type) and (pc.max(column).as_py() or 0) > _LARGEST:
        at = pc.index(column, pc.max(column)).as_py()
        raise _not_taken(name, values[at], row_ids[at], f"whole numbers up to {_LARGEST}")
    if _is_day(column.type) and any(isinstance(value, str) for value in values):
        at = next(at for at in range(len(column)) if isinstance(values_of(column.slice(at, 1))[0], str))
        raise _not_taken(name, values[at], row_ids[at], "times of the years 1 to 9999")
    return values


def _is_day(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _not_taken(name: str, value: object, row_id: object, taken: str) -> JobError:
    return JobError(
        f'The column "{name}" holds {value} in row {row_id}, and a table takes {taken}. Nothing was written. Write a '
        "file instead (--output), or leave the input out: --columns key,output"
    )
