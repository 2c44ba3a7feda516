"""Runs of a schedule that overlap, die, fail or are put off: each has one job at most."""

import pytest

from pipeline.errors import RefusedError
from pipeline.store.notices import Notices
from pipeline.store.queries import find_job, list_jobs
from pipeline.store.records import JobState
from pipeline.store.schedule_records import Event, Overlap, RunState
from pipeline.store.schedule_runs import NewRun
from tests.workers.nights import DAY, HOUR, KINDS, LEASE_S, SPEC


def test_while_the_run_before_is_not_over_the_new_one_is_skipped(nights):
    nights.add()
    nights.now += 15 * HOUR
    nights.submit(nights.tick()[0])
    nights.now += DAY
    assert nights.tick() == []
    assert nights.states()[1] == ("03 02:00", RunState.SKIPPED)
    assert nights.notes()[1] == "The run before it, reviews-2027-06-02, was not over."


def test_or_it_waits_in_a_queue(nights):
    nights.add(overlap=Overlap.QUEUE)
    nights.now += 15 * HOUR
    job = nights.submit(nights.tick()[0])
    nights.now += DAY
    assert nights.tick() == []
    assert nights.states()[1] == ("03 02:00", RunState.DUE)
    nights.ledger.complete(job.id)
    (claim,) = nights.tick()
    assert nights.run(claim).job_name == "reviews-2027-06-03"


@pytest.mark.parametrize("kind", KINDS)
def test_or_takes_the_place_of_the_old_one(nights):
    nights.add(overlap=Overlap.CANCEL)
    nights.now += 15 * HOUR
    old = nights.submit(nights.tick()[0])
    nights.now += DAY
    assert len(nights.tick()) == 1
    assert [state for _, state in nights.states()] == [RunState.CANCELLED, RunState.BEGUN]
    assert find_job(nights.database, old.id).state is JobState.CANCELLED


@pytest.mark.parametrize("kind", KINDS)
def test_where_the_ticker_dies_before_it_cancels_the_old_job_no_other_is_begun_until_one_does(nights):
    nights.add(overlap=Overlap.CANCEL)
    nights.now += 15 * HOUR
    old = nights.submit(nights.tick()[0])
    schedule = nights.schedules.find("night")
    nights.now += DAY
    nights.runs.record(schedule, [NewRun(schedule.next_at, "new")], schedule.next_at + DAY)
    (overlapped,) = nights.runs.overlapped()
    assert nights.runs.supersede(overlapped, "") == old.id
    assert nights.runs.claim_all(LEASE_S) == []  # of one that had looked for what is overlapped before
    assert find_job(nights.database, old.id).state is JobState.RUNNING
    (claim,) = nights.tick()
    assert find_job(nights.database, old.id).state is JobState.CANCELLED
    nights.submit(claim)
    nights.ledger.revive(old.id)  # a person may
    nights.tick()
    assert find_job(nights.database, old.id).state is JobState.RUNNING


def test_a_run_that_was_being_submitted_is_cancelled_too_and_makes_no_job(nights):
    nights.add(overlap=Overlap.CANCEL)
    nights.now += 15 * HOUR
    (old,) = nights.tick()
    nights.now += DAY - 1
    assert nights.runs.renew(old, 60.0)
    nights.now += 1
    assert len(nights.tick()) == 1
    with pytest.raises(RefusedError, match="cancelled"):
        nights.submit(old)
    assert list_jobs(nights.database) == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_dies_between_the_record_and_the_job_is_begun_again_and_its_ghost_makes_no_job(nights):
    nights.add()
    nights.now += 15 * HOUR
    (dead,) = nights.tick()
    nights.now += LEASE_S - 1
    assert nights.tick() == []
    nights.now += 1
    (claim,) = nights.tick()
    assert (claim.run_id, claim.attempts) == (dead.run_id, 2)
    assert not nights.runs.renew(dead, 60.0)
    with pytest.raises(RefusedError, match="another process"):
        nights.submit(dead)
    job = nights.submit(claim)
    assert [found.id for found in list_jobs(nights.database)] == [job.id]


def test_what_dies_once_there_is_a_job_is_gone_on_with_and_gets_no_second_one(nights):
    nights.add()
    nights.now += 15 * HOUR
    (dead,) = nights.tick()
    job = nights.ledger.create_job("reviews", SPEC, "", "", "", run=dead)
    with pytest.raises(RefusedError):
        nights.ledger.create_job("reviews again", SPEC, "", "", "", run=dead)
    nights.now += LEASE_S
    (claim,) = nights.tick()
    assert nights.run(claim).job_id == job.id
    assert [found.name for found in list_jobs(nights.database)] == ["reviews"]


