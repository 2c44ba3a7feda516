"""What a GPU worker has done since it started, and what it is at: the columns of its sign of life."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipeline.rows import BatchTiming
from pipeline.store.records import Claim, WorkerState
from pipeline.store.registry import News


class Tally:
    """Written by the worker's threads, read by its heartbeat."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._batches = self._rows = self._tokens = 0
        self._busy_s = 0.0
        self._state = WorkerState.IDLE
        self._model: str | None = None
        self._note: str | None = None
        self._job_id: str | None = None
        self._batch_no: int | None = None

    @contextmanager
    def loading(self, job_id: str, model: str) -> Iterator[None]:
        with self._lock:
            self._state, self._job_id, self._model = WorkerState.LOADING, job_id, model
        try:
            yield
        finally:
            with self._lock:
                self._state, self._job_id = WorkerState.IDLE, None

    @contextmanager
    def busy(self, claim: Claim) -> Iterator[None]:
        started = self._clock()
        with self._lock:
            self._state, self._job_id, self._batch_no = WorkerState.BUSY, claim.job_id, claim.batch_no
        try:
            yield
        finally:
            with self._lock:
                self._state, self._job_id, self._batch_no = WorkerState.IDLE, None, None
                self._busy_s += self._clock() - started

    @contextmanager
    def blocked(self, note: str) -> Iterator[None]:
        with self._lock:
            self._state, self._note = WorkerState.BLOCKED, note
        try:
            yield
        finally:
            with self._lock:
                self._state, self._note = WorkerState.IDLE, None

    def count(self, rows: int, timing: BatchTiming) -> None:
        """A batch that is recorded."""
        with self._lock:
            self._batches += 1
            self._rows += rows
            self._tokens += timing.computed_tokens + timing.reused_tokens + timing.output_tokens

    def busy_s(self) -> float:
        """At batches that have ended."""
        with self._lock:
            return self._busy_s

    def facts(self) -> News:
        with self._lock:
            return {
                "state": self._state,
                "model": self._model,
                "job_id": self._job_id,
                "batch_no": self._batch_no,
                "note": self._note,
                "batches": self._batches,
                "rows": self._rows,
                "tokens": self._tokens,
                "busy_s": self._busy_s,
            }
