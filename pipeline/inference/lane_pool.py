"""Lanes for the rows of a batch, in classes of length: allocated once, and used again by the batches that follow."""

from collections import Counter
from collections.abc import Mapping, Sequence

from pipeline.inference.lanes import Lanes, LaneShape
from pipeline.inference.padding import length_class


class LanePool:
    """Blocks of lanes, one for each class, together of `max_bytes` at most; but a class has one lane at least."""

    def __init__(self, shape: LaneShape, max_bytes: int) -> None:
        self._shape, self.max_bytes = shape, max_bytes
        self._blocks: dict[int, Lanes] = {}
        self._wanted: dict[int, int] = {}
        self.in_use = 0  #: rows that are being decoded

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self._blocks.values())

    @property
    def count(self) -> int:
        """Lanes that are held, used or not; may be asked from another thread."""
        return sum(block.count for block in list(self._blocks.values()))

    def open(self, tokens: Sequence[int]) -> Mapping[int, Lanes]:
        """Blocks by capacity for rows that may need so many tokens each.

        Where all rows do not fit at once, each class has its share of the lanes, to be used by turns.
        """
        self._wanted = wanted = self._share(Counter(map(length_class, tokens)))
        self._make_room(wanted)
        for capacity, lanes in wanted.items():
            if self._lanes_of(capacity) < lanes:
                self._blocks.pop(capacity, None)
                self._blocks[capacity] = Lanes(self._shape, lanes, capacity)
        return {capacity: self._blocks[capacity] for capacity in wanted}

    def halve(self) -> bool:
        """Gives all back, for memory ran out, and never holds as much again. False where no less would do.

        That is where each class had one lane, and where none was asked for since the last time.
        """
        wanted, self._wanted = self._wanted, {}
        self._blocks.clear()
        if sum(wanted.values()) == len(wanted):
            return False
        tokens = sum(capacity * lanes for capacity, lanes in wanted.items())
        self.max_bytes = min(self.max_bytes, tokens * self._shape.bytes_per_token()) // 2
        return True

    def _share(self, rows: Mapping[int, int]) -> dict[int, int]:
        """Lanes of each class."""
        needed = sum(capacity * count for capacity, count in rows.items()) * self._shape.bytes_per_token()
        share = min(1.0, self.max_bytes / needed)
        return {capacity: max(1, int(count * share)) for capacity, count in rows.items()}

    def _make_room(self, wanted: Mapping[int, int]) -> None:
        """What other batches left goes where it is in the way."""
        kept = {capacity: block.count for capacity, block in self._blocks.items()}
        then = kept | {capacity: max(lanes, kept.get(capacity, 0)) for capacity, lanes in wanted.items()}
        tokens = sum(capacity * lanes for capacity, lanes in then.items())
        if tokens * self._shape.bytes_per_token() > self.max_bytes:
            self._blocks.clear()

    def _lanes_of(self, capacity: int) -> int:
        return self._blocks[capacity].count if capacity in self._blocks else 0
