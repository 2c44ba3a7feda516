"""Where a table becomes rows: out of a shard for the prompts, or off the head of a source for a dry run."""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import InputError
from pipeline.ingest.columns import require_columns
from pipeline.ingest.inputs import Source
from pipeline.ingest.places import opened
from pipeline.ingest.values import keys_of, values_of
from pipeline.rows import Row

_BATCH_ROWS = 1024


def peek(source: Source, count: int) -> list[dict[str, object]]:
    """The first rows, as dicts. Raises InputError for standard input, which a look would consume."""
    if source.is_stream:
        raise InputError(
            "Standard input cannot be looked at before it is answered: it can be read only once. "
            "Write it to a file first, such as rows.jsonl."
        )
    return list(islice(_dicts(source), count))


def read_rows(
    path: str,
    row_from: int,
    *,
    columns: Sequence[str],
    key: str | None,
    row_ids: Collection[int] | None = None,
) -> Iterator[Row]:
    """The rows of a shard whose first has the id `row_from`, or those of `row_ids`; only `columns` are read."""
    wanted = None if row_ids is None else frozenset(row_ids)
    with opened(path) as file, pq.ParquetFile(file) as shard:
        needed = list(dict.fromkeys([*columns, *([key] if key is not None else [])]))
        require_columns(shard.schema_arrow.names, needed)
        for batch in shard.iter_batches(batch_size=_BATCH_ROWS, columns=needed):
            yield from _rows(batch, row_from, columns, key, wanted)
            row_from += batch.num_rows


def _dicts(source: Source) -> Iterator[dict[str, object]]:
    for _, batch in source.batches():
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            yield from _as_dicts(batch.slice(start, _BATCH_ROWS), batch.schema.names)


def _rows(
    batch: pa.RecordBatch, row_from: int, columns: Sequence[str], key: str | None, wanted: frozenset[int] | None
) -> Iterator[Row]:
    row_ids = range(row_from, row_from + batch.num_rows)
    if wanted is not None and wanted.isdisjoint(row_ids):
        return
    keys = keys_of(batch.column(key)) if key is not None else [None] * batch.num_rows
    for row_id, name, values in zip(row_ids, keys, _as_dicts(batch, columns), strict=True):
        if wanted is None or row_id in wanted:
            yield Row(row_id, str(row_id) if name is None else name, values)


def _as_dicts(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[dict[str, object]]:
    if not columns:
        yield from ({} for _ in range(batch.num_rows))
        return
    for values in zip(*(values_of(batch.column(name)) for name in columns), strict=True):
        yield dict(zip(columns, values, strict=True))
