"""Stretches of rows drawn from a source that is read from its start: all of it, or as much as is read in a moment."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.ingest.inputs import Source
from pipeline.ingest.paths import ColumnPath, find_path
from pipeline.ingest.rows import as_dicts
from pipeline.ingest.taking import Tally
from pipeline.rows import Row

STRETCHES = 16
_MOST_BYTES = 128 << 20
_MOST_READ = 1 << 20  #: rows


@dataclass(frozen=True, slots=True)
class Drawn:
    stretches: list[list[Row]]  #: of rows that follow one another, the first from the start; a row's id is its place
    n_rows: int  #: that these are from
    is_whole: bool  #: whether there are no more rows than that
    read: int  #: rows of the source up to there, taken or not


def draw(
    source: Source, columns: Sequence[str], count: int, limit: int | None = None, tally: Tally | None = None
) -> Drawn:
    """All of the rows up to the `limit`, where they are no more than twice the `count`, or about as many as that.

    Of a database, which may take long over each row, little more is read than is kept. Raises InputError or TryAgain.
    """
    tally = tally or Tally()
    drawing, n_rows, n_bytes = _Drawing(-(-count // STRETCHES)), 0, 0
    most_rows = count if source.may_differ else _MOST_READ
    paths = [find_path(source.schema, name) for name in columns]
    with closing(source.batches(tally)) as batches:
        for _, batch in batches:
            taken = batch if limit is None else batch.slice(0, min(batch.num_rows, limit - n_rows))
            drawing.draw(taken, n_rows)
            n_rows, n_bytes = n_rows + taken.num_rows, n_bytes + batch.nbytes
            if n_rows == limit:
                break
            if n_bytes > _MOST_BYTES or tally.read > most_rows:
                return Drawn(drawing.rows(paths), n_rows, is_whole=False, read=tally.read)
    return Drawn(drawing.rows(paths), n_rows, is_whole=True, read=tally.read)


def rows_at(batch: pa.RecordBatch, place: int, paths: Sequence[ColumnPath]) -> Iterator[Row]:
    """`place` is that of the batch's first row among all."""
    for row_id, values in enumerate(as_dicts([batch], paths), start=place):
        yield Row(row_id, str(row_id), values)


class _Drawing:
    """One stretch from each of 16 to 32 equal parts of all rows so far: where there are more parts, two become one."""

    def __init__(self, length: int) -> None:
        self._length, self._numbers = length, np.random.default_rng(0)
        self._kept: list[list[tuple[int, pa.RecordBatch]]] = []
        self._span, self._wanted = 1, 0  #: stretches of a part, and which of them is kept

    def rows(self, paths: Sequence[ColumnPath]) -> list[list[Row]]:
        return [[row for place, rows in stretch for row in rows_at(rows, place, paths)] for stretch in self._kept]

    def draw(self, batch: pa.RecordBatch, place: int) -> None:
        start = 0
        while start < batch.num_rows:
            number, begun = divmod(place + start, self._length)
            if not begun:
                self._begin(number)
            if number % self._span == self._wanted:
                rows = range(start, min(batch.num_rows, start + self._length - begun))
                # A slice would hold all of the batch in memory.
                self._kept[-1].append((place + start, batch.take(pa.array(rows))))
            start += self._length - begun

    def _begin(self, number: int) -> None:
        """A stretch, by its number among all."""
        if number % self._span == 0:
            if len(self._kept) == 2 * STRETCHES:
                pairs = zip(self._kept[::2], self._kept[1::2], strict=True)
                self._kept = [pair[self._numbers.integers(2) if place else 0] for place, pair in enumerate(pairs)]
                self._span *= 2
            self._wanted = int(self._numbers.integers(self._span)) if number else 0
        if number % self._span == self._wanted:
            self._kept.append([])
