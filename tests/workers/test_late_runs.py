"""Runs that were recorded or begun in time and come to no job in time: grace holds until there is one."""

import pytest

from pipeline.store.notices import Notices
from pipeline.store.schedule_records import Event, Overlap, RunState
from tests.workers.nights import DAY, HOUR, KINDS, LEASE_S

LATE = "It could not be started within its grace time."


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_whose_machine_went_down_before_there_was_a_job_is_skipped_beyond_its_grace_time(nights):
    nights.add("0 2 2 6 *", grace_s=HOUR)
    nights.at("2027-06-02T02:00")
    (dead,) = nights.tick()
    nights.now += HOUR
    (again,) = nights.tick()
    assert again.run_id == dead.run_id
    nights.now += LEASE_S
    assert nights.tick() == []
    assert (nights.states(), nights.notes()) == ([("02 02:00", RunState.SKIPPED)], [LATE])
    assert not nights.runs.renew(again, LEASE_S)
    notices = Notices(nights.database, nights.clock)
    notice = notices.claim(LEASE_S)
    assert notice is not None
    assert (notice.event, notice.run_id) == (Event.SKIPPED, dead.run_id)
    assert notices.claim(LEASE_S) is None


def test_so_is_one_that_was_put_off_too_long_and_says_why(nights):
    nights.add("0 2 2 6 *", grace_s=HOUR)
    nights.at("2027-06-02T02:50")
    nights.runs.postpone(nights.tick()[0], 16 * 60, "The disk is full.")
    nights.now += 16 * 60
    assert nights.tick() == []
    assert nights.notes() == [f"{LATE} The disk is full."]


def test_one_that_has_its_job_is_gone_on_with_however_late(nights):
    nights.add("0 2 2 6 *", grace_s=HOUR)
    nights.at("2027-06-02T02:00")
    (dead,) = nights.tick()
    nights.ledger.create_job("reviews", "{}", "", "", "", run=dead)
    nights.now += 3 * DAY
    assert [claim.run_id for claim in nights.tick()] == [dead.run_id]


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_queue_grace_begins_when_the_run_before_is_over(nights):
    nights.add(grace_s=HOUR, overlap=Overlap.QUEUE)
    nights.at("2027-06-02T02:00")
    job = nights.submit(nights.tick()[0])
    for _ in range(3):
        nights.now += DAY
        assert nights.tick() == []
    nights.now += 2 * HOUR
    nights.ledger.complete(job.id)
    nights.now += HOUR
    (second,) = nights.tick()
    assert nights.run(second).job_name == "reviews-2027-06-03"
    nights.runs.end(second, RunState.DONE)
    nights.now += HOUR + 1
    assert nights.tick() == []
    assert [state for _, state in nights.states()] == [RunState.DONE, RunState.DONE, RunState.SKIPPED, RunState.SKIPPED]
