"""Every stage is timed the same way: one stopwatch, whose clock a test may replace."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_T = TypeVar("_T")


class Stopwatch:
    """Adds up seconds by stage name."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = self._clock()
        try:
            yield
        finally:
            self.seconds[name] += self._clock() - started


def timed(items: Iterable[_T], clock: Callable[[], float] = time.perf_counter) -> Iterator[tuple[_T, float]]:
    """Each with the seconds that it was waited for."""
    asked_at = clock()
    for item in items:
        yield item, clock() - asked_at
        asked_at = clock()
