"""Stage 1, where rows are sorted that do not fit in memory: sorted runs on disk, then merged block by block.

Runs are files without a name, which go when their process does: whatever ends it, nothing is left behind.
"""

import shutil
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import TryAgain
from pipeline.ingest.faults import writing
from pipeline.ingest.sort_key import KeyOf

RUN_BYTES = 64 << 20  #: of rows in memory at once
_BLOCK_BYTES = 1 << 19  #: of each run in memory while runs are merged
FAN_IN = 32  #: runs that are merged at once


def external_sort(
    rows: Iterable[pa.RecordBatch], key_of: KeyOf, scratch: Path, n_rows: int
) -> Iterator[pa.RecordBatch]:
    """All `n_rows` rows by their keys, and those of one key by their first column, which holds whole numbers.

    Runs lie on the disk of the folder `scratch`. Raises TryAgain where that has no room for them.
    """
    levels: list[list[IO[bytes]]] = [[]]
    try:
        for run in _runs(rows):
            file = _written([_in_order(run, key_of)], scratch)
            if not any(levels):
                _require_room(scratch, file.tell(), n_rows / run.num_rows)
            del run  # before the next one is read
            _lay_by(levels, file, key_of, scratch)
        yield from _merged([run for level in levels for run in level], key_of)
    finally:
        for run in [run for level in levels for run in level]:
            run.close()


def _runs(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """As they come, as many at a time as fit in memory."""
    kept: list[pa.RecordBatch] = []
    n_bytes = 0
    for batch in rows:
        kept.append(batch)
        n_bytes += batch.nbytes
        if n_bytes >= RUN_BYTES:
            run, kept, n_bytes = pa.concat_batches(kept), [], 0
            yield run
            del run
    if kept:
        yield pa.concat_batches(kept)


def _lay_by(levels: list[list[IO[bytes]]], run: IO[bytes], key_of: KeyOf, scratch: Path) -> None:
    """Where a level has as many runs as are merged at once, they are one run of the next level."""
    for level in levels:
        level.append(run)
        if len(level) < FAN_IN:
            return
        run = _written(_merged(level, key_of), scratch)
        for merged in level:
            merged.close()
        level.clear()
    levels.append([run])


def _written(sorted_rows: Iterable[pa.RecordBatch], scratch: Path) -> IO[bytes]:
    with writing(scratch):
        run = TemporaryFile(dir=scratch)  # noqa: SIM115 - it is closed once it is merged
        writer = None
        for rows in sorted_rows:
            writer = writer or pa.ipc.new_stream(run, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
            size = max(1, rows.num_rows * _BLOCK_BYTES // max(1, rows.nbytes))
            for start in range(0, rows.num_rows, size):
                writer.write_batch(rows.slice(start, size))
        if writer is not None:
            writer.close()
    return run


def _in_order(rows: pa.RecordBatch, key_of: KeyOf) -> pa.RecordBatch:
    keys = pa.table({"key": key_of(rows), "row_id": rows.column(0)})
    return rows.take(pc.sort_indices(keys, sort_keys=[("key", "ascending"), ("row_id", "ascending")]))


class _Head:
    """The next block of a run; it has at least one row."""

    def __init__(self, blocks: Iterator[pa.RecordBatch], key_of: KeyOf) -> None:
        """Raises StopIteration where there is none."""
        self._blocks, self._key_of, self._start = blocks, key_of, 0
        self._load()

    @property
    def last(self) -> tuple[bytes, int]:
        return self._at(self._rows.num_rows - 1)

    def take(self, bound: tuple[bytes, int]) -> pa.RecordBatch:
        """All rows up to the bound that were not taken before."""
        start, self._start = self._start, bisect_right(range(self._rows.num_rows), bound, key=self._at)
        return self._rows.slice(start, self._start - start)

    def goes_on(self) -> bool:
        """Whether there are more; those of the next block where this one's are taken."""
        if self._start < self._rows.num_rows:
            return True
        try:
            self._load()
        except StopIteration:
            return False
        return True

    def _load(self) -> None:
        self._rows = next(self._blocks)
        self._keys, self._start = self._key_of(self._rows), 0

    def _at(self, place: int) -> tuple[bytes, int]:
        return self._keys[place].as_py(), self._rows.column(0)[place].as_py()


def _merged(runs: Sequence[IO[bytes]], key_of: KeyOf) -> Iterator[pa.RecordBatch]:
    """What is up to the least of the blocks' last rows comes before all that is in no block yet."""
    heads = [_Head(_blocks(run), key_of) for run in runs]
    while heads:
        bound = min(head.last for head in heads)
        yield _in_order(pa.concat_batches([head.take(bound) for head in heads]), key_of)
        heads = [head for head in heads if head.goes_on()]


def _blocks(run: IO[bytes]) -> Iterator[pa.RecordBatch]:
    run.seek(0)
    with closing(pa.ipc.open_stream(run)) as blocks:
        yield from blocks


def _require_room(scratch: Path, run_bytes: int, n_runs: float) -> None:
    """By the first run, which is there already. While a level is merged, its rows are there twice."""
    needed = int(run_bytes * (n_runs - 1) * (2 if n_runs > FAN_IN else 1))
    free = shutil.disk_usage(scratch).free
    if needed > free:
        raise TryAgain(
            f"To sort the rows takes about {needed / 1e9:.1f} GB where {scratch} lies; {free / 1e9:.1f} GB are free. "
            "Free some space, then give the same command again; or submit it under another name with --keep-order."
        )