def test_a_moments_fault_puts_a_run_off(nights):
    nights.add()
    nights.now += 15 * HOUR
    nights.runs.postpone(nights.tick()[0], 90.0, "The disk is full.")
    nights.now += 89
    assert nights.tick() == []
    nights.now += 1
    assert [claim.attempts for claim in nights.tick()] == [2]


def test_one_that_a_person_stops_is_due_at_once_and_that_is_no_try(nights):
    nights.add()
    nights.now += 15 * HOUR
    for _ in range(2):
        (claim,) = nights.tick()
        assert claim.attempts == 1
        nights.runs.stop(claim)
    assert nights.notes() == ["It was stopped; the next look at the clock goes on with it."]


def test_a_job_that_is_deleted_holds_up_no_later_night(nights):
    nights.add()
    nights.now += 15 * HOUR
    (claim,) = nights.tick()
    job = nights.ledger.create_job("reviews", SPEC, "", "", "", fleet=True, run=claim)
    nights.runs.hand_over(claim)
    nights.ledger.discard(job.id)
    nights.now += DAY
    assert len(nights.tick()) == 1
    assert nights.notes()[0] == "Its job was deleted before it was done."


def test_a_name_that_is_taken_gets_a_number(nights):
    nights.add("0 2,3 * * *")
    nights.ledger.create_job("reviews-2027-06-02", "{}", "", "", "")
    names = []
    for _ in range(2):
        nights.now += 14.5 * HOUR if not names else HOUR
        (claim,) = nights.tick()
        names.append(nights.run(claim).job_name)
        nights.runs.end(claim, RunState.DONE)
    assert names == ["reviews-2027-06-02-2", "reviews-2027-06-02-3"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_failed_is_done_once_a_person_saw_to_its_job(nights):
    nights.add()
    nights.now += 15 * HOUR
    (claim,) = nights.tick()
    job = nights.ledger.create_job("reviews", SPEC, "", "", "", run=claim)
    nights.runs.end(claim, RunState.FAILED, "The model does not load.")
    nights.tick()
    assert nights.states() == [("02 02:00", RunState.FAILED)]
    nights.ledger.finish_cutting(job.id, 0)
    nights.ledger.complete(job.id)
    nights.tick()
    assert (nights.states(), nights.notes()) == ([("02 02:00", RunState.DONE)], [None])


@pytest.mark.parametrize("kind", KINDS)
def test_where_a_job_has_a_file_the_run_is_not_over_before_somebody_has_written_it(nights):
    spec = '{"output": "reviews.parquet", "notify": {"command": "true"}}'
    nights.add()
    nights.now += 15 * HOUR
    (claim,) = nights.tick()
    job = nights.ledger.create_job("reviews", spec, "", "", "", fleet=True, run=claim)
    nights.ledger.finish_cutting(job.id, 0)
    nights.runs.hand_over(claim)
    nights.ledger.pause(job.id, "All workers died.")
    nights.ledger.unpause(job.id)
    nights.ledger.complete(job.id)
    notices = Notices(nights.database, nights.clock)
    assert [getattr(notices.claim(LEASE_S), "event", None) for _ in range(2)] == [Event.FAILED, None]
    assert nights.ticker.tick(LEASE_S, most=0) == []
    assert (nights.states(), notices.claim(LEASE_S)) == ([("02 02:00", RunState.DUE)], None)
    nights.now += DAY - 1
    (claim,) = nights.tick()
    run = nights.run(claim)
    assert (run.state, run.job_id, run.attempts) == (RunState.BEGUN, job.id, 1)
    nights.runs.end(claim, RunState.DONE)
    assert [getattr(notices.claim(LEASE_S), "event", None) for _ in range(2)] == [Event.FAILED, Event.DONE]


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_is_taken_before_the_job_is_made_gets_a_number_too(nights):
    nights.add()
    nights.now += 15 * HOUR
    (claim,) = nights.tick()
    assert nights.runs.rename(claim) == nights.run(claim).job_name == "reviews-2027-06-02-2"
    nights.now += LEASE_S
    nights.tick()
    with pytest.raises(RefusedError, match="another process"):
        nights.runs.rename(claim)
