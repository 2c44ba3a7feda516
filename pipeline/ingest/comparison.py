"""Rows that are read once more held to those that were cut before, where no digest tells that they are the same."""

from collections.abc import Iterator, Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import RefusedError
from pipeline.ingest.places import opened

Numbered = tuple[int, pa.RecordBatch]  #: the id of a batch's first row, and the batch


def compared(batches: Iterator[Numbered], shards: Sequence[str], n_rows: int) -> Iterator[Numbered]:
    """The same batches. Raises RefusedError where one of the first `n_rows` rows is not as it is in the shards."""
    before = _texts(shards)
    for first_row, batch in batches:
        now = [_text(batch.schema, row) for row in batch.slice(0, max(0, n_rows - first_row)).to_pylist()]
        for at, (row, old) in enumerate(zip(now, islice(before, len(now)), strict=False)):
            if row != old:
                raise RefusedError(
                    f"The input is not what it was when its first {n_rows} rows were cut: row {first_row + at + 1} is "
                    "another one now. Put the old files back, or submit the new ones under another name. (A SELECT "
                    "gives the same rows in the same order only with ORDER BY, over columns that together are unique.)"
                )
        yield first_row, batch


def _texts(shards: Sequence[str]) -> Iterator[str]:
    for place in shards:
        with opened(place) as file, pq.ParquetFile(file) as shard:
            for batch in shard.iter_batches():
                yield from (_text(shard.schema_arrow, row) for row in batch.to_pylist())


def _text(schema: pa.Schema, row: dict[str, object]) -> str:
    """A NaN is no other NaN, but its text is; and a shard of other types would be no part of the same table."""
    return f"{schema.types} {row}"
