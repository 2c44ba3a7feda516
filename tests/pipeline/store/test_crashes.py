"""Batches that kill their workers."""

import pytest

from pipeline.buckets import PlannedBatch
from pipeline.errors import InputError
from pipeline.rows import BatchTiming, Completion, Status
from pipeline.store.integrity import check_integrity
from pipeline.store.queries import find_job, progress, stream_results
from pipeline.store.records import BatchState, JobState

KILLED = "killed by signal 9 (SIGKILL), as happens when memory runs out"


@pytest.fixture
def job(road):
    """One batch of rows 0 to 3, and one of row 4."""
    job = road.job(n_rows=5, shard_rows=4)
    road.encode(job, batch_rows=4)
    return job


def crash(ledger, job, batch_no, owner="worker", what=KILLED):
    claim = ledger.claim_batch(job.id, batch_no, owner, 60)
    assert claim is not None
    assert ledger.begin(claim)
    assert ledger.died(owner, what) == 1


def test_a_batch_that_killed_a_worker_is_free_for_another(ledger, engine, road, job):
    crash(ledger, job, 0)
    assert ledger.bisect(job.id, road.keys) == (0, 0)
    assert ledger.claim_batch(job.id, 0, "other", 60).attempts == 2
    assert check_integrity(engine, job.id) == []


def test_after_two_it_is_given_to_nobody_and_halved(ledger, engine, road, job):
    crash(ledger, job, 0)
    crash(ledger, job, 0, "other")
    assert ledger.claim_batch(job.id, 0, "third", 60) is None
    assert ledger.bisect(job.id, road.keys) == (1, 0)
    assert ledger.bisect(job.id, road.keys) == (0, 0)
    claims = [ledger.claim_batch(job.id, batch_no, "third", 60) for batch_no in (2, 3)]
    assert [(claim.row_ids, claim.shard_no) for claim in claims] == [((0, 1), 0), ((2, 3), 0)]
    assert progress(engine, job.id).batches[BatchState.SPLIT] == 1
    assert check_integrity(engine, job.id) == []


def test_rows_of_one_prompt_are_halved_off_and_buried_together(ledger, engine, road):
    job = road.job(n_rows=6, shard_rows=6)
    planned = [PlannedBatch((0, 3, 4, 1, 2, 5), 30, prompt_rows=(3, 1, 2))]
    assert ledger.record_encoding(job.id, 0, planned, [], 0.5) == [0]
    deaths = 0
    while not ledger.complete(job.id):
        ledger.bisect(job.id, road.keys)
        while claim := ledger.claim(job.id, f"worker {deaths}", 60):
            assert ledger.begin(claim)
            if 2 in claim.row_ids:
                ledger.died(f"worker {deaths}", KILLED)
                deaths += 1
            else:
                assert ledger.finish(claim, road.outcomes(claim), BatchTiming(), "cpu")
    assert deaths == 4  # two of the three prompts, one of two of them, one of the one at fault
    told = {row.row_id: (row.key, row.status, row.error_type) for row in stream_results(engine, job.id)}
    assert [row_id for row_id, (_, status, _) in told.items() if status is Status.ERROR] == [2, 5]
    assert told[5] == ("k5", Status.ERROR, "crash")
    assert progress(engine, job.id).error == 2
    assert check_integrity(engine, job.id) == []


