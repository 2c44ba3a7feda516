"""A GPU worker's three hands: one takes batches in, one computes, one writes down, so that the device never waits."""

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Protocol, TypeVar

from pipeline.answering import NOBODY, Answered, Witness, closed
from pipeline.errors import DeviceLost, JobError, NotFoundError, PipelineError, RefusedError, TryAgain
from pipeline.messages import Payload, unpack
from pipeline.store.ledger import Ledger
from pipeline.store.records import Claim
from workers.holding import Holding
from workers.logs import about, in_context
from workers.tally import Tally

_T = TypeVar("_T")
_LOG = logging.getLogger(__name__)
#: Batches that are claimed and decoded while one is computed, and computed ones that wait to be recorded.
_WAITING = 1
#: Seconds between two looks whether to stop, and between two tries of what the moment refused, at first and at most.
_LOOK_S, _AGAIN_S, _LONGEST_S = 0.2, 1.0, 60.0
#: The exit status where a fault of the program ended one of the threads.
FAULT = 70


@dataclass(frozen=True, slots=True)
class Order:
    """A claimed batch; without a payload its rows are encoded again."""

    claim: Claim
    payload: Payload | None
    load_s: float


class Answers(Protocol):
    """Of one job, such as pipeline.answering.Answering."""

    def run(self, claim: Claim, payload: Payload | None, load_s: float = 0.0) -> Answered:
        """Without a payload the rows are encoded again."""


