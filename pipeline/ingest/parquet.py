"""Parquet as input: types are the file's own, read batch by batch within a row group."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.ingest.faults import reading
from pipeline.ingest.files import InputFile

_BATCH_BYTES = 8 << 20
_BATCH_ROWS = 16384


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


def _batch_rows(metadata: pq.FileMetaData) -> int:
    size: int = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    rows: int = metadata.num_rows
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES * rows // max(1, size)))
