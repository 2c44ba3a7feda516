"""Parquet as input: types are the file's own, read batch by batch within a row group."""

from collections.abc import Collection, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.ingest.faults import reading
from pipeline.ingest.files import InputFile
from pipeline.ingest.strange import require_sound

_BATCH_BYTES = 8 << 20
_BATCH_ROWS = 16384
STRETCH_ROWS = 1024
#: A group of rows of so many bytes may be read from its start for the sake of stretches within it.
_SMALL_BYTES = 512 << 20


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
            require_sound(batch)
            yield batch


def edges(file: InputFile, columns: Collection[str]) -> list[int]:
    """Rows at which a stretch may begin, in ascending order, and the number of rows."""
    found = [0]
    with reading(file.name), file.open_anywhere() as stream, pq.ParquetFile(stream) as parquet:
        for group in map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups)):
            end = found[-1] + group.num_rows
            if _bytes_of(group, columns) <= _SMALL_BYTES:
                found += range(found[-1] + STRETCH_ROWS, end, STRETCH_ROWS)
            if group.num_rows:
                found.append(end)
    return found


def stretches(file: InputFile, edges: Sequence[int], columns: Collection[str]) -> Iterator[pa.RecordBatch]:
    """For each of the edges, which ascend, the rows from there on, as many as make a stretch."""
    with reading(file.name), file.open_anywhere() as stream, pq.ParquetFile(stream, pre_buffer=False) as parquet:
        start = 0
        for group in range(parquet.metadata.num_row_groups):
            end = start + parquet.metadata.row_group(group).num_rows
            wanted = [edge for edge in edges if start <= edge < end]
            if wanted:
                batches = parquet.iter_batches(STRETCH_ROWS, row_groups=[group], columns=list(columns))
                yield from _those_at(wanted, start, batches)
            start = end


def _those_at(wanted: Sequence[int], start: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if start in wanted:
            require_sound(batch)
            yield batch
        if start >= wanted[-1]:
            return
        start += batch.num_rows


def _bytes_of(group: pq.RowGroupMetaData, columns: Collection[str]) -> int:
    chunks = map(group.column, range(group.num_columns))
    return sum(
        chunk.total_uncompressed_size
        for chunk in chunks
        if any(chunk.path_in_schema == name or chunk.path_in_schema.startswith(f"{name}.") for name in columns)
    )


def _batch_rows(metadata: pq.FileMetaData) -> int:
    size: int = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    rows: int = metadata.num_rows
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES * rows // max(1, size)))
