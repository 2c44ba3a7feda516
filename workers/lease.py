"""A claimed batch stays claimed for as long as its worker lives: a thread renews the lease while the model runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.errors import PipelineError
from pipeline.store.ledger import Ledger
from pipeline.store.records import Claim


@contextmanager
def kept(ledger: Ledger, claim: Claim, lease_s: float) -> Iterator[None]:
    """Renews every third of the lease. A lost lease is not announced: the fence refuses what comes too late."""
    done = threading.Event()

    def renew() -> None:
        held = True
        while held and not done.wait(lease_s / 3):
            try:
                held = ledger.renew(claim, lease_s)
            except PipelineError:
                continue

    thread = threading.Thread(target=renew, name=f"lease-{claim.batch_no}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
