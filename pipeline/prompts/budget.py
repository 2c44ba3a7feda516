"""Stage 2: how much a prompt's own template may do with one row, so that no row can keep a worker for ever."""

from collections.abc import Iterable, Iterator

#: Characters that are looked at or written, about: seconds of work.
MOST = 20_000_000
#: What one turn of a loop counts for.
_TURN = 10


class TooMuchError(Exception):
    """The row asks for more."""


class Budget:
    """Of one row."""

    def __init__(self) -> None:
        self._left = MOST

    def spend(self, characters: int) -> None:
        """Before what would take them. Raises TooMuchError."""
        self._left -= max(0, characters)
        if self._left < 0:
            raise TooMuchError("it would do too much with this row; let it loop over less, or write less")

    def turns(self, items: Iterable[object], characters: int) -> Iterator[object]:
        """Of a loop whose own text has so many characters."""
        for item in items:
            self.spend(_TURN + characters)
            yield item


def size(value: object) -> int:
    """About what it costs to go through it once."""
    return len(value) if isinstance(value, str | list | tuple | dict | range) else 1
