"""Arrow's own files as input, of the file format or the stream format: types are the file's own, as in Parquet."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.ingest.faults import reading
from pipeline.ingest.files import InputFile
from pipeline.ingest.strange import require_sound

_BATCH_BYTES = 8 << 20
_BATCH_ROWS = 16384


def schema(file: InputFile) -> pa.Schema:
    with _opened(file) as (found, _):
        return found


def batches(file: InputFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Columns are as the file has them. One of its own batches at a time is in memory, in pieces from here on."""
    with _opened(file) as (_, stored):
        for batch in stored:
            rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES * batch.num_rows // max(1, batch.nbytes)))
            for start in range(0, batch.num_rows, rows):
                piece = batch.slice(start, rows)
                require_sound(piece)
                yield piece


@contextmanager
def _opened(file: InputFile) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    with reading(file.name), file.open_anywhere() as stream:
        magic = stream.read(6)
        stream.seek(0)
        if magic.startswith(b"FEA1"):
            raise InputError(f"{file.name} is of Feather's first version. Write it again with version=2.")
        if magic == b"ARROW1":
            with pa.ipc.open_file(stream) as arrow:
                yield arrow.schema, map(arrow.get_batch, range(arrow.num_record_batches))
        else:
            with pa.ipc.open_stream(stream) as arrow:
                yield arrow.schema, iter(arrow)