def test_a_deadly_row_is_found_and_all_others_are_answered(ledger, engine, road, job):
    deaths = 0
    while not ledger.complete(job.id):
        ledger.bisect(job.id, road.keys)
        while claim := ledger.claim(job.id, f"worker {deaths}", 60):
            assert ledger.begin(claim)
            if 2 in claim.row_ids:
                ledger.died(f"worker {deaths}", KILLED)
                deaths += 1
            else:
                assert ledger.finish(claim, road.outcomes(claim), BatchTiming(), "cpu")
    assert deaths == 4  # two of the batch of four, one of its half, one of the row alone
    told = {row.row_id: row for row in stream_results(engine, job.id)}
    assert told.pop(2) == Completion(
        row_id=2,
        key="k2",
        status=Status.ERROR,
        error_type="crash",
        error=f"More than one process ended while it was answering this row. The last one: {KILLED}.",
    )
    assert {row.status for row in told.values()} == {Status.OK}
    assert (progress(engine, job.id).ok, progress(engine, job.id).error) == (4, 1)
    assert progress(engine, job.id).batches[BatchState.DEAD] == 1
    assert check_integrity(engine, job.id) == []


def test_a_dead_row_is_retried_like_any_error(ledger, engine, road, job):
    crash(ledger, job, 1)
    crash(ledger, job, 1)
    assert ledger.bisect(job.id, road.keys) == (0, 1)
    assert ledger.retry_errors(job.id, 8) == 1
    assert check_integrity(engine, job.id) == []
    road.answer(job)
    assert ledger.complete(job.id)
    assert progress(engine, job.id).ok == 5
    assert check_integrity(engine, job.id) == []


def test_what_was_not_begun_is_not_blamed(ledger, job):
    for number in range(5):
        assert ledger.claim_batch(job.id, 0, f"worker {number}", 60)
        assert ledger.died(f"worker {number}", KILLED) == 1
    assert ledger.claim_batch(job.id, 0, "survivor", 60).attempts == 6


def test_what_is_answered_and_not_recorded_yet_is_not_blamed_for_the_next_ones_death(ledger, road):
    """A worker records one batch while it is at the next."""
    job = road.encoded_job(n_rows=12, shard_rows=12)
    answered, deadly = (ledger.claim(job.id, "gpu", 60) for _ in range(2))
    other = ledger.claim(job.id, "another", 60)
    assert ledger.begin(other)
    for claim in (answered, deadly):
        assert ledger.begin(claim)
    ledger.died("gpu", "killed")
    for claim in (answered, deadly):
        assert ledger.begin(ledger.claim_batch(job.id, claim.batch_no, "gpu", 60))
    ledger.died("gpu", "killed")
    ledger.died("another", "killed")
    assert ledger.bisect(job.id, lambda shard: []) == (1, 0)
    assert ledger.claim_batch(job.id, answered.batch_no, "gpu", 60) is not None
    assert ledger.claim_batch(job.id, deadly.batch_no, "gpu", 60) is None


def test_what_was_given_back_is_not_blamed(ledger, job):
    for _ in range(5):
        claim = ledger.claim_batch(job.id, 0, "worker", 60)
        assert ledger.begin(claim)
        ledger.give_back(claim)
        assert ledger.died("worker", KILLED) == 0
    assert ledger.claim_batch(job.id, 0, "survivor", 60)


def test_an_embedded_runner_that_is_gone_is_a_death(ledger, engine, road, job):
    for _ in range(2):
        assert ledger.begin(ledger.claim_batch(job.id, 1, "dead", 1000))
        assert ledger.release(job.id, lambda owner: owner == "dead") == 1
    assert ledger.bisect(job.id, road.keys) == (0, 1)
    (row,) = stream_results(engine, job.id)
    assert row.error.endswith("The last one: gone without a word.")


def test_halves_have_their_share_of_the_tokens(ledger, engine, road, dispatch, job):
    ledger.take_over(job.id, True)
    crash(ledger, job, 0)
    crash(ledger, job, 0)
    ledger.bisect(job.id, road.keys)
    bells = dispatch.enqueue_batches(9)
    assert [(bell.batch_no, bell.part, bell.shard_no) for bell in bells] == [(1, None, 1), (2, None, 0), (3, None, 0)]


