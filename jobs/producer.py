"""Whoever cuts a job's input for the fleet stands in the registry, so that all others know that it lives."""

import os
import shlex
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
        for worker in fleet.alive(Role.PRODUCER):
            if worker.job_id == job.id and worker.id != worker_id:
                raise being_read(job, f"{worker.pid} on {worker.host}")
        yield


def being_read(job: JobRecord, process: str | None) -> RefusedError:
    """By another one, whose number and host may be known."""
    who, number = (f", {process}", process.partition(" ")[0]) if process else ("", "its number")
    return RefusedError(
        f"The input of {job.name} is being read by another process{who}. Let it finish; if it stands still, end it "
        f"there (kill -9 {number}), and go on with: pipeline resume {shlex.quote(job.name)}"
    )
