"""The embedded runner: one process walks a job's whole journey, over the same ledger that a fleet would use."""

import time
from collections.abc import Callable
from enum import StrEnum

from pipeline.errors import DeviceLost
from pipeline.journey import Journey
from pipeline.store.ledger import KeysOf, Ledger
from pipeline.store.records import Claim, JobState
from workers.lease import kept
from workers.process import Members, StopRequest

_WAIT_S = 0.2


class Outcome(StrEnum):
    """Why a run ended."""

    DONE = "done"
    STOPPED = "stopped"
    CANCELLED = "cancelled"


class LocalRunner:
    """Several may run on one job, here or in other processes: each takes what nobody else holds."""

    def __init__(
        self, job_id: str, journey: Journey, ledger: Ledger, members: Members, lease_s: float, keys_of: KeysOf
    ) -> None:
        """`keys_of` a shard is asked for where a row killed every process that was answering it."""
        self._job_id, self._journey, self._ledger = job_id, journey, ledger
        self._members, self._lease_s, self._keys_of = members, lease_s, keys_of

    def run(self, stop: StopRequest, state: Callable[[], JobState], on_change: Callable[[], None]) -> Outcome:
        """`state` asks for the job's present state; `on_change` is called whenever its figures have changed."""
        with self._members.joined(self._job_id) as owner, stop.listening():
            return self._run(owner, stop, state, on_change)

    def _run(
        self, owner: str, stop: StopRequest, state: Callable[[], JobState], on_change: Callable[[], None]
    ) -> Outcome:
        self._take_back()
        while not stop.asked:
            if self._step(owner):
                on_change()
            elif self._is_done(state):
                return Outcome.DONE
            elif state() is JobState.CANCELLED:
                return Outcome.CANCELLED
            else:
                self._take_back()
                time.sleep(_WAIT_S)
        return Outcome.DONE if self._is_done(state) else Outcome.STOPPED

    def _is_done(self, state: Callable[[], JobState]) -> bool:
        return self._ledger.complete(self._job_id) or state() is JobState.DONE

    def _take_back(self) -> None:
        """What dead processes held; what killed more than one of them is halved, down to the row at fault."""
        self._ledger.release(self._job_id, self._members.is_dead)
        self._ledger.bisect(self._job_id, self._keys_of)

    def _step(self, owner: str) -> bool:
        """Whether there was anything to do: batches before shards, so that few tokens wait in memory."""
        claim = self._ledger.claim(self._job_id, owner, self._lease_s)
        if claim is None:
            return self._journey.encode_next() or self._ledger.settle(self._job_id) > 0
        self._answer(claim)
        return True

    def _answer(self, claim: Claim) -> None:
        try:
            with kept(self._ledger.renew, claim, self._lease_s):
                self._journey.answer(claim)
        except DeviceLost:
            raise  # not given back: what is held by a process that died counts as what it died of
        except BaseException:
            self._ledger.give_back(claim)
            raise
