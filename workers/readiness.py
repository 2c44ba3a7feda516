"""Looks, beside a fleet that starts on this machine, whether each of its processes has signed on."""

import socket
import time
from collections import Counter
from collections.abc import Callable

from pipeline.errors import PipelineError
from pipeline.store.records import Role
from pipeline.store.registry import Registry

#: Seconds between two looks into the database.
_LOOK_S = 0.5


class Readiness:
    """`on_ready` is called once, when as many of each role as are `awaited` have signed on, on this host and since
    this was made."""

    def __init__(
        self,
        registry: Registry,
        awaited: Counter[Role],
        on_ready: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry, self._awaited, self._on_ready, self._clock = registry, awaited, on_ready, clock
        self._since, self._host = registry.now(), socket.gethostname()
        self._told, self._due = False, clock()

    def look(self) -> None:
        """To be called often; most calls do nothing. A database that is away for a while is asked again."""
        if self._told or self._clock() < self._due:
            return
        self._due = self._clock() + _LOOK_S
        try:
            present = Counter(
                worker.role
                for worker in self._registry.alive()
                if worker.host == self._host and worker.started_at >= self._since
            )
        except PipelineError:
            return
        if self._awaited <= present:
            self._told = True
            self._on_ready()
