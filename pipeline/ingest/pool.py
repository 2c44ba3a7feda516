"""Some rows of a source, looked at before it is cut: its head and, where that is cheap, stretches far behind it."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from pipeline.ingest.inputs import Edge, Source
from pipeline.ingest.paths import ColumnPath, find_path
from pipeline.ingest.rows import as_dicts
from pipeline.ingest.taking import Tally

_STRETCHES = 12
_STRETCH_ROWS = 1024
_MOST_READ = 1 << 18

Values = dict[str, object]  #: of one row, by column


@dataclass(frozen=True, slots=True)
class Pool:
    """Each stretch is of rows that follow one another; the head comes first."""

    stretches: tuple[Iterable[Values], ...]  #: read as one goes over them
    n_rows: int | None  #: of the table, where the stretches are from all over it


def read_pool(source: Source, columns: Sequence[str], head_rows: int, most_rows: int, *, far: bool) -> Pool:
    """With `far`, where that is cheap, a head of `head_rows` rows and stretches behind it; else one of `most_rows`."""
    paths = [find_path(source.schema, name) for name in columns]
    edges, n_rows = (source.edges() if far else None) or ([], 0)
    spread = _spread([edge for edge in edges if edge.place >= head_rows]) if n_rows > most_rows else []
    if not spread:
        return Pool((_head(source, paths, most_rows),), None)
    stretches = (islice(as_dicts(source.batches_at(edge), paths), _STRETCH_ROWS) for edge in spread)
    return Pool((_head(source, paths, head_rows), *stretches), n_rows)


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
    """At distances that differ, since what comes again in a table may do so at equal ones."""
    places = {int(len(edges) * (number * 0.6180339887 % 1)) for number in range(_STRETCHES)}
    return [edges[place] for place in sorted(places)] if edges else []
