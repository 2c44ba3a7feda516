"""Some rows from all over a source, looked at before it is cut: stretches of rows that follow one another."""

import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.ingest.inputs import Edge, Source
from pipeline.ingest.paths import ColumnPath, find_path
from pipeline.ingest.rows import as_dicts
from pipeline.ingest.taking import Tally
from pipeline.rows import Row

_STRETCHES = 16
#: With so few, a table is read from its start first, which may be all of it.
_FEW_EDGES = 2 * _STRETCHES
#: What is read at most of a table that can be read from its start alone: a moment's work.
_MOST_BYTES = 128 << 20
_MOST_READ = 1 << 20  #: rows


@dataclass(frozen=True, slots=True)
class Sample:
    rows: list[Row]  #: in the order of the table, the first one first; each has its place there as id and key
    n_rows: int  #: that these are from
    is_whole: bool  #: whether there are no more rows than that


def read_sample(
    source: Source, columns: Sequence[str], count: int, limit: int | None = None, tally: Tally | None = None
) -> Sample:
    """About so many rows of those up to the `limit`, or all where there are no more.

    Raises InputError for standard input, which a look would consume.
    """
    source.require_more_than_one_reading()
    needed = list(dict.fromkeys(find_path(source.schema, name).column for name in columns))
    edges, n_rows = source.edges(needed) if needed and limit is None else ([], 0)
    if len(edges) <= _FEW_EDGES:
        found = _from_the_start(source, columns, count, limit, tally or Tally())
        if found.is_whole or not edges:
            return found
    return Sample(list(_far(source, columns, needed, edges, n_rows, count)), n_rows, is_whole=True)


def _far(
    source: Source, columns: Sequence[str], needed: Sequence[str], edges: Sequence[Edge], n_rows: int, count: int
) -> Iterator[Row]:
    """What is behind the first edge, and behind one drawn from each of as many equal parts of the others as it takes;
    at no equal distances, at which a table may well repeat itself."""
    ends = [*(edge.place for edge in edges[1:]), n_rows]
    length = -(-count // _STRETCHES)
    behind = sum(min(length, end - edge.place) for edge, end in zip(edges, ends, strict=True)) / len(edges)
    parts = np.array_split(np.arange(len(edges)), min(len(edges), math.ceil(count / behind)))
    numbers = np.random.default_rng(0)
    drawn = [0, *(int(numbers.choice(part)) for part in parts[1:])]
    length = max(1, count // len(drawn) if len(drawn) <= _STRETCHES else length)
    paths = [find_path(source.schema, name) for name in columns]
    for place, batch in zip(drawn, source.stretches([edges[each] for each in drawn], needed), strict=True):
        yield from _rows(batch.slice(0, length), edges[place].place, paths)


def _from_the_start(source: Source, columns: Sequence[str], count: int, limit: int | None, tally: Tally) -> Sample:
    """From all that there is, or as much of it as is read in a moment. Of a database, which may take long over each
    row, little more is read than is kept."""
    drawing, n_rows, n_bytes = _Drawing(count), 0, 0
    most_rows = count if source.may_differ else _MOST_READ
    paths = [find_path(source.schema, name) for name in columns]
    with closing(source.batches(tally)) as batches:
        for _, batch in batches:
            taken = batch if limit is None else batch.slice(0, min(batch.num_rows, limit - n_rows))
            drawing.draw(taken, n_rows, paths)
            n_rows, n_bytes = n_rows + taken.num_rows, n_bytes + batch.nbytes
            if n_rows == limit:
                break
            if n_bytes > _MOST_BYTES or tally.read > most_rows:
                return Sample(drawing.rows, n_rows, is_whole=False)
    return Sample(drawing.rows, n_rows, is_whole=True)


class _Drawing:
    """One stretch from each of 16 to 32 equal parts of all rows so far: where there are more parts, two become one."""

    def __init__(self, count: int) -> None:
        self._count, self._length, self._numbers = count, -(-count // _STRETCHES), np.random.default_rng(0)
        self._kept: list[list[Row]] = []
        self._span, self._wanted = 1, 0  #: stretches of a part, and which of them is kept

    @property
    def rows(self) -> list[Row]:
        """As many of each stretch as are not too many."""
        sizes = [len(stretch) for stretch in self._kept]
        lengths = range(self._length, 1, -1)
        each = next((n for n in lengths if sum(min(n, size) for size in sizes) <= self._count), 1)
        return [row for stretch in self._kept for row in stretch[:each]]

    def draw(self, batch: pa.RecordBatch, place: int, paths: Sequence[ColumnPath]) -> None:
        """`place` is that of the batch's first row among all."""
        start = 0
        while start < batch.num_rows:
            number, begun = divmod(place + start, self._length)
            if not begun:
                self._begin(number)
            if number % self._span == self._wanted:
                self._kept[-1] += _rows(batch.slice(start, self._length - begun), place + start, paths)
            start += self._length - begun

    def _begin(self, number: int) -> None:
        """A stretch, by its number among all."""
        if number % self._span == 0:
            if len(self._kept) == 2 * _STRETCHES:
                pairs = zip(self._kept[::2], self._kept[1::2], strict=True)
                self._kept = [pair[self._numbers.integers(2) if place else 0] for place, pair in enumerate(pairs)]
                self._span *= 2
            self._wanted = int(self._numbers.integers(self._span)) if number else 0
        if number % self._span == self._wanted:
            self._kept.append([])


def _rows(batch: pa.RecordBatch, place: int, paths: Sequence[ColumnPath]) -> Iterator[Row]:
    for row_id, values in enumerate(as_dicts([batch], paths), start=place):
        yield Row(row_id, str(row_id), values)
