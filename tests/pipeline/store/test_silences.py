"""Batches whose workers fell silent: nobody saw them die, and they may be alive."""

import pytest

from pipeline.buckets import PlannedBatch
from pipeline.rows import BatchTiming, Status
from pipeline.store.integrity import check_integrity
from pipeline.store.moments import moments
from pipeline.store.queries import stream_results
from pipeline.store.records import Claim

LEASE_S = 60.0
UNHEARD = (
    "No sign of life came of 4 workers, one after the other, while they were answering this row, until their leases "
    "had run out."
)


@pytest.fixture
def job(road):
    """One batch of rows 0 and 1, and one of row 2; of a fleet."""
    job = road.job(n_rows=3, shard_rows=2, fleet=True)
    road.encode(job, batch_rows=2)
    return job


@pytest.fixture
def silence(ledger, dispatch, clock, job):
    """A worker begins the batch and is heard no more; what it holds, as it thinks."""

    def silence(batch_no: int, owner: str = "worker") -> Claim:
        claim = ledger.claim_batch(job.id, batch_no, owner, LEASE_S)
        assert claim is not None
        assert ledger.begin(claim)
        clock.now += LEASE_S + 1
        assert dispatch.recover(LEASE_S).expired == 1
        return claim

    return silence


def errors(engine, job) -> dict[int, tuple[str, str]]:
    return {row.row_id: (row.error_type, row.error) for row in stream_results(engine, job.id, Status.ERROR)}


def test_a_batch_of_several_is_halved_at_once_as_that_costs_no_row(engine, road, silence, job):
    silence(0)
    silence(0)
    assert moments(engine, job.id, 2).half_of == 0
    assert check_integrity(engine, job.id) == []
    road.answer(job)
    assert errors(engine, job) == {}


def test_a_row_alone_is_given_out_again_until_four_fell_silent_at_it(engine, ledger, silence, job):
    for _ in range(3):
        silence(1)
    assert errors(engine, job) == {}
    silence(1)
    assert errors(engine, job) == {2: ("crash", UNHEARD)}
    assert ledger.claim_batch(job.id, 1, "worker", LEASE_S) is None
    assert check_integrity(engine, job.id) == []


def test_of_a_half_the_blame_of_the_whole_counts_once(engine, silence, job):
    for batch_no in (0, 0, 2, 2):
        silence(batch_no)
    assert errors(engine, job) == {}
    silence(2)
    assert errors(engine, job) == {0: ("crash", UNHEARD)}


def test_rows_of_one_prompt_are_as_a_row_alone(engine, ledger, road, dispatch, clock):
    job = road.job(n_rows=2, shard_rows=2, fleet=True)
    ledger.record_encoding(job.id, 0, [PlannedBatch((0, 1), 8, prompt_rows=(2,))], [], 0.5)
    for _ in range(4):
        assert errors(engine, job) == {}
        assert ledger.begin(ledger.claim_batch(job.id, 0, "worker", LEASE_S))
        clock.now += LEASE_S + 1
        dispatch.recover(LEASE_S)
    assert errors(engine, job) == {0: ("crash", UNHEARD), 1: ("crash", UNHEARD)}


def test_two_ends_that_were_seen_bury_a_row_whatever_the_silences(engine, ledger, dispatch, silence, job):
    for _ in range(2):
        silence(1)
        assert errors(engine, job) == {}
        assert ledger.begin(ledger.claim_batch(job.id, 1, "worker", LEASE_S))
        ledger.died("worker", "killed by signal 11 (SIGSEGV)")
    dispatch.recover(LEASE_S)
    (told,) = errors(engine, job).values()
    assert told[1].startswith("More than one process ended while it was answering this row. The last one: killed by")


def test_one_end_that_was_seen_is_told_beside_the_silences(engine, ledger, silence, job):
    assert ledger.begin(ledger.claim_batch(job.id, 1, "worker", LEASE_S))
    ledger.died("worker", "ended with status 3")
    for _ in range(4):
        silence(1)
    assert errors(engine, job) == {2: ("crash", f"{UNHEARD} One more process ended: ended with status 3.")}


def test_whoever_comes_too_late_lives_and_takes_the_blame_back(engine, ledger, road, silence, job):
    for _ in range(9):
        late = silence(1)
        assert not ledger.finish(late, road.outcomes(late), BatchTiming(), "cpu")
    assert errors(engine, job) == {}
    assert moments(engine, job.id, 1).crashes == 0
    road.answer(job)
    assert ledger.complete(job.id)
    assert check_integrity(engine, job.id) == []


def test_without_trust_in_leases_none_has_run_out(ledger, dispatch, clock, job):
    held = ledger.claim_batch(job.id, 1, "worker", LEASE_S)
    clock.now += LEASE_S + 1
    heard = []
    assert dispatch.recover(LEASE_S, lambda now: bool(heard.append(now))).expired == 0
    assert heard == [clock.now]
    assert ledger.renew(held, LEASE_S)
