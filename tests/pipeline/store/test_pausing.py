"""A job of a fleet that is held: nothing of it is begun, and nothing of it is lost."""

import pytest

from pipeline.errors import RefusedError
from pipeline.rows import BatchTiming
from pipeline.store.integrity import check_integrity
from pipeline.store.queries import find_job
from pipeline.store.records import JobState


def test_nothing_of_a_paused_job_is_begun(ledger, engine, road, clock):
    job = road.encoded_job()
    held = ledger.claim(job.id, "a", 60)
    ledger.pause(job.id)
    assert (find_job(engine, job.id).paused_at, find_job(engine, job.id).error) == (clock.now, None)
    assert ledger.claim(job.id, "a", 60) is None
    assert ledger.claim_batch(job.id, 1, "a", 60) is None
    assert not ledger.begin(held)
    ledger.unpause(job.id)
    assert find_job(engine, job.id).paused_at is None
    assert ledger.claim(job.id, "a", 60).batch_no == 1


def test_the_first_reason_to_pause_stays(ledger, engine, road, clock):
    job = road.job()
    ledger.pause(job.id, "The disk was full.")
    paused_at = clock.now
    clock.now += 1
    ledger.pause(job.id)
    ledger.pause(job.id, "Something else was amiss.")
    assert (find_job(engine, job.id).paused_at, find_job(engine, job.id).error) == (paused_at, "The disk was full.")
    ledger.unpause(job.id)
    ledger.unpause(job.id)
    assert (find_job(engine, job.id).paused_at, find_job(engine, job.id).error) == (None, None)


def test_what_a_paused_job_has_in_the_queue_waits_in_the_ledger(ledger, engine, road, dispatch):
    job, unencoded = road.encoded_job(fleet=True), road.job(n_rows=3, fleet=True)
    dispatch.enqueue_batches(2)
    dispatch.enqueue_shards(1)
    for each in (job, unencoded):
        ledger.pause(each.id)
        assert check_integrity(engine, each.id) == []
        ledger.unpause(each.id)
    assert len(dispatch.enqueue_batches(9)) == 4
    assert len(dispatch.enqueue_shards(9)) == 1


@pytest.mark.parametrize("end", ["done", "cancelled"])
def test_a_job_that_has_ended_is_not_paused(ledger, road, end):
    job = road.encoded_job()
    if end == "done":
        road.answer(job)
        assert ledger.complete(job.id)
    else:
        ledger.cancel(job.id, road.keys)
    with pytest.raises(RefusedError, match=f'Job "{job.name}" is {end}; there is nothing to pause'):
        ledger.pause(job.id)


def test_a_paused_job_may_be_cancelled_and_is_revived_unpaused(ledger, engine, road):
    job = road.encoded_job()
    ledger.pause(job.id, "The disk was full.")
    ledger.cancel(job.id, road.keys)
    ledger.revive(job.id)
    assert find_job(engine, job.id).paused_at is None
    assert ledger.claim(job.id, "a", 60)


def test_a_paused_job_of_which_the_rest_was_answered_is_done(ledger, engine, road):
    job = road.encoded_job(n_rows=2)
    claim = ledger.claim(job.id, "a", 60)
    ledger.pause(job.id)
    assert ledger.finish(claim, road.outcomes(claim), BatchTiming(), "cpu")
    assert ledger.complete(job.id)
    assert (find_job(engine, job.id).state, find_job(engine, job.id).paused_at) == (JobState.DONE, None)
