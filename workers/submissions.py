"""A dispatcher's care for schedules: it looks at the clock, starts a process for each run that is due, and tells ends.

Both have threads of their own, so that neither a large table nor a slow hook holds up the fleet's work.
"""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from pipeline.errors import PipelineError
from pipeline.store.database import Database
from pipeline.store.ledger import Ledger
from pipeline.store.schedule_records import RunClaim
from pipeline.store.schedule_runs import ScheduleRuns
from pipeline.store.schedules import Schedules
from workers.keys import keys_of
from workers.notifier import Notifier
from workers.ticker import Ticker

_LOG = logging.getLogger(__name__)
#: Seconds between two looks, and those that a process has, on a busy machine, until it renews its lease by itself.
_EVERY_S, _START_S = 1.0, 60.0
#: Processes at once: each reads an input and a tokenizer, and most schedules come at the same time.
_MOST = 4


def make_ticker(database: Database, clock: Callable[[], float] | None = None) -> Ticker:
    ledger = Ledger(database, clock)

    def cancel(job_id: str) -> None:
        ledger.cancel(job_id, partial(keys_of, database))

    return Ticker(Schedules(database, clock), ScheduleRuns(database, clock), cancel)


class Submissions:
    """The processes that submit runs. One that dies is seen by its lease, and another goes on with the run."""

    def __init__(self, ticker: Ticker) -> None:
        self._ticker = ticker
        self._processes: list[subprocess.Popen[bytes]] = []

    def look(self) -> None:
        self._processes = [process for process in self._processes if process.poll() is None]
        for claim in self._ticker.tick(_START_S, most=_MOST - len(self._processes)):
            nowhere = subprocess.DEVNULL
            self._processes.append(subprocess.Popen(command(claim), stdin=nowhere, stdout=nowhere))


def command(claim: RunClaim) -> list[str]:
    """What submits a run in a process of its own."""
    return [sys.executable, "-m", "jobs", "schedule", "submit-run", claim.run_id, f"{claim.fence}", f"{claim.attempts}"]


@contextmanager
def caring(database: Database) -> Iterator[None]:
    """For schedules and notices, until the block ends."""
    submissions, notifier = Submissions(make_ticker(database)), Notifier(database, os.environ)

    def send() -> None:
        for trouble in notifier.send_due():
            _LOG.warning("A notice was not sent. %s", trouble)

    with ExitStack() as stack:
        stack.enter_context(_again_and_again("schedules", submissions.look))
        stack.enter_context(_again_and_again("notices", send))
        yield


@contextmanager
def _again_and_again(name: str, act: Callable[[], None]) -> Iterator[None]:
    """In a thread, whatever goes wrong: a database that is away comes back. One that is amid something is left to end
    with its process."""
    done = threading.Event()

    def go_on() -> None:
        while not done.wait(_EVERY_S):
            try:
                act()
            except PipelineError as error:
                _LOG.warning("%s", error)
            except Exception:
                _LOG.exception("The thread for %s met a fault of the program.", name)

    thread = threading.Thread(target=go_on, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(_EVERY_S)
