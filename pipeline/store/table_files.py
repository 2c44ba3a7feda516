"""Stage 7: tables of Arrow as CSV, JSON lines or Parquet, one after the other."""

import json
from collections.abc import Callable, Mapping
from typing import BinaryIO, Literal, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pipeline.ingest.values import rows_of, values_of
from pipeline.store.plain import as_json, cell

Format = Literal["csv", "jsonl", "parquet"]


class Writer(Protocol):
    def write_table(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


class _CsvWriter:
    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self._schema = pa.schema(
            pa.field(field.name, pa.string() if _is_odd(field.type) else field.type) for field in schema
        )
        self._writer = pyarrow.csv.CSVWriter(stream, self._schema)

    def write_table(self, table: pa.Table) -> None:
        columns = [
            pa.array([cell(value) for value in values_of(column)], pa.string()) if _is_odd(column.type) else column
            for column in table.columns
        ]
        self._writer.write_table(pa.table(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


class _JsonlWriter:
    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self._stream = stream
        self._parsed = [field.name for field in schema if (field.metadata or {}).get(b"result") == b"parsed"]

    def write_table(self, table: pa.Table) -> None:
        rows = rows_of(table)
        for row in rows:
            row.update({name: json.loads(str(row[name])) for name in self._parsed if row[name] is not None})
        lines = [as_json(row) + "\n" for row in rows]
        self._stream.write("".join(lines).encode(errors="backslashreplace"))  # which is JSON's form of half a pair

    def close(self) -> None:
        """Nothing is held back."""


def _parquet_writer(stream: BinaryIO, schema: pa.Schema) -> Writer:
    bare = pa.schema([pa.field(field.name, field.type, field.nullable) for field in schema])
    writer: Writer = pyarrow.parquet.ParquetWriter(stream, bare, compression="zstd")
    return writer


WRITERS: Mapping[str, Callable[[BinaryIO, pa.Schema], Writer]] = {
    "csv": _CsvWriter,
    "jsonl": _JsonlWriter,
    "parquet": _parquet_writer,
}


def _is_odd(kind: pa.DataType) -> bool:
    """Of a type that CSV has no cells for."""
    return pa.types.is_nested(kind) or "binary" in str(kind) or isinstance(kind, pa.BaseExtensionType)
