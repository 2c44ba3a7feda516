"""What one process of a fleet holds stays its own for as long as it lives: one thread renews every lease at once."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.store.ledger import Ledger
from pipeline.store.records import Claim
from workers.logs import in_context

_LOG = logging.getLogger(__name__)


class Holding:
    """The claims of a process. A lost one is not announced: the fence refuses what comes too late."""

    def __init__(self, ledger: Ledger, lease_s: float) -> None:
        self._ledger, self._lease_s = ledger, lease_s
        self._claims: set[Claim] = set()
        self._lock, self._done = threading.Lock(), threading.Event()

    def add(self, claim: Claim) -> None:
        with self._lock:
            self._claims.add(claim)

    def drop(self, claim: Claim) -> None:
        with self._lock:
            self._claims.discard(claim)

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Every third of the lease."""
        thread = threading.Thread(target=in_context(self._renew), name="leases", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join()

    def _renew(self) -> None:
        while not self._done.wait(self._lease_s / 3):
            with self._lock:
                held = list(self._claims)
            try:
                kept = set(self._ledger.renew_all(held, self._lease_s)) if held else set()
            except Exception as error:
                # Whatever it is: a worker whose leases nobody renews works for nothing.
                _LOG.warning("Leases could not be renewed: %s", error)
                continue
            with self._lock:
                self._claims -= set(held) - kept
