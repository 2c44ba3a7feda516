"""The fleet as the database knows it: who lives in it, what it last said, and whether a job goes to it."""

import json
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pipeline.settings import Settings
from pipeline.store.database import Database
from pipeline.store.records import Role, WorkerRecord, WorkerState
from pipeline.store.registry import Registry, is_alive, is_near

#: A fleet that was not heard of for so long is none.
_REMEMBERED_S = 86_400.0


@dataclass(frozen=True)
class Fleet:
    """All processes that the registry knows, also those that failed or fell silent, as they were at `now`."""

    workers: tuple[WorkerRecord, ...]
    now: float  #: by the clock that their signs of life are told by

    @classmethod
    def seen(cls, database: Database) -> "Fleet":
        registry = Registry(database)
        return cls(tuple(registry.all()), registry.now())

    def alive(self, role: Role) -> list[WorkerRecord]:
        """Those that can be counted on."""
        return [worker for worker in self.workers if worker.role is role and self.is_alive(worker)]

    def processes(self, role: Role) -> int:
        """One worker may be several that do the same."""
        return sum(int(json.loads(worker.facts or "{}").get("concurrency", 1)) for worker in self.alive(role))

    def failed(self, role: Role) -> list[WorkerRecord]:
        """Those that have given up."""
        return [worker for worker in self.workers if worker.role is role and worker.state is WorkerState.FAILED]

    def is_alive(self, worker: WorkerRecord) -> bool:
        return is_alive(worker, self.now) and not _is_gone(worker)

    def lingers(self, worker: WorkerRecord) -> bool:
        """It fell silent, and its process is there, as far as this host can tell."""
        return not is_alive(worker, self.now) and _is_there(worker) is True

    def silent_s(self, worker: WorkerRecord) -> float:
        """Seconds since its last sign of life."""
        return max(0.0, self.now - worker.seen_at)

    def producer_of(self, job_id: str) -> WorkerRecord | None:
        """Whoever cuts the job's input just now."""
        return next((worker for worker in self.alive(Role.PRODUCER) if worker.job_id == job_id), None)

    def silent_producer_of(self, job_id: str) -> WorkerRecord | None:
        """Who did so and gives no sign of life, but may be there yet: it stands still, or its machine is away."""
        there = (worker for worker in self._lately(Role.PRODUCER) if not _is_gone(worker))
        return next((worker for worker in there if worker.job_id == job_id and not self.is_alive(worker)), None)

    @cached_property
    def dispatcher(self) -> WorkerRecord | None:
        """The one that was seen last, of those that live."""
        return max(self.alive(Role.DISPATCHER), key=lambda worker: worker.seen_at, default=None)

    @cached_property
    def last_dispatcher(self) -> WorkerRecord | None:
        """The one that was seen last, within a day, and did not sign off: it may live, or have died."""
        return max(self._lately(Role.DISPATCHER), key=lambda worker: worker.seen_at, default=None)

    @property
    def counts_on_work(self) -> bool:
        """Whether a job may be left to it. One whose dispatcher died will have another, unless all that is known of it
        is processes of this machine that are gone: that is a `pipeline up` which somebody killed."""
        mates = self._lately(Role.DISPATCHER, Role.TOKENIZER, Role.GPU)
        return self.last_dispatcher is not None and not all(_is_gone(worker) for worker in mates)

    def _lately(self, *roles: Role) -> list[WorkerRecord]:
        return [
            worker
            for worker in self.workers
            if worker.role in roles and worker.state is not WorkerState.FAILED and self.silent_s(worker) < _REMEMBERED_S
        ]

    @property
    def queued(self) -> dict[str, int] | None:
        """Messages in the broker by queue, as the dispatcher last saw them; None where it could not."""
        queued: dict[str, int] | None = self._facts.get("queued")
        return queued

    @property
    def memory(self) -> tuple[int, int] | None:
        """Bytes of the broker, used and allowed; 0 allowed is no limit."""
        used, allowed = self._facts.get("memory", (0, 0))
        return (used, allowed) if used else None

    @cached_property
    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads((self.dispatcher and self.dispatcher.facts) or "{}")
        return facts


def there_is_a_fleet(settings: Settings, database: Database) -> bool:
    """Where there is a broker, or where one lived lately: what it takes on is carried out, now or later."""
    return settings.broker_url is not None or Fleet.seen(database).counts_on_work


def _is_gone(worker: WorkerRecord) -> bool:
    return _is_there(worker) is False


def _is_there(worker: WorkerRecord) -> bool | None:
    """Known for those whose pid this process may look for, and at once; of others, silence must tell."""
    if not is_near(worker):
        return None
    try:
        os.kill(worker.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
