import sqlite3
import threading
import time
from dataclasses import replace

import pytest

from pipeline.settings import Settings
from pipeline.store.database import open_database
from pipeline.store.ledger import Ledger
from workers.lease import kept

LEASE_S = 0.3


@pytest.fixture
def claim(desk):
    desk.encode_all()
    return desk.ledger.claim(desk.job.id, "me", LEASE_S)


def lease_until(desk):
    with sqlite3.connect(desk.home / "pipeline.db") as connection:
        (moment,) = connection.execute("SELECT lease_until FROM batches WHERE batch_no = 0").fetchone()
    connection.close()
    return moment


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("lease-")]


def eventually(is_so):
    """Waits for what takes a third of a lease; a minute is for a very busy machine."""
    deadline = time.monotonic() + 60
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.01)
    return is_so()


def test_a_lease_is_renewed_while_the_block_runs(desk, claim):
    first = lease_until(desk)
    with kept(desk.ledger.renew, claim, LEASE_S):
        assert eventually(lambda: lease_until(desk) > first)
        second = lease_until(desk)
        assert eventually(lambda: lease_until(desk) > second)
    assert threads() == []


def test_a_block_that_fails_ends_the_renewals(desk, claim):
    with pytest.raises(ZeroDivisionError), kept(desk.ledger.renew, claim, LEASE_S):
        1 / (len(threads()) - 1)
    assert threads() == []


def test_a_lost_lease_is_not_renewed_any_more(desk, claim):
    with kept(desk.ledger.renew, replace(claim, fence=claim.fence - 1), LEASE_S):
        assert eventually(lambda: threads() == [])


def test_a_finished_batch_is_not_renewed_any_more(desk, claim, walk):
    with kept(desk.ledger.renew, claim, LEASE_S):
        assert walk().answer(claim)
        assert eventually(lambda: threads() == [])
    assert lease_until(desk) is None


def test_a_locked_database_does_not_end_the_renewals(desk, claim):
    impatient = open_database(Settings.from_environment({"PIPELINE_HOME": str(desk.home)}), 0.01)
    other = sqlite3.connect(desk.home / "pipeline.db", isolation_level=None)
    first = lease_until(desk)
    other.execute("BEGIN IMMEDIATE")
    with kept(Ledger(impatient).renew, claim, LEASE_S):
        time.sleep(LEASE_S)
        assert lease_until(desk) == first
        assert len(threads()) == 1
        other.execute("ROLLBACK")
        assert eventually(lambda: lease_until(desk) > first)
    other.close()
    impatient.dispose()
