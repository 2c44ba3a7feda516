"""Stands beside a GPU worker's process: starts it anew where it dies, tells the ledger at once, and knows when to stop.

It loads no torch, so that it stays when memory runs out.
"""

import logging
import os
import socket
import sys

from pipeline.errors import PipelineError
from pipeline.settings import Settings
from pipeline.store.database import open_database
from pipeline.store.ledger import Ledger
from pipeline.store.records import Role, WorkerRecord, WorkerState
from pipeline.store.registry import Registry, is_near
from workers.logs import about
from workers.supervisor import Child, Supervisor, describe_exit

_LOG = logging.getLogger(__name__)
#: Deaths in a row, without a batch in between, before it is no accident any more: at the start, while a model is
#: loaded, and while batches are answered (a batch of a thousand rows is halved ten times until its bad row is alone).
_AT_START, _LOADING, _ANSWERING = 3, 3, 25
#: Seconds that a worker has to end its batch, once it is asked to stop; then its lease frees what it held.
_GRACE_S = 100.0
#: Deaths are counted, so that there is no need to wait long between two: a row that kills takes many to be found.
_LONGEST_PAUSE_S = 4.0
#: Seconds from one that was given up to the next one on its device, where no person waits at a terminal.
_FAILED_S = 60.0
#: The exit status of a worker that ends because others are away (sysexits' EX_TEMPFAIL), and of a guard whose worker
#: cannot be kept running (EX_UNAVAILABLE).
TRY_AGAIN, GIVEN_UP = 75, 69


class Guard:
    """`died` decides whether a worker that died is started again."""

    def __init__(self, ledger: Ledger, registry: Registry, device: str) -> None:
        self._ledger, self._registry, self._device = ledger, registry, device
        self._host = socket.gethostname()
        self._at_start = self._loading = self._answering = 0

    def pause_s(self) -> float:
        """Before the first start: whoever starts it again at once, for ever, is to do no harm."""
        here = (WorkerState.FAILED, self._host, self._device)
        failed = [record for record in self._registry.all() if (record.state, record.host, record.device) == here]
        last = max(failed, key=lambda record: record.seen_at, default=None)
        left_s = 0.0 if last is None else last.seen_at + _FAILED_S - self._registry.now()
        if last is None or left_s <= 0.0:
            return 0.0
        _LOG.warning("The last worker on %s failed: %s It is tried again in %.0f s.", self._device, last.note, left_s)
        return left_s

    def died(self, pid: int, returncode: int) -> bool:
        """Whether it is started again. One that ended by itself, since the broker or the database was away, signed off
        before; one that failed has told why."""
        if returncode in (0, TRY_AGAIN):
            return True
        what = describe_exit(returncode).removeprefix("was ")
        try:
            return self._died(pid, what)
        except PipelineError as error:
            _LOG.warning("The ledger could not be told that a worker is dead (%s): %s", what, error)
            return True

    def _died(self, pid: int, what: str) -> bool:
        record = self._record(pid)
        if record is None:
            self._at_start += 1
            return self._at_start < _AT_START or self._give_up(
                f"Its process ended at its start, {_AT_START} times in a row: {what}."
            )
        with about(worker=record.id):
            return self._died_known(record, what)

    def _died_known(self, record: WorkerRecord, what: str) -> bool:
        if record.state is WorkerState.FAILED:
            return False
        self._at_start = 0
        if record.batches:
            self._loading = self._answering = 0
        self._ledger.died(record.id, what)
        self._registry.leave(record.id)
        if record.state is WorkerState.LOADING:
            return self._died_loading(record, what)
        self._answering += 1
        return self._answering < _ANSWERING or self._give_up(
            f"Its process ended {_ANSWERING} times in a row before it had answered a batch: {what}. Look at its device."
        )

    def _died_loading(self, record: WorkerRecord, what: str) -> bool:
        """The model is too large for this machine, or breaks it: its job waits for a person, others go on."""
        self._loading += 1
        if self._loading >= _LOADING and record.job_id is not None:
            self._loading = 0
            self._ledger.pause(
                record.job_id,
                f"A worker on {self._host} died while it loaded the model {record.model}, {_LOADING} times in a row: "
                f"{what}. Look whether the machine has memory for it, then resume the job.",
            )
        return True

    def _give_up(self, why: str) -> bool:
        _LOG.error("The worker on %s is not started again. %s", self._device, why)
        worker_id = self._registry.enter(Role.GPU, self._host, 0, self._device)
        self._registry.fail(worker_id, why)
        self._registry.supersede(worker_id)
        return False

    def let_go(self) -> None:
        """What a worker held that was asked to stop and killed since it did not: that is nobody's fault."""
        try:
            for record in self._registry.all():
                if (record.role, record.device) == (Role.GPU, self._device) and is_near(record) and _ended(record):
                    self._ledger.let_go(record.id)
                    self._registry.leave(record.id)
        except PipelineError as error:
            _LOG.warning("What the worker held is free when its lease runs out: %s", error)

    def _record(self, pid: int) -> WorkerRecord | None:
        """The newest: pids come again."""
        workers = (record for record in self._registry.all() if record.role is Role.GPU)
        known = [record for record in workers if record.pid == pid and is_near(record)]
        return max(known, key=lambda record: record.started_at, default=None)


def _ended(record: WorkerRecord) -> bool:
    try:
        os.kill(record.pid, 0)
    except ProcessLookupError:
        return record.state is not WorkerState.FAILED
    return False


def run_guarded(settings: Settings, device: str) -> int:
    """The exit status: 0 once it was asked to stop, GIVEN_UP where the worker cannot be kept running."""
    settings.required_broker_url()
    database = open_database(settings)
    guard = Guard(Ledger(database), Registry(database), device)
    environment = os.environ | {
        "PIPELINE_LOG_FORMAT": settings.log_format,
        "PIPELINE_METRICS_PORT": str(settings.metrics_port or 0),
    }
    child = Child(f"gpu {device}", [sys.executable, "-m", "workers.gpu", device], environment)
    supervisor = Supervisor(
        [child],
        lambda name, pid, returncode: guard.died(pid, returncode),
        grace_s=_GRACE_S,
        first_pause_s=0.0 if sys.stderr.isatty() else guard.pause_s(),
        longest_pause_s=_LONGEST_PAUSE_S,
    )
    try:
        return GIVEN_UP if supervisor.run() else 0
    finally:
        guard.let_go()
