"""Who is at work in a fleet: each of its processes says so itself, every few seconds, beside what it works on."""

import socket
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TypedDict, Unpack
from uuid import uuid4

from sqlalchemy import Connection, Engine, and_, delete, select, tuple_, update

from pipeline.store.entries import INSERT
from pipeline.store.records import Role, WorkerRecord, WorkerState
from pipeline.store.schema import workers
from pipeline.store.transactions import moment, reading, writing

#: Who was not heard of for so long is dead, stopped, or cut off from the database.
SILENT_AFTER_S = 30.0


class News(TypedDict, total=False):
    """What a sign of life may tell; the rest stays as it was told last. The fields are WorkerRecord's."""

    state: WorkerState
    device: str | None
    model: str | None
    job_id: str | None
    batch_no: int | None
    note: str | None
    batches: int
    rows: int
    tokens: int
    busy_s: float
    facts: str | None


class Registry:
    """Safe to use from several threads; `clock` tells seconds since the epoch, the database's own unless given.

    It remembers whom it entered. So one that stood still until it was forgotten is there again with its next sign of
    life, while one that left stays away, even where a sign of life was under way.
    """

    def __init__(self, engine: Engine, clock: Callable[[], float] | None = None) -> None:
        self._engine = engine
        self._clock = clock
        self._entered: dict[str, WorkerRecord] = {}
        self._lock = Lock()

    def enter(self, role: Role, host: str, pid: int, device: str | None = None) -> str:
        """The new worker's id, by which it may also own leases."""
        worker_id = f"{host}/{role}.{_pid_space()}.{uuid4().hex}"
        with self._lock, writing(self._engine) as connection:
            now = self._moment(connection)
            entry = WorkerRecord(worker_id, role, host, pid, WorkerState.STARTING, now, now, device=device)
            _write(connection, entry)
            self._entered[worker_id] = entry
        return worker_id

    def beat(self, worker_id: str, **news: Unpack[News]) -> None:
        """A sign of life. Nothing happens for one that left or failed, or that another process entered."""
        with self._lock:
            if worker_id in self._entered:
                entry = self._entered[worker_id] = replace(self._entered[worker_id], **news)
                with writing(self._engine) as connection:
                    _write(connection, replace(entry, seen_at=self._moment(connection)))

    def leave(self, worker_id: str) -> None:
        """Nobody needs to know of it any more. Another process may say so of one that ended."""
        with self._lock, writing(self._engine) as connection:
            self._entered.pop(worker_id, None)
            connection.execute(delete(workers).where(workers.c.id == worker_id))

    def fail(self, worker_id: str, note: str) -> None:
        """It has given up, and what it said last stays, with a sentence on why. Another process may say so of one
        that died."""
        with self._lock, writing(self._engine) as connection:
            entry = self._entered.pop(worker_id, None)
            if entry is not None:
                _write(connection, replace(entry, seen_at=self._moment(connection)))
            failed = {"state": WorkerState.FAILED, "note": note}
            connection.execute(update(workers).where(workers.c.id == worker_id).values(failed))

    def supersede(self, worker_id: str) -> None:
        """It tells how things are: what earlier ones of its role failed of, on its host and device, is forgotten."""
        same = (workers.c.role, workers.c.host, workers.c.device)
        its = select(*same).where(workers.c.id == worker_id)
        earlier = and_(workers.c.state == WorkerState.FAILED, workers.c.id != worker_id)
        with writing(self._engine) as connection:
            connection.execute(delete(workers).where(tuple_(*same).in_(its), earlier))

    def all(self) -> list[WorkerRecord]:
        """By role, host and start."""
        order = (workers.c.role, workers.c.host, workers.c.started_at, workers.c.id)
        with reading(self._engine) as connection:
            return [WorkerRecord(**row._mapping) for row in connection.execute(select(workers).order_by(*order))]

    def alive(self) -> list[WorkerRecord]:
        """Those that were heard of lately and have not given up."""
        now = self.now()
        return [record for record in self.all() if is_alive(record, now)]

    def sweep(self, older_than_s: float) -> int:
        """Forget those not heard of for so long, failed ones too; how many."""
        with writing(self._engine) as connection:
            old = workers.c.seen_at < self._moment(connection) - older_than_s
            return connection.execute(delete(workers).where(old)).rowcount

    def now(self) -> float:
        """Seconds since the epoch, by the clock of the entries."""
        with reading(self._engine) as connection:
            return self._moment(connection)

    def _moment(self, connection: Connection) -> float:
        return moment(connection) if self._clock is None else self._clock()


def is_alive(record: WorkerRecord, now: float) -> bool:
    """By its signs of life, at a moment of the same clock (Registry.now), which may have been set back."""
    return record.state is not WorkerState.FAILED and abs(now - record.seen_at) < SILENT_AFTER_S


def is_near(record: WorkerRecord) -> bool:
    """Whether this process may look for it by its pid: on the same host, and not in another container, which may have
    the host's name too."""
    space = record.id.rpartition("/")[2].split(".")[1:-1]  # none in what an older version entered
    return record.host == socket.gethostname() and space in ([], [_pid_space()])


@cache
def _pid_space() -> str:
    """The same for processes whose pids differ: those of one container, or of no container. Where Linux does not tell,
    all of a host are taken for such."""
    try:
        return str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")
    except OSError:
        return ""


def _write(connection: Connection, entry: WorkerRecord) -> None:
    """Whether or not it is there."""
    values = asdict(entry)
    there = INSERT[connection.dialect.name](workers).values(values)
    connection.execute(there.on_conflict_do_update(index_elements=["id"], set_=values))
