"""Some rows from all over a source, looked at before it is cut: stretches of rows that follow one another."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.ingest.drawing import STRETCHES, draw, rows_at
from pipeline.ingest.inputs import Edge, Source
from pipeline.ingest.paths import find_path
from pipeline.ingest.taking import Tally
from pipeline.rows import Row

#: With so few, a table is read from its start first, which may be all of it.
_FEW_EDGES = 2 * STRETCHES


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
        drawn = draw(source, columns, count, limit, tally)
        if drawn.is_whole or not edges:
            return Sample(_trimmed(drawn.stretches, count), drawn.n_rows, drawn.is_whole)
    return Sample(list(_far(source, columns, needed, edges, n_rows, count)), n_rows, is_whole=True)


def _far(
    source: Source, columns: Sequence[str], needed: Sequence[str], edges: Sequence[Edge], n_rows: int, count: int
) -> Iterator[Row]:
    """What is behind the first edge, and behind one drawn from each of as many equal parts of the others as it takes;
    at no equal distances, at which a table may well repeat itself."""
    ends = [*(edge.place for edge in edges[1:]), n_rows]
    length = -(-count // STRETCHES)
    behind = sum(min(length, end - edge.place) for edge, end in zip(edges, ends, strict=True)) / len(edges)
    parts = np.array_split(np.arange(len(edges)), min(len(edges), math.ceil(count / behind)))
    numbers = np.random.default_rng(0)
    drawn = [0, *(int(numbers.choice(part)) for part in parts[1:])]
    length = max(1, count // len(drawn) if len(drawn) <= STRETCHES else length)
    paths = [find_path(source.schema, name) for name in columns]
    for place, batch in zip(drawn, source.stretches([edges[each] for each in drawn], needed), strict=True):
        yield from rows_at(batch.slice(0, length), edges[place].place, paths)


def _trimmed(stretches: Sequence[Sequence[Row]], count: int) -> list[Row]:
    """As many rows of each as are not too many."""
    sizes = [len(stretch) for stretch in stretches]
    lengths = range(max(sizes, default=0), 1, -1)
    each = next((n for n in lengths if sum(min(n, size) for size in sizes) <= count), 1)
    return [row for stretch in stretches for row in stretch[:each]]
