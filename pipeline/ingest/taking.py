"""Which rows of an input a job takes, where it does not take all: by a condition, and by drawing some of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.ingest.condition import Condition

_MOST = 2**64 - 1

Positioned = tuple[int, pa.RecordBatch]  #: the place of a batch's first row in the whole input, and the batch


@dataclass(slots=True)
class Tally:
    """What became of the rows that were read so far."""

    read: int = 0
    left_out: int = 0
    strange: int = 0  #: of those that were kept, the ones with what is no text where text stands (strange.py)
    first_strange: str | None = None  #: where the first one is


@dataclass(frozen=True, slots=True)
class Taking:
    """Each row of the input has a number of its own, made from its place and the seed; the lowest ones are drawn.

    So the same rows are drawn each time, and whether a row is depends on no other, but where a number is asked for.
    """

    condition: Condition | None = None
    count: int | None = None  #: draw so many of the rows that fulfil the condition
    share: float | None = None  #: draw each with this probability
    seed: int = 0

    def bound(self, batches: Iterable[Positioned]) -> int:
        """The highest number that is drawn. The batches are the whole input, read only where a count is asked for."""
        if self.count is None:
            return _MOST if self.share is None else max(0, min(_MOST, int(self.share * 2**64) - 1))
        kept, n_kept, n_rows = [np.empty(0, np.uint64)], 0, 0
        for position, batch in batches:
            found = self._numbers(batch.num_rows, position)[self._fulfilled(batch)]
            kept.append(found)
            n_kept, n_rows = n_kept + len(found), n_rows + len(found)
            if n_kept > 2 * self.count:
                kept, n_kept = [_lowest(kept, self.count)], self.count
        return _MOST if n_rows <= self.count else int(_lowest(kept, self.count)[-1])

    def rows(self, batch: pa.RecordBatch, position: int, bound: int) -> pa.RecordBatch:
        taken = self._fulfilled(batch)
        if bound < _MOST:
            taken &= self._numbers(batch.num_rows, position) <= np.uint64(bound)
        return batch.filter(pa.array(taken))

    def _fulfilled(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        if self.condition is None:
            return np.ones(batch.num_rows, np.bool_)
        found: NDArray[np.bool_] = self.condition.fulfilled(batch).to_numpy(zero_copy_only=False)
        return found

    def _numbers(self, n_rows: int, position: int) -> NDArray[np.uint64]:
        """splitmix64, which gives no two places the same number (Steele, Lea and Flood, 2014)."""
        places = np.arange(position, position + n_rows, dtype=np.uint64)
        return _mixed(_mixed(places + np.uint64(self.seed * 0xD1342543DE82EF95 % 2**64)))


def _lowest(kept: Sequence[NDArray[np.uint64]], count: int) -> NDArray[np.uint64]:
    """The last one is the highest of them."""
    return np.partition(np.concatenate(kept), count - 1)[:count]


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
