"""A process of a fleet tells every few seconds that it lives, and what it does; `status` and the dispatcher read it."""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipeline.errors import PipelineError
from pipeline.store.registry import News, Registry
from workers.logs import in_context

_LOG = logging.getLogger(__name__)
#: Seconds between two signs of life.
_EVERY_S = 2.0


class Heartbeat:
    """`facts` is asked at every beat for the columns to write."""

    def __init__(self, registry: Registry, worker_id: str, facts: Callable[[], News]) -> None:
        self._registry, self._worker_id, self._facts = registry, worker_id, facts
        self._done, self._beats = threading.Event(), threading.Lock()

    @contextmanager
    def beating(self) -> Iterator[None]:
        """The record is gone when the block ends, however it ends."""
        thread = threading.Thread(target=in_context(self._beat_on), name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join()
            try:
                self._registry.leave(self._worker_id)
            except PipelineError as error:
                _LOG.warning("This process could not be signed off: %s", error)

    def beat(self) -> None:
        """Now, too; for what others should know at once. A database that is gone for a while is not told."""
        try:
            with self._beats:
                self._registry.beat(self._worker_id, **self._facts())
        except Exception as error:
            _LOG.warning("A sign of life could not be given: %s", error)

    def pause_at_forks(self) -> None:
        """For a process that forks others: they would inherit a transaction of this thread, and never be rid of it."""
        release = self._beats.release
        os.register_at_fork(before=self._beats.acquire, after_in_parent=release, after_in_child=release)

    def _beat_on(self) -> None:
        while not self._done.wait(_EVERY_S):
            self.beat()
