import pytest

from pipeline.buckets import PlannedBatch
from pipeline.rows import Status
from pipeline.store.integrity import check_integrity
from pipeline.store.queries import list_shards, progress, stream_results
from pipeline.store.records import BatchState, ShardClaim, ShardRecord, ShardState

PLAN = [PlannedBatch((0, 2), 9)]


def test_shards_are_encoded_in_order(ledger, road):
    job = road.job(n_rows=4, shard_rows=3)
    first = ShardRecord(job.id, 0, "/shards/00000.parquet", 0, 3, ShardState.PENDING)
    assert ledger.next_unencoded_shard(job.id) == first
    ledger.record_encoding(job.id, 0, PLAN, [road.outcome(1, Status.ERROR)], 0.5)
    assert ledger.next_unencoded_shard(job.id).shard_no == 1
    ledger.record_encoding(job.id, 1, [PlannedBatch((3,), 4)], [], 0.5)
    assert ledger.next_unencoded_shard(job.id) is None


def test_encoding_leaves_batches_and_errors(ledger, engine, road):
    job = road.job(n_rows=6, shard_rows=3)
    assert ledger.record_encoding(job.id, 0, PLAN, [road.outcome(1, Status.ERROR)], 0.5) == [0]
    assert ledger.record_encoding(job.id, 1, [PlannedBatch((5,), 1), PlannedBatch((4, 3), 2)], [], 0.25) == [1, 2]
    assert list(stream_results(engine, job.id)) == [road.outcome(1, Status.ERROR)]
    told = progress(engine, job.id)
    assert (told.error, told.batches[BatchState.PENDING], told.seconds["encode"]) == (1, 3, 0.75)


def test_the_second_to_encode_a_shard_changes_nothing(ledger, engine, road):
    job = road.job(n_rows=3)
    ledger.record_encoding(job.id, 0, PLAN, [road.outcome(1, Status.ERROR)], 0.5, n_cut=1)
    before = progress(engine, job.id)
    assert ledger.record_encoding(job.id, 0, [PlannedBatch((0, 1, 2), 9)], [], 7.0, n_cut=3, n_neutralised=3) == []
    assert progress(engine, job.id) == before


def test_what_was_done_to_texts_is_counted_over_all_shards(ledger, engine, road):
    job = road.job(n_rows=6, shard_rows=3)
    ledger.record_encoding(job.id, 0, [PlannedBatch((0, 1, 2), 9)], [], 0.5, n_cut=2, n_neutralised=1)
    ledger.record_encoding(job.id, 1, [PlannedBatch((3, 4, 5), 9)], [], 0.5, n_cut=1, n_neutralised=2)
    told = progress(engine, job.id)
    assert (told.cut, told.neutralised) == (3, 3)


def test_batch_numbers_are_each_jobs_own(ledger, road):
    road.encoded_job()
    job = road.job(n_rows=3)
    assert ledger.record_encoding(job.id, 0, [PlannedBatch((0, 1, 2), 9)], [], 0.5) == [0]


@pytest.mark.parametrize(
    ("row_ids", "failed"),
    [((0, 2), []), ((0, 1, 2), [1]), ((0, 0, 1, 2), []), ((0, 1, 2, 3), []), ((), [])],
)
def test_an_encoding_that_is_not_the_shards_rows_is_refused(ledger, engine, road, row_ids, failed):
    job = road.job(n_rows=6, shard_rows=3)
    failures = [road.outcome(row_id, Status.ERROR) for row_id in failed]
    with pytest.raises(ValueError, match="of shard 0 are not its rows, each once"):
        ledger.record_encoding(job.id, 0, [PlannedBatch(row_ids, 9)], failures, 0.5)
    assert ledger.next_unencoded_shard(job.id).shard_no == 0
    assert list(stream_results(engine, job.id)) == []


def test_a_failure_is_an_error(ledger, road):
    job = road.job(n_rows=3)
    with pytest.raises(ValueError, match="another status than error"):
        ledger.record_encoding(job.id, 0, PLAN, [road.outcome(1, Status.OK)], 0.5)


def test_nothing_is_recorded_for_a_cancelled_job(ledger, engine, road):
    job = road.job(n_rows=3)
    ledger.cancel(job.id, road.keys)
    assert ledger.record_encoding(job.id, 0, PLAN, [road.outcome(1, Status.ERROR)], 0.5) == []
    assert {row.status for row in stream_results(engine, job.id)} == {Status.CANCELLED}


def test_a_shard_is_claimed_by_one_until_its_lease_runs_out(ledger, road, clock):
    job = road.job(n_rows=6, shard_rows=3)
    assert ledger.claim_shard(job.id, 1, "a", 60) == ShardClaim(job.id, 1, fence=1, attempts=1)
    assert ledger.claim_shard(job.id, 1, "b", 60) is None
    assert ledger.claim_shard(job.id, 7, "b", 60) is None
    clock.now += 61
    assert ledger.claim_shard(job.id, 1, "b", 60) == ShardClaim(job.id, 1, fence=2, attempts=2)


def test_a_shard_is_kept_by_whoever_renews_it(ledger, road, clock):
    job = road.job(n_rows=3)
    claim = ledger.claim_shard(job.id, 0, "a", 60)
    clock.now += 50
    assert ledger.renew_shard(claim, 60)
    clock.now += 50
    assert ledger.claim_shard(job.id, 0, "b", 60) is None
    clock.now += 11
    assert ledger.claim_shard(job.id, 0, "b", 60)
    assert not ledger.renew_shard(claim, 60)
    ledger.give_back_shard(claim)
    assert ledger.claim_shard(job.id, 0, "c", 60) is None


def test_a_shard_given_back_is_free_at_once(ledger, road):
    job = road.job(n_rows=3)
    for attempts in range(1, 6):
        claim = ledger.claim_shard(job.id, 0, "a", 60)
        assert claim.attempts == attempts
        ledger.give_back_shard(claim)


def test_shards_of_a_job_that_does_not_go_on_are_not_claimed(ledger, road):
    job = road.job(n_rows=6)
    held = ledger.claim_shard(job.id, 0, "a", 60)
    ledger.pause(job.id)
    assert ledger.claim_shard(job.id, 1, "a", 60) is None
    assert ledger.next_unencoded_shard(job.id) is None
    assert ledger.renew_shard(held, 60)
    ledger.unpause(job.id)
    ledger.cancel(job.id, road.keys)
    assert ledger.claim_shard(job.id, 1, "a", 60) is None
    assert not ledger.renew_shard(held, 60)
    ledger.revive(job.id)
    assert ledger.claim_shard(job.id, 0, "a", 60).fence == 3


def test_the_first_to_record_a_shard_counts_whoever_holds_it(ledger, engine, road, clock):
    job = road.job(n_rows=3)
    ledger.claim_shard(job.id, 0, "slow", 60)
    clock.now += 61
    holder = ledger.claim_shard(job.id, 0, "next", 60)
    planned = [PlannedBatch((2, 0), 9), PlannedBatch((1,), 9)]
    assert ledger.record_encoding(job.id, 0, planned, [], 0.5, tokens="/1.tokens") == [0, 1]
    assert ledger.record_encoding(job.id, 0, [PlannedBatch((0, 1, 2), 9)], [], 0.5, tokens="/2.tokens") == []
    assert not ledger.renew_shard(holder, 60)
    ledger.give_back_shard(holder)
    (shard,) = list_shards(engine, job.id)
    assert (shard.state, shard.tokens) == (ShardState.ENCODED, "/1.tokens")
    assert check_integrity(engine, job.id) == []