class Hands:
    """`receive` is called by whoever hears the broker; it returns once there is room for the next batch."""

    def __init__(
        self,
        owner: str,
        ledger: Ledger,
        answering: Callable[[str], Answers],
        tally: Tally,
        lease_s: float,
        witness: Witness = NOBODY,
    ) -> None:
        self._owner, self._ledger, self._answering, self._tally = owner, ledger, answering, tally
        self._lease_s, self._witness = lease_s, witness
        self._holding = Holding(ledger, lease_s)
        self._room = threading.Semaphore(_WAITING)
        self._orders: queue.Queue[Order | None] = queue.Queue()
        self._answered: queue.Queue[Answered | None] = queue.Queue(maxsize=_WAITING)
        self._stopping = threading.Event()
        self._trouble_s = _AGAIN_S

    @contextmanager
    def working(self) -> Iterator[None]:
        """Until the block ends: then the batch in hand is answered and recorded, and what waits is given back."""
        threads = [
            threading.Thread(target=in_context(partial(_or_exit, work)), name=work.__name__, daemon=True)
            for work in (self._compute, self._record)
        ]
        with self._holding.renewed():
            for thread in threads:
                thread.start()
            try:
                yield
            finally:
                self.stop()
                self._orders.put(None)
                for thread in threads:
                    thread.join()

    def stop(self) -> None:
        """Nothing more is begun. May be called from a signal's handler."""
        self._stopping.set()

    def receive(self, job_id: str, batch_no: int, message: bytes | None) -> None:
        """A message may come twice, late, or damaged: what the ledger does not give is dropped."""
        with about(job=job_id, batch=batch_no):
            self._receive(job_id, batch_no, message)

    def _receive(self, job_id: str, batch_no: int, message: bytes | None) -> None:
        while not self._room.acquire(timeout=_LOOK_S):
            if self._stopping.is_set():
                return
        order = None
        try:
            order = None if self._stopping.is_set() else self._order(job_id, batch_no, message)
        finally:
            # However it ends, also for a message that nobody of this program sent.
            if order is None:
                self._room.release()
        if order is not None:
            self._orders.put(order)

    def _order(self, job_id: str, batch_no: int, message: bytes | None) -> Order | None:
        claim = self._claim(job_id, batch_no)
        if claim is None:
            return None
        self._holding.add(claim)
        started = time.perf_counter()
        payload = _payload(claim, message)
        order = Order(claim, payload, time.perf_counter() - started)
        self._witness.taken(claim)
        return order

    def _claim(self, job_id: str, batch_no: int) -> Claim | None:
        """A database that does not answer costs the message: the dispatcher misses the batch and sends another."""
        try:
            return self._ledger.claim_batch(job_id, batch_no, self._owner, self._lease_s)
        except PipelineError as error:
            _LOG.warning("Batch %d of job %s was not claimed: %s", batch_no, job_id, error)
            return None

    def _compute(self) -> None:
        while (order := self._orders.get()) is not None:
            self._room.release()
            with _about(order.claim):
                if self._stopping.is_set() or not self._answer(order):
                    self._give_back(order.claim)
        self._answered.put(None)

    def _answer(self, order: Order) -> bool:
        """False where the batch is not begun: paused or cancelled meanwhile, or not to be answered on this machine."""
        claim = order.claim
        try:
            answering = self._answering(claim.job_id)
            if not self._until_written(lambda: self._ledger.begin(claim)):
                return False
            with self._tally.busy(claim):
                answered = answering.run(claim, order.payload, order.load_s)
        except DeviceLost:
            raise  # ends this process
        except JobError as error:
            self._pause(claim.job_id, str(error))
            return False
        except TryAgain as error:
            self._wait_out(claim, error)
            return False
        self._trouble_s = _AGAIN_S
        self._answered.put(answered)
        return True

    def _wait_out(self, claim: Claim, error: TryAgain) -> None:
        """A machine in trouble that takes one batch after the other would keep them from those that could answer."""
        _LOG.warning("Batch %d is given back in %.0f s: %s", claim.batch_no, self._trouble_s, error)
        with self._tally.blocked(str(error)):
            self._stopping.wait(self._trouble_s)
        self._trouble_s = min(2 * self._trouble_s, _LONGEST_S)

    def _pause(self, job_id: str, why: str) -> None:
        """One that ended meanwhile, or is gone, needs no pause."""
        with suppress(JobError):
            self._until_written(lambda: self._ledger.pause(job_id, f"On {self._owner.partition('/')[0]}: {why}"))

    def _record(self) -> None:
        while (answered := self._answered.get()) is not None:
            with _about(answered.claim):
                self._write(answered)

    def _write(self, answered: Answered) -> None:
        outcome = closed(answered, lambda *answers: bool(self._until_written(partial(self._ledger.finish, *answers))))
        if outcome.recorded:
            self._tally.count(len(outcome.completions), outcome.timing)
        else:
            _LOG.warning("Batch %d was answered too late; another's answers count.", answered.claim.batch_no)
        self._holding.drop(answered.claim)
        self._witness.closed(outcome)

    def _give_back(self, claim: Claim) -> None:
        self._holding.drop(claim)
        self._until_written(lambda: self._ledger.give_back(claim))

    def _until_written(self, write: Callable[[], _T]) -> _T | None:
        """Again and again while the database is away, or is not to be written to: the lease decides what still
        counts. One try when stopping. Raises RefusedError or NotFoundError, which are about the job."""
        while True:
            try:
                return write()
            except (RefusedError, NotFoundError):
                raise
            except PipelineError as error:
                if self._stopping.is_set():
                    _LOG.warning("Not written, as this process stops: %s", error)
                    return None
                time.sleep(_AGAIN_S)


def _about(claim: Claim) -> AbstractContextManager[None]:
    return about(job=claim.job_id, shard=claim.shard_no, batch=claim.batch_no)


def _payload(claim: Claim, message: bytes | None) -> Payload | None:
    if not isinstance(message, bytes):
        return None
    try:
        payload = unpack(message)
    except ValueError as error:
        _LOG.warning("The message of batch %d is damaged, so its rows are encoded again: %s", claim.batch_no, error)
        return None
    same = sorted(chain.from_iterable(prompt.row_ids for prompt in payload.prompts)) == sorted(claim.row_ids)
    return payload if same else None


def _or_exit(work: Callable[[], None]) -> None:
    """A thread that ends by a fault must not leave a process behind that looks alive; the leases free what it held."""
    try:
        work()
    except BaseException:
        _LOG.critical("A fault of the program ends this process.", exc_info=True)
        os._exit(FAULT)