def test_nothing_is_split_of_a_job_that_was_cancelled_or_paused(ledger, engine, road, job):
    crash(ledger, job, 0)
    crash(ledger, job, 0)
    ledger.pause(job.id)
    assert ledger.bisect(job.id, road.keys) == (0, 0)
    ledger.cancel(job.id, road.keys)
    assert ledger.bisect(job.id, road.keys) == (0, 0)
    assert check_integrity(engine, job.id) == []
    ledger.revive(job.id)
    assert ledger.bisect(job.id, road.keys) == (1, 0)
    assert check_integrity(engine, job.id) == []


def test_a_cancel_while_the_key_is_looked_up_wins(ledger, engine, road, job):
    crash(ledger, job, 1)
    crash(ledger, job, 1)

    def keys(shard):
        ledger.cancel(job.id, road.keys)
        return road.keys(shard)

    assert ledger.bisect(job.id, keys) == (0, 0)
    assert {row.status for row in stream_results(engine, job.id)} == {Status.CANCELLED}
    assert check_integrity(engine, job.id) == []


@pytest.fixture
def fleet_job(road):
    return road.encoded_job(n_rows=4, shard_rows=2, fleet=True)


def test_the_dispatcher_halves_and_buries(ledger, engine, dispatch, fleet_job):
    for _ in range(2):
        crash(ledger, fleet_job, 0)
    recovered = dispatch.recover(60)
    assert (recovered.split, recovered.dead) == (1, 0)
    crash(ledger, fleet_job, 2)
    recovered = dispatch.recover(60)
    assert (recovered.split, recovered.dead) == (0, 1)
    assert [(row.row_id, row.error_type) for row in stream_results(engine, fleet_job.id)] == [(0, "crash")]
    assert check_integrity(engine, fleet_job.id) == []


def test_the_dispatcher_leaves_embedded_jobs_to_their_runner(ledger, dispatch, clock, job):
    for _ in range(2):
        assert ledger.begin(ledger.claim_batch(job.id, 0, "worker", 60))
        clock.now += 61
    dispatch.recover(60)
    assert ledger.claim_batch(job.id, 0, "worker", 60) is None
    assert dispatch.recover(60).split == 0


def test_a_job_whose_deadly_row_cannot_be_named_waits_for_a_person(ledger, engine, dispatch, road, fleet_job):
    def keys(shard):
        raise InputError("The file /shards/00000.parquet is gone.")

    row = road.job(n_rows=1, fleet=True)
    road.encode(row)
    other = [road.encoded_job(fleet=True) for _ in range(2)][1]
    for job in (row, other):
        crash(ledger, job, 0)
        crash(ledger, job, 0)
    dispatch._keys_of = keys
    assert dispatch.recover(60).split == 1
    paused = find_job(engine, row.id)
    assert (paused.paused_at is None, paused.error) == (False, "The file /shards/00000.parquet is gone.")
    assert find_job(engine, other.id).paused_at is None
    assert dispatch.recover(60).dead == 0
    ledger.unpause(row.id)
    dispatch._keys_of = road.keys
    assert dispatch.recover(60).dead == 1
    assert dispatch.complete_jobs() == [row.id]
    assert find_job(engine, row.id).state is JobState.DONE


def test_a_shard_that_kills_three_tokenizers_pauses_its_job(ledger, engine, road, dispatch, clock):
    job = road.job(fleet=True)
    for _ in range(3):
        assert find_job(engine, job.id).paused_at is None
        assert ledger.claim_shard(job.id, 1, "tokenizer", 60)
        clock.now += 61
        assert dispatch.recover(60).expired == 1
    told = find_job(engine, job.id)
    assert told.paused_at == clock.now
    assert told.error.startswith(
        "Each process that was to encode the 3 rows of shard 1 died or fell silent, 3 in a row. Look"
    )
    assert ledger.claim_shard(job.id, 1, "tokenizer", 60) is None
    ledger.unpause(job.id)
    assert dispatch.recover(60).expired == 0
    assert find_job(engine, job.id).paused_at is None
    assert ledger.claim_shard(job.id, 1, "tokenizer", 60)
