"""Stage 1, second half, where rows are sorted: pages of the whole table become shards of what prompts are made of."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.ingest.external_sort import external_sort
from pipeline.ingest.paths import find_path
from pipeline.ingest.places import join, opened
from pipeline.ingest.row_ids import with_row_ids
from pipeline.ingest.shards import Shard, shard_place, write_shard
from pipeline.ingest.sort_key import KeyOf, key_of

_BATCH_ROWS = 1024


class Page(Protocol):
    """Whole rows in the order of the input, in a file like a shard's."""

    @property
    def path(self) -> str: ...
    @property
    def row_from(self) -> int: ...
    @property
    def row_to(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Sorting:
    """How pages become shards: by which columns, the first of them first, and where runs lie meanwhile."""

    by: tuple[str, ...]
    key: str | None  #: the user's, which the shards hold too
    shard_rows: int
    scratch: Path


def sort_into_shards(
    pages: Sequence[Page], directory: str, sorting: Sorting, *, skip_shards: int = 0, skip_rows: int = 0
) -> Iterator[Shard]:
    """Yields each shard once it is in its place for good; each row's id is its place in the pages.

    All pages are the same table each time, so an interrupted sort begins again, and goes on behind its first
    `skip_shards` shards of `skip_rows` rows. Raises InputError, TryAgain and JobError.
    """
    with opened(pages[0].path) as file:
        schema = pq.read_schema(file)
    paths = [find_path(schema, name) for name in sorting.by]
    of_key = [] if sorting.key is None else [find_path(schema, sorting.key)]
    columns = list(dict.fromkeys(path.column for path in [*paths, *of_key]))
    table = with_row_ids(pa.schema([schema.field(name) for name in columns]))
    keys = key_of(paths)
    sorted_rows = external_sort(_rows(pages, columns, table), keys, sorting.scratch, pages[-1].row_to)
    row_from = skip_rows
    for shard_no, rows in enumerate(_parts(_behind(sorted_rows, skip_rows), keys, sorting.shard_rows), skip_shards):
        # In the order of the input: the job's first rows, on which encoders prove themselves, are then not all alike.
        rows = rows.take(pc.sort_indices(rows.column(0)))
        path = shard_place(join(directory, "sorted"), shard_no)
        write_shard(path, table, [rows])
        yield Shard(shard_no, path, row_from, row_from + rows.num_rows, tuple(rows.column(0).to_pylist()))
        row_from += rows.num_rows


def _rows(pages: Sequence[Page], columns: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for page in pages:
        row_id = page.row_from
        with opened(page.path) as file, pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(batch_size=_BATCH_ROWS, columns=columns):
                row_ids = pa.array(range(row_id, row_id + batch.num_rows), pa.int64())
                yield pa.RecordBatch.from_arrays([row_ids, *(batch.column(name) for name in columns)], schema=schema)
                row_id += batch.num_rows


def _behind(batches: Iterable[pa.RecordBatch], skip_rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        skipped = min(skip_rows, batch.num_rows)
        skip_rows -= skipped
        if skipped < batch.num_rows:
            yield batch.slice(skipped)


def _parts(batches: Iterable[pa.RecordBatch], key_of: KeyOf, most: int) -> Iterator[pa.RecordBatch]:
    """So many rows at most in each. None ends between rows of one key, unless it begins with more of them than fit."""
    waiting: list[pa.RecordBatch] = []
    n_rows = 0
    for batch in batches:
        waiting.append(batch)
        n_rows += batch.num_rows
        if n_rows <= most:
            continue
        rows = pa.concat_batches(waiting)
        while rows.num_rows > most:
            end = _end(key_of(rows.slice(0, most + 1)))
            yield rows.slice(0, end)
            rows = rows.slice(end)
        waiting, n_rows = [rows], rows.num_rows
    if n_rows:
        yield pa.concat_batches(waiting)


def _end(keys: pa.Array) -> int:
    """Where the last one begins that is like the row too many; all but that row, where they are all like it."""
    changes = np.flatnonzero(pc.not_equal(keys[:-1], keys[1:]).to_numpy(zero_copy_only=False))
    return int(changes[-1]) + 1 if len(changes) else len(keys) - 1
