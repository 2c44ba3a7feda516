"""Some rows of a source, looked at before it is cut: its head and, where that is cheap, stretches far behind it."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import pyarrow as pa

from pipeline.ingest.inputs import Edge, Source
from pipeline.ingest.paths import ColumnPath, find_path
from pipeline.ingest.rows import as_dicts
from pipeline.ingest.taking import Tally

_STRETCHES = 12
_MOST_READ = 1 << 18  #: where only some rows are taken

Values = dict[str, object]  #: of one row, by column


@dataclass(frozen=True, slots=True)
class Pool:
    """Each stretch is of rows that follow one another; the head comes first."""

    stretches: Iterator[Iterator[Values]]  #: each to be read before the next
    n_rows: int | None  #: of the table, where the stretches are from all over it


def read_pool(source: Source, columns: Sequence[str], head_rows: int, most_rows: int, *, far: bool) -> Pool:
    """With `far`, where that is cheap, a head of `head_rows` rows and stretches behind it; else one of `most_rows`."""
    paths = [find_path(source.schema, name) for name in columns]
    needed = list(dict.fromkeys(path.column for path in paths))
    edges, n_rows = source.edges(needed) if far else ([], 0)
    spread = _spread([edge for edge in edges if edge.place >= head_rows]) if n_rows > most_rows else []
    head = _head(source, paths, head_rows if spread else most_rows)
    stretches = (as_dicts([batch], paths) for batch in source.stretches(spread, needed))
    return Pool(chain([head], stretches), n_rows if spread else None)


def _head(source: Source, paths: Sequence[ColumnPath], count: int) -> Iterator[Values]:
    with closing(_taken(source)) as batches:
        yield from islice(as_dicts(batches, paths), count)


def _taken(source: Source) -> Generator[pa.RecordBatch]:
    """Where hardly any row is taken, no more are looked at than so many."""
    tally = Tally()
    for _, batch in source.batches(tally):
        yield batch
        if tally.read >= _MOST_READ:
            return


def _spread(edges: Sequence[Edge]) -> list[Edge]:
    """The same ones each time, and at no equal distances, at which a table may well repeat itself."""
    drawn = np.random.default_rng(0).choice(len(edges), min(_STRETCHES, len(edges)), replace=False)
    return [edges[place] for place in sorted(drawn)]
