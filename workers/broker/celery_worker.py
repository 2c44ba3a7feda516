"""A Celery worker in this process: it takes messages from one queue and calls the task that is registered for them.

A broker that is away, restarts empty, freezes or is full never ends it: it waits, and goes on when the broker does.
"""

import logging
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import Empty
from signal import Handlers
from types import FrameType
from typing import Any
from uuid import uuid4

import billiard
import billiard.pool
from celery import Celery, bootsteps, signals
from celery.worker import state
from celery.worker.consumer.tasks import Tasks

from workers.broker.quiet import quieted

_LOG = logging.getLogger(__name__)
#: Tenths of a second in which a process of a pool waits, before it ends, for its results to be looked at.
_RESULTS_WAIT = 10


def _nothing() -> None:
    """What is done where the caller wants nothing done."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Who is told of the connection, in the process that holds it: each time that it is made, and, with the error, of
    each try that failed, which are many while the broker is away."""

    made: Callable[[], None]
    lost: Callable[[Exception], None]


def run_solo(app: Celery, queue: str, listener: Listener, *, on_stop: Callable[[], None] = _nothing) -> int:
    """The exit status. Tasks run one by one in this thread, which must be the main one.

    SIGTERM and the first SIGINT let the task in hand end, and call `on_stop` from the signal's handler; the second
    SIGINT kills the process, also after this function has returned.
    """
    _stop_when_asked(on_stop, signal.SIG_DFL)
    return _run(app, queue, listener, pool="solo", concurrency=1)


def run_prefork(
    app: Celery,
    queue: str,
    listener: Listener,
    concurrency: int,
    *,
    on_child_start: Callable[[], None] = _nothing,
    on_stop: Callable[[], None] = _nothing,
) -> int:
    """Like run_solo, with tasks in `concurrency` processes, each of which calls `on_child_start` first: what it opens
    there is its own. A process that dies is replaced; one that is left behind by a dead parent dies as well (Linux).
    The second SIGINT kills these processes and ends in KeyboardInterrupt, as this one is in no native code."""

    def start_child(**_: Any) -> None:
        # There are no results, and a parent that stops may have ceased to look: usually it waits half a minute.
        billiard.pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = _RESULTS_WAIT
        on_child_start()

    signals.worker_process_init.connect(start_child, weak=False)
    _stop_when_asked(on_stop, _abandon)
    try:
        return _run(app, queue, listener, pool="prefork", concurrency=concurrency)
    except _AbandonedError:
        for child in billiard.active_children():
            os.kill(child.pid, signal.SIGKILL)
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _AbandonedError(BaseException):
    """A KeyboardInterrupt that Celery does not take for a wish to end tasks first."""


def _abandon(number: int, frame: FrameType | None) -> None:
    raise _AbandonedError


def _run(app: Celery, queue: str, listener: Listener, **pool: Any) -> int:
    signals.setup_logging.connect(_keep_logging, weak=False)
    app.steps["consumer"].update((_GiveNothingBack, _DropNonsense, _TellMade))
    worker = app.WorkController(
        hostname=f"{queue}-{uuid4().hex}@{socket.gethostname()}",
        queues=[queue],
        listener=listener,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        **pool,
    )
    with quieted(listener.lost):
        worker.start()
    return worker.exitcode or 0


class _GiveNothingBack(bootsteps.StartStopStep):  # type: ignore[misc]
    """A message that is in hand when the connection ends is not put back, as the database misses it soon: where the
    broker is away, kombu would write what it cannot put back, which is somebody's rows, into a file and to the log."""

    requires = (Tasks,)

    def start(self, consumer: Any) -> None:
        consumer.task_consumer.channel.qos.restore_at_shutdown = False


class _DropNonsense(bootsteps.StartStopStep):  # type: ignore[misc]
    """What is no message ends nothing but itself; kombu would let it end the worker."""

    requires = (Tasks,)

    def start(self, consumer: Any) -> None:
        handlers = consumer.task_consumer.channel.handlers
        handlers["BRPOP"] = partial(_read, handlers["BRPOP"])


class _TellMade(bootsteps.StartStopStep):  # type: ignore[misc]
    """Starts anew with each connection, once Redis has answered on it."""

    requires = (Tasks,)

    def __init__(self, consumer: Any, *, listener: Listener, **options: Any) -> None:
        super().__init__(consumer, **options)
        self._listener = listener

    def start(self, consumer: Any) -> None:
        self._listener.made()


def _read(receive: Callable[[], bool]) -> bool:
    try:
        return receive()
    except (LookupError, TypeError, ValueError):
        # Without the error, whose text holds what was received.
        _LOG.warning("Something in the broker's queue is no message, and was dropped.")
        raise Empty from None


def _keep_logging(**_: Any) -> None:
    """Celery sets up logging anew in every process, unless somebody says that it is done."""


def _stop_when_asked(on_stop: Callable[[], None], second: Callable[[int, FrameType | None], None] | Handlers) -> None:
    """Celery's own handlers, of which the second SIGINT loses the message in hand, belong to its command alone.

    `second` handles the second SIGINT. A handler of Python's waits until a task leaves its native code, and is not for
    a process that runs tasks itself.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, second)
        if state.should_stop is None:
            state.should_stop = 0
            on_stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
