"""Whoever cuts a job's input for the fleet stands in the registry, so that all others know that it lives."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from jobs.fleet import Fleet
from pipeline.errors import RefusedError
from pipeline.store.database import Database
from pipeline.store.records import JobRecord, Role, WorkerState
from pipeline.store.registry import News, Registry
from workers.heartbeat import Heartbeat


@contextmanager
def producing(database: Database, job: JobRecord) -> Iterator[None]:
    """Raises RefusedError where another process does so, here or elsewhere."""
    registry = Registry(database)
    worker_id = registry.enter(Role.PRODUCER, socket.gethostname(), os.getpid())
    facts: News = {"state": WorkerState.BUSY, "job_id": job.id}
    registry.beat(worker_id, **facts)
    with Heartbeat(registry, worker_id, lambda: facts).beating():
        # Each tells of itself before it looks: of two that come at once, at least the later sees the other.
        fleet = Fleet.seen(database)
        if any(worker.job_id == job.id and worker.id != worker_id for worker in fleet.alive(Role.PRODUCER)):
            raise RefusedError(f"The input of {job.name} is being read by another process; let it finish.")
        yield
