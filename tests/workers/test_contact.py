"""What a worker that cannot reach its broker says of itself."""

import pytest

from pipeline.store.records import WorkerState
from pipeline.store.registry import News
from workers.contact import Contact

REFUSED = "The broker at redis://far:1/0 cannot be used just now: Refused."
IDLE = News(state=WorkerState.IDLE, job_id=None, note=None, rows=7)


@pytest.fixture
def contact():
    return Contact("redis://:secret@far:1/0")


def test_one_that_reaches_it_says_what_it_always_says(contact, caplog):
    contact.made()
    assert contact.told_in(IDLE) == IDLE
    assert caplog.messages == []


def test_one_that_does_not_is_blocked_until_it_does_again(contact, caplog):
    contact.lost(OSError("Refused."))
    contact.lost(OSError("Refused."))
    assert contact.told_in(IDLE) == {**IDLE, "state": WorkerState.BLOCKED, "note": REFUSED}
    contact.made()
    assert contact.told_in(IDLE) == IDLE
    assert caplog.messages == ["The broker can be used again."]


def test_what_it_has_in_hand_it_goes_on_with(contact):
    contact.lost(OSError("Refused."))
    busy = News(state=WorkerState.BUSY, job_id="j1")
    assert contact.told_in(busy) == {**busy, "note": REFUSED}


def test_another_trouble_that_it_tells_of_comes_first(contact):
    contact.lost(OSError("Refused."))
    assert contact.told_in(News(state=WorkerState.BLOCKED, note="The disk is full."))["note"] == "The disk is full."
