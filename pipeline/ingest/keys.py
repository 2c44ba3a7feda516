"""The user's ids: every row must have one, and no two rows the same, in 8 bytes a row."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.ingest.paths import find_path
from pipeline.ingest.values import keys_of, require_key_type

_SUSPECTS = 1024  #: hashes looked into at once; nearly every repeated hash is a repeated key


class Places:
    """Which row of which file a row of the job is."""

    def __init__(self, of_some: bool = False) -> None:
        """`of_some`: those that are not taken are not counted."""
        self._of = "those taken of " if of_some else ""
        self.n_rows = 0  #: so far
        self._starts: list[int] = []
        self._names: list[str] = []

    def add(self, name: str, n_rows: int) -> int:
        """The next rows are from the file `name`; returns the row_id of the first of them."""
        first_row = self.n_rows
        if not self._names or self._names[-1] != name:
            self._starts.append(first_row)
            self._names.append(name)
        self.n_rows += n_rows
        return first_row

    def of(self, row_id: int) -> str:
        at = bisect_right(self._starts, row_id) - 1
        return f"row {row_id - self._starts[at] + 1} of {self._of}{self._names[at]}"


class KeyCheck:
    """Sees every batch once, in order; at the end it looks the suspects up in the shards."""

    def __init__(self, schema: pa.Schema, name: str, places: Places) -> None:
        self._path = find_path(schema, name)
        require_key_type(name, self._path.type)
        self._name = name
        self._places = places
        self._hashes: list[NDArray[np.int64]] = []

    def add(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Raises InputError for a row without a key."""
        keys = keys_of(self._path.of(batch))
        if None in keys:
            place = self._places.of(first_row + keys.index(None))
            raise InputError(
                f'The key column "{self._name}" is empty in {place} (rows counted from 1, a header not counted). '
                "Fill it in, choose another column, or submit without a key."
            )
        self._hashes.append(np.fromiter(map(hash, keys), np.int64, len(keys)))

    def finish(self, read_again: Callable[[], Iterable[pa.Array]]) -> None:
        """`read_again` gives the keys of all rows, from the first. Raises InputError for a key used twice."""
        repeated = self._repeated()
        for start in range(0, len(repeated), _SUSPECTS):
            suspects = frozenset(repeated[start : start + _SUSPECTS].tolist())
            for key, first, second in _twice(read_again(), suspects):
                raise InputError(
                    f'The key column "{self._name}" holds "{key}" twice: in {self._places.of(first)} and in '
                    f"{self._places.of(second)} (rows counted from 1, a header not counted). "
                    "Every row needs a key of its own: choose another column, or submit without a key."
                )

    def _repeated(self) -> NDArray[np.int64]:
        hashes = np.concatenate(self._hashes)
        self._hashes.clear()
        hashes.sort()
        return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])


def _twice(columns: Iterable[pa.Array], suspects: frozenset[int]) -> Iterator[tuple[str, int, int]]:
    """Each repeat of a key whose hash is suspect: the key, its first row and this one."""
    seen: dict[str, int] = {}
    keys = (key for column in columns for key in keys_of(column))
    for row_id, key in enumerate(keys):
        if key is not None and hash(key) in suspects:
            if key in seen:
                yield key, seen[key], row_id
            seen.setdefault(key, row_id)
