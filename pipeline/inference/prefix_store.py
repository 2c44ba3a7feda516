"""The prefix store: keys and values of shared prefixes, paid for once, least recently used out, bounded in bytes."""

from collections import OrderedDict
from collections.abc import Callable

from pipeline.inference.lanes import Lanes


class PrefixStore:
    """Keyed by the prefix's token ids. The newest is always kept, even where it alone is over the bound."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[tuple[int, ...], Lanes] = OrderedDict()

    @property
    def nbytes(self) -> int:
        return sum(lanes.nbytes for lanes in self._kept.values())

    def get(self, token_ids: tuple[int, ...], compute: Callable[[tuple[int, ...]], Lanes]) -> tuple[Lanes, bool]:
        """The prefix's keys and values, and whether they were here already."""
        if token_ids in self._kept:
            self._kept.move_to_end(token_ids)
            return self._kept[token_ids], True
        self._kept[token_ids] = compute(token_ids)
        while self.nbytes > self._max_bytes and len(self._kept) > 1:
            self._kept.popitem(last=False)
        return self._kept[token_ids], False
