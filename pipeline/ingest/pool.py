"""Some rows of a source, looked at before it is cut: its head, and stretches from as much of it as is cheap."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from pipeline.ingest.drawing import Drawn, draw, rows_at
from pipeline.ingest.inputs import Edge, Source
from pipeline.ingest.paths import ColumnPath, find_path
from pipeline.rows import Row

_STRETCHES = 12


@dataclass(frozen=True, slots=True)
class Pool:
    """Each stretch is of rows that follow one another; the head comes first."""

    stretches: Iterator[Iterable[Row]]  #: each to be read before the next
    n_rows: int | None  #: None where these are all of the table; else about how many it has, or at least


def read_pool(
    source: Source, columns: Sequence[str], head_rows: int, most_rows: int, limit: int | None, *, far: bool
) -> Pool:
    """A head of `head_rows` rows and stretches behind it, or all rows up to the `limit` where these are few.

    With `far`, the stretches are read where they are, in a format that allows it.
    """
    paths = [find_path(source.schema, name) for name in columns]
    needed = list(dict.fromkeys(path.column for path in paths))
    edges, n_rows = source.edges(needed) if far else ([], 0)
    spread = _spread([edge for edge in edges if edge.place >= head_rows]) if n_rows > most_rows else []
    if spread:
        batches = zip(source.stretches(spread, needed), spread, strict=True)
        stretches: Iterable[Iterable[Row]] = (rows_at(batch, edge.place, paths) for batch, edge in batches)
    else:
        drawn = draw(source, columns, max(1, most_rows // 2), limit)
        if sum(map(len, drawn.stretches)) == drawn.n_rows:
            return Pool(iter([chain.from_iterable(drawn.stretches)]), None)
        stretches = (stretch for stretch in drawn.stretches if stretch[0].row_id >= head_rows)
        n_rows = drawn.n_rows if drawn.is_whole else _about_rows(source, drawn, limit)
    return Pool(chain([_head(source, paths, head_rows)], stretches), n_rows)


def _about_rows(source: Source, drawn: Drawn, limit: int | None) -> int:
    """Where not all were read."""
    about = source.about_rows() or drawn.read
    taken = max(drawn.n_rows, drawn.n_rows * about // drawn.read)
    return taken if limit is None else min(taken, limit)


def _head(source: Source, paths: Sequence[ColumnPath], count: int) -> Iterator[Row]:
    with closing(source.batches()) as batches:
        yield from islice(chain.from_iterable(rows_at(batch, 0, paths) for _, batch in batches), count)


def _spread(edges: Sequence[Edge]) -> list[Edge]:
    """The same ones each time, and at no equal distances, at which a table may well repeat itself."""
    drawn = np.random.default_rng(0).choice(len(edges), min(_STRETCHES, len(edges)), replace=False)
    return [edges[place] for place in sorted(drawn)]
