"""What a process works on stays its own for as long as it lives: a thread renews the lease meanwhile."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from pipeline.errors import PipelineError
from pipeline.store.records import Claim, ShardClaim
from pipeline.store.schedule_records import RunClaim

_Held = TypeVar("_Held", Claim, ShardClaim, RunClaim)


@contextmanager
def kept(renew_once: Callable[[_Held, float], bool], claim: _Held, lease_s: float) -> Iterator[None]:
    """Renews every third of the lease. A lost lease is not announced: the fence refuses what comes too late."""
    done = threading.Event()

    def renew() -> None:
        held = True
        while held and not done.wait(lease_s / 3):
            try:
                held = renew_once(claim, lease_s)
            except PipelineError:
                continue

    thread = threading.Thread(target=renew, name="lease-renewal", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
