"""Stage 1: any input cut into numbered, immutable Parquet shards, streamed in bounded memory."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import InputError
from pipeline.ingest.comparison import compared
from pipeline.ingest.inputs import Source
from pipeline.ingest.keys import KeyCheck, Places
from pipeline.ingest.paths import find_path
from pipeline.ingest.places import join, opened, written
from pipeline.ingest.strange import strange_rows
from pipeline.ingest.taking import Tally


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows of a job in one file: of all rows in the order of the shards, those from `row_from` to before `row_to`."""

    shard_no: int
    path: str  #: a local one, or a URL
    row_from: int
    row_to: int
    row_ids: tuple[int, ...] | None = None  #: where rows were sorted; else those same numbers are the ids


def cut(
    source: Source,
    directory: str,
    *,
    shard_rows: int,
    key: str | None,
    limit: int | None,
    skip_rows: int = 0,
    tally: Tally | None = None,
) -> Iterator[Shard]:
    """Writes 00000.parquet and so on, and yields each shard once it is in its place for good.

    `directory` is a path or a URL (places.py). All shards but the last have `shard_rows` rows. A cut that was
    interrupted goes on behind its first `skip_rows` rows, those of the shards that were yielded: they are read again,
    and their keys count, but nothing is written. Raises InputError, TryAgain and JobError; RefusedError where a source
    that may differ does; a key used twice is found at the end.
    """
    if skip_rows and source.is_stream:
        raise InputError("Standard input cannot be read again from its start. Write it to a file and submit that.")
    places = Places(of_some=source.taking is not None)
    check = KeyCheck(source.schema, key, places) if key is not None else None
    batches = _batches(source, limit, places, check, tally or Tally())
    if skip_rows and source.may_differ:
        before = [shard_place(directory, shard_no) for shard_no in range(-(-skip_rows // shard_rows))]
        batches = compared(batches, before, skip_rows)
    pieces = _pieces(batches, shard_rows, skip_rows)
    for shard_no, group in groupby(pieces, key=itemgetter(0)):
        path = shard_place(directory, shard_no)
        n_rows = write_shard(path, source.schema, (piece for _, piece in group))
        yield Shard(shard_no, path, shard_no * shard_rows, shard_no * shard_rows + n_rows)
    if places.n_rows == 0:
        raise source.without_rows()
    if places.n_rows < skip_rows:
        raise _changed(skip_rows)
    if check is not None and key is not None:
        check.finish(partial(_key_columns, directory, -(-places.n_rows // shard_rows), key))


def _batches(
    source: Source, limit: int | None, places: Places, check: KeyCheck | None, tally: Tally
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Every batch up to the limit, looked through and its keys checked, with the id of its first row."""
    for name, batch in source.batches(tally):
        rows = batch if limit is None else batch.slice(0, min(limit - places.n_rows, batch.num_rows))
        first_row = places.add(name, rows.num_rows)
        if found := strange_rows(rows):
            tally.strange += len(found)
            tally.first_strange = tally.first_strange or _told(min(found), found, first_row, places)
        if check is not None:
            check.add(rows, first_row)
        yield first_row, rows
        if places.n_rows == limit:
            return


def _told(row: int, found: Mapping[int, str], first_row: int, places: Places) -> str:
    return f'{places.of(first_row + row)} (rows counted from 1, a header not counted), column "{found[row]}"'


def _pieces(
    batches: Iterable[tuple[int, pa.RecordBatch]], shard_rows: int, skip_rows: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows behind the first `skip_rows`, split where a shard ends, with the shard's number."""
    for first_row, batch in batches:
        start = max(0, skip_rows - first_row)
        while start < batch.num_rows:
            shard_no, used = divmod(first_row + start, shard_rows)
            if used and first_row + start == skip_rows:
                raise _changed(skip_rows)
            piece = batch.slice(start, shard_rows - used)
            yield shard_no, piece
            start += piece.num_rows


def write_shard(place: str, schema: pa.Schema, pieces: Iterable[pa.RecordBatch]) -> int:
    """There is the whole shard or nothing, whenever this is killed."""
    n_rows = 0
    with written(place) as file, pq.ParquetWriter(file, schema, compression="zstd", compression_level=1) as shard:
        for piece in pieces:
            try:
                shard.write_batch(piece)
            except pa.ArrowInvalid as error:
                raise InputError(
                    f"The input holds a value that cannot be kept: {error}. Write its column as text."
                ) from error
            n_rows += piece.num_rows
    return n_rows


def _key_columns(directory: str, n_shards: int, key: str) -> Iterator[pa.Array]:
    for shard_no in range(n_shards):
        with opened(shard_place(directory, shard_no)) as file, pq.ParquetFile(file) as shard:
            path = find_path(shard.schema_arrow, key)
            for batch in shard.iter_batches(columns=[path.column]):
                yield path.of(batch)


def shard_place(directory: str, shard_no: int) -> str:
    return join(directory, f"{shard_no:05}.parquet")


def _changed(skip_rows: int) -> InputError:
    return InputError(
        f"The input is not what it was when its first {skip_rows} rows were cut: it is longer or shorter now. "
        "Put the old file back, or submit the new one as a job of its own."
    )
