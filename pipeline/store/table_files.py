"""Stage 7: tables of Arrow as CSV, JSON lines or Parquet, one after the other."""

from collections.abc import Callable, Mapping
from typing import BinaryIO, Literal, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pipeline.ingest.values import values_of
from pipeline.store.json_texts import json_cells, json_lines
from pipeline.store.plain import cell

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
        columns = [_cells(column) if _is_odd(column.type) else column for column in table.columns]
        self._writer.write_table(pa.table(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


class _JsonlWriter:
    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self._stream = stream
        self._parsed = [field.name for field in schema if (field.metadata or {}).get(b"result") == b"parsed"]

    def write_table(self, table: pa.Table) -> None:
        self._stream.write(json_lines(table, self._parsed))

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


def _cells(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_nested(column.type):
        return json_cells(column.combine_chunks()).cast(pa.string())
    return pa.array(map(cell, values_of(column)), pa.string())


def _is_odd(kind: pa.DataType) -> bool:
    """Of a type that CSV has no cells for."""
    return pa.types.is_nested(kind) or "binary" in str(kind) or isinstance(kind, pa.BaseExtensionType)
