"""Parquet as input: types are the file's own, read batch by batch within a row group."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.ingest.faults import reading
from pipeline.ingest.files import InputFile

_BATCH_BYTES = 8 << 20
_BATCH_ROWS = 16384
#: A group of rows of so many bytes may be read from its start for the sake of rows within it.
_SMALL_BYTES = 32 << 20
#: In such a group, rows from one edge to the next.
_STRETCH_ROWS = 1024


def schema(file: InputFile) -> pa.Schema:
    with reading(file.name), file.open_anywhere() as stream:
        return pq.read_schema(stream)


def batches(file: InputFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Columns are as the file has them: `schema` is for the formats that have no types of their own."""
    with (
        reading(file.name),
        file.open_anywhere() as stream,
        pq.ParquetFile(stream, pre_buffer=False, buffer_size=1 << 20) as parquet,
    ):
        for batch in parquet.iter_batches(batch_size=_batch_rows(parquet.metadata)):
            batch.validate(full=True)  # text that is not UTF-8 would fail later, where no file is known
            yield batch


def edges(file: InputFile) -> list[int]:
    """Rows at which reading may begin without all rows before them, in ascending order, and the number of rows."""
    found = [0]
    with reading(file.name), file.open_anywhere() as stream, pq.ParquetFile(stream) as parquet:
        for group in map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups)):
            end = found[-1] + group.num_rows
            if group.total_byte_size <= _SMALL_BYTES:
                found += range(found[-1] + _STRETCH_ROWS, end, _STRETCH_ROWS)
            if group.num_rows:
                found.append(end)
    return found


def batches_at(file: InputFile, edge: int) -> Iterator[pa.RecordBatch]:
    """From the row at an edge on, to the end of its group of rows."""
    with (
        reading(file.name),
        file.open_anywhere() as stream,
        pq.ParquetFile(stream, pre_buffer=False, buffer_size=1 << 20) as parquet,
    ):
        group = 0
        while edge >= parquet.metadata.row_group(group).num_rows:
            edge -= parquet.metadata.row_group(group).num_rows
            group += 1
        for batch in parquet.iter_batches(batch_size=_batch_rows(parquet.metadata), row_groups=[group]):
            batch.validate(full=True)
            yield batch.slice(min(edge, batch.num_rows))
            edge = max(0, edge - batch.num_rows)


def _batch_rows(metadata: pq.FileMetaData) -> int:
    size: int = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    rows: int = metadata.num_rows
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES * rows // max(1, size)))
