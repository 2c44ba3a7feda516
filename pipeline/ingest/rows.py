"""Where a table becomes rows: out of a shard for the prompts, or off the head of a source for a dry run."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.ingest.faults import reading_own
from pipeline.ingest.inputs import Source
from pipeline.ingest.paths import ColumnPath, find_path
from pipeline.ingest.places import open_file
from pipeline.ingest.row_ids import row_id_column
from pipeline.ingest.taking import Tally
from pipeline.ingest.values import keys_of, values_of
from pipeline.rows import Row

_BATCH_ROWS = 1024


def peek(source: Source, count: int, paths: Sequence[str] = (), tally: Tally | None = None) -> list[dict[str, object]]:
    """The first rows, as dicts of their columns, and of what is at the dotted paths among `paths`.

    Raises InputError for standard input, which a look would consume.
    """
    source.require_more_than_one_reading()
    columns = [find_path(source.schema, name) for name in dict.fromkeys([*source.columns(), *paths])]
    return list(islice(as_dicts((batch for _, batch in source.batches(tally)), columns), count))


def read_rows(
    path: str,
    row_from: int,
    *,
    columns: Sequence[str],
    key: str | None,
    row_ids: Collection[int] | None = None,
) -> Iterator[Row]:
    """The rows of a shard whose first has the id `row_from`, or those of `row_ids`; only `columns` are read.

    A sorted shard tells its rows' ids itself. A column may be a dotted path, as may the key (paths.py).
    """
    wanted = None if row_ids is None else frozenset(row_ids)
    with reading_own(path), open_file(path) as file, pq.ParquetFile(file) as shard:
        found = [find_path(shard.schema_arrow, name) for name in columns]
        of_key = find_path(shard.schema_arrow, key) if key is not None else None
        needed = dict.fromkeys(path.column for path in [*found, *([of_key] if of_key else [])])
        of_ids = row_id_column(shard.schema_arrow)
        for batch in shard.iter_batches(batch_size=_BATCH_ROWS, columns=[*needed, *([of_ids] if of_ids else [])]):
            following = range(row_from, row_from + batch.num_rows)
            yield from _rows(batch, batch.column(of_ids).to_pylist() if of_ids else following, found, of_key, wanted)
            row_from = following.stop


def as_dicts(batches: Iterable[pa.RecordBatch], columns: Sequence[ColumnPath]) -> Iterator[dict[str, object]]:
    """Each row, a thousand out of Arrow at a time."""
    for batch in batches:
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            yield from _as_dicts(batch.slice(start, _BATCH_ROWS), columns)


def _rows(
    batch: pa.RecordBatch,
    row_ids: Sequence[int],
    columns: Sequence[ColumnPath],
    key: ColumnPath | None,
    wanted: frozenset[int] | None,
) -> Iterator[Row]:
    if wanted is not None and wanted.isdisjoint(row_ids):
        return
    keys = keys_of(key.of(batch)) if key is not None else [None] * batch.num_rows
    for row_id, name, values in zip(row_ids, keys, _as_dicts(batch, columns), strict=True):
        if wanted is None or row_id in wanted:
            yield Row(row_id, str(row_id) if name is None else name, values)


def _as_dicts(batch: pa.RecordBatch, columns: Sequence[ColumnPath]) -> Iterator[dict[str, object]]:
    if not columns:
        yield from ({} for _ in range(batch.num_rows))
        return
    names = [column.name for column in columns]
    for values in zip(*(values_of(column.of(batch)) for column in columns), strict=True):
        yield dict(zip(names, values, strict=True))
