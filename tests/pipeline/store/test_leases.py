import time

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import IntegrityError

from pipeline.rows import BatchTiming, Status
from pipeline.store.integrity import check_integrity
from pipeline.store.ledger import Ledger
from pipeline.store.queries import active_owners, progress, stream_results
from pipeline.store.records import BatchState, Claim
from pipeline.store.transactions import reading

NOTHING = BatchTiming()


def test_the_lowest_batch_is_claimed_first(ledger, road):
    job = road.encoded_job(n_rows=6, shard_rows=3)
    assert ledger.claim(job.id, "a", 60) == Claim(job.id, 0, 0, (0, 1), fence=1, attempts=1)
    assert ledger.claim(job.id, "b", 60) == Claim(job.id, 1, 0, (2,), fence=1, attempts=1)
    assert ledger.claim(job.id, "a", 60) == Claim(job.id, 2, 1, (3, 4), fence=1, attempts=1)


def test_when_all_is_claimed_there_is_none(ledger, road):
    job = road.encoded_job(n_rows=2)
    assert ledger.claim(job.id, "a", 60)
    assert ledger.claim(job.id, "b", 60) is None


def test_only_a_running_job_is_claimed_from(ledger, road):
    job = ledger.create_job(None, "{}", "", "", "")
    ledger.add_shard(job.id, 0, "/shards/0", 0, 3)
    road.encode(job)
    assert ledger.claim(job.id, "a", 60) is None
    ledger.finish_cutting(job.id, 3)
    assert ledger.claim(job.id, "a", 60)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_claim_walks_over_open_batches_only(engine, ledger, road):
    job = road.encoded_job()
    sent = []
    event.listen(engine, "before_cursor_execute", lambda *told: sent.append((told[2], told[3])))
    assert ledger.claim(job.id, "a", 60)
    (claim,) = [statement for statement in sent if statement[0].startswith("UPDATE")]
    with reading(engine) as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {claim[0]}", claim[1])
        assert "SEARCH batches USING INDEX batches_open (job_id=?)" in [row.detail for row in plan]


def test_a_lease_that_ran_out_is_given_to_another(ledger, road, clock):
    job = road.encoded_job(n_rows=2)
    ledger.claim(job.id, "a", 60)
    clock.now += 60
    assert ledger.claim(job.id, "b", 60) is None
    clock.now += 1
    assert ledger.claim(job.id, "b", 60) == Claim(job.id, 0, 0, (0, 1), fence=2, attempts=2)


def test_a_renewed_lease_holds_on(ledger, road, clock):
    job = road.encoded_job(n_rows=2)
    claim = ledger.claim(job.id, "a", 60)
    clock.now += 50
    assert ledger.renew(claim, 60)
    clock.now += 50
    assert ledger.claim(job.id, "b", 60) is None


def test_a_zombie_can_neither_renew_nor_finish_nor_give_back(ledger, engine, road, clock):
    job = road.encoded_job(n_rows=2)
    zombie = ledger.claim(job.id, "a", 60)
    clock.now += 61
    holder = ledger.claim(job.id, "b", 60)
    assert not ledger.renew(zombie, 60)
    assert not ledger.finish(zombie, road.outcomes(zombie, errors=[0, 1]), NOTHING, "cpu")
    ledger.give_back(zombie)
    assert list(stream_results(engine, job.id)) == []
    assert ledger.finish(holder, road.outcomes(holder), NOTHING, "cpu")
    assert not ledger.finish(zombie, road.outcomes(zombie, errors=[0, 1]), NOTHING, "cpu")
    assert [row.status for row in stream_results(engine, job.id)] == [Status.OK, Status.OK]
    assert check_integrity(engine, job.id) == []


def test_a_batch_given_back_is_free_at_once(ledger, road):
    job = road.encoded_job(n_rows=2)
    claim = ledger.claim(job.id, "a", 60)
    ledger.give_back(claim)
    assert not ledger.finish(claim, road.outcomes(claim), NOTHING, "cpu")
    assert ledger.claim(job.id, "b", 60).attempts == 2


def test_finish_records_rows_and_sums(ledger, engine, road, clock):
    job = road.encoded_job(n_rows=3, shard_rows=3)
    claim = ledger.claim(job.id, "a", 60)
    completions = [road.outcome(1, Status.TRUNCATED), road.outcome(0, Status.ERROR)]
    timing = BatchTiming(9, 1, 2, 3, 4, 5, computed_tokens=60, reused_tokens=70, output_tokens=80)
    clock.now += 9
    assert ledger.finish(claim, completions, timing, "cuda:1")
    assert list(stream_results(engine, job.id)) == completions[::-1]
    told = progress(engine, job.id)
    assert (told.total, told.ok, told.truncated, told.error, told.finished) == (3, 0, 1, 1, 2)
    assert (told.computed_tokens, told.reused_tokens, told.output_tokens) == (60, 70, 80)
    assert told.seconds == {
        "encode": 1.5, "queue": 0, "load": 9, "prefix": 2, "prefill": 3, "decode": 4, "detokenize": 5, "record": 0
    }  # fmt: skip
    assert (told.started_at, told.finished_at) == (clock.now - 9, clock.now)
    with reading(engine) as connection:
        row = connection.execute(text("SELECT * FROM batches WHERE batch_no = 0")).one()
        assert (row.device, row.state, row.lease_owner, row.lease_until) == ("cuda:1", "done", None, None)
        assert row.worker == "a", "it held the lease"
        attempts = connection.execute(text("SELECT attempt, batch_no, created_at FROM results")).all()
        assert attempts == [(1, 0, clock.now)] * 2


@pytest.mark.parametrize("row_ids", [(0,), (0, 1, 2), (0, 0), (0, 1, 1), (0, 5), ()])
def test_completions_that_are_not_the_batchs_rows_are_refused(ledger, engine, road, row_ids):
    job = road.encoded_job(n_rows=2)
    claim = ledger.claim(job.id, "a", 60)
    with pytest.raises(ValueError, match="of batch 0 are not its rows, each once"):
        ledger.finish(claim, [road.outcome(row_id) for row_id in row_ids], NOTHING, "cpu")
    assert list(stream_results(engine, job.id)) == []
    assert progress(engine, job.id).batches[BatchState.LEASED] == 1


def test_no_row_of_a_batch_ends_as_cancelled(ledger, road):
    job = road.encoded_job(n_rows=2)
    claim = ledger.claim(job.id, "a", 60)
    completions = [road.outcome(0), road.outcome(1, Status.CANCELLED)]
    with pytest.raises(ValueError, match="ends as cancelled"):
        ledger.finish(claim, completions, NOTHING, "cpu")


def test_finish_is_all_or_nothing(ledger, engine, road):
    """The second row cannot be stored, so neither the first nor the batch's new state may stay."""
    job = road.encoded_job(n_rows=2)
    claim = ledger.claim(job.id, "a", 60)
    broken = [road.outcome(0), road.outcome(1)]
    object.__setattr__(broken[1], "key", None)
    with pytest.raises(IntegrityError, match=r"(?i)not.null"):
        ledger.finish(claim, broken, NOTHING, "cpu")
    assert list(stream_results(engine, job.id)) == []
    assert ledger.finish(claim, road.outcomes(claim), NOTHING, "cpu")
    assert check_integrity(engine, job.id) == []


def test_release_frees_what_ran_out_and_what_the_dead_hold(ledger, engine, road, clock):
    job = road.encoded_job(n_rows=9, shard_rows=3)
    ledger.claim(job.id, "slow", 10)
    ledger.claim(job.id, "dead", 1000)
    ledger.claim(job.id, "dead", 1000)
    kept = ledger.claim(job.id, "alive", 1000)
    assert active_owners(engine, job.id) == ["alive", "dead", "slow"]
    clock.now += 11
    assert ledger.release(job.id, lambda owner: owner == "dead") == 3
    assert active_owners(engine, job.id) == ["alive"]
    assert ledger.release(job.id, lambda owner: owner == "dead") == 0
    assert ledger.renew(kept, 60)
    assert [ledger.claim(job.id, "next", 60).batch_no for _ in range(3)] == [0, 1, 2]


def test_a_batch_is_claimed_by_its_name(ledger, road):
    job = road.encoded_job(n_rows=6, shard_rows=3)
    assert ledger.claim_batch(job.id, 2, "a", 60) == Claim(job.id, 2, 1, (3, 4), fence=1, attempts=1)
    assert ledger.claim_batch(job.id, 2, "b", 60) is None
    assert ledger.claim_batch(job.id, 9, "b", 60) is None
    assert ledger.claim_batch("no job", 0, "b", 60) is None


def test_a_named_batch_whose_lease_ran_out_is_given_to_another(ledger, road, clock):
    job = road.encoded_job(n_rows=2)
    zombie = ledger.claim_batch(job.id, 0, "a", 60)
    clock.now += 61
    assert ledger.claim_batch(job.id, 0, "b", 60) == Claim(job.id, 0, 0, (0, 1), fence=2, attempts=2)
    assert not ledger.begin(zombie)
    assert not ledger.finish(zombie, road.outcomes(zombie), NOTHING, "cpu")


def test_a_batch_of_a_job_that_is_still_cut_is_claimed_by_its_name_alone(ledger, road):
    job = ledger.create_job(None, "{}", "", "", "")
    ledger.add_shard(job.id, 0, "/shards/0", 0, 3)
    road.encode(job)
    assert ledger.claim(job.id, "a", 60) is None
    assert ledger.claim_batch(job.id, 0, "a", 60)


def test_only_what_is_held_and_goes_on_is_begun(ledger, road):
    job = road.encoded_job(n_rows=6)
    first, second, third = (ledger.claim(job.id, "a", 60) for _ in range(3))
    assert ledger.begin(first)
    ledger.give_back(second)
    assert not ledger.begin(second)
    ledger.pause(job.id)
    assert not ledger.begin(third)
    assert ledger.finish(first, road.outcomes(first), NOTHING, "cpu")
    ledger.unpause(job.id)
    assert ledger.begin(third)
    ledger.cancel(job.id, road.keys)
    assert not ledger.begin(third)


def test_all_that_a_worker_holds_is_renewed_at_once(ledger, road, clock):
    job, other = road.encoded_job(n_rows=4), road.encoded_job(n_rows=2)
    claims = [ledger.claim(each.id, "a", 60) for each in (job, other, job, job)]
    ledger.give_back(claims[2])
    clock.now += 50
    assert set(ledger.renew_all(claims, 60)) == {claims[0], claims[1], claims[3]}
    assert ledger.renew_all([], 60) == []
    clock.now += 50
    assert [ledger.claim(each.id, "b", 60) is None for each in (job, job, other)] == [False, True, True]


def test_all_that_a_dead_owner_holds_is_free(ledger, road):
    jobs = [road.encoded_job(n_rows=2), road.encoded_job(n_rows=2)]
    shards = road.job(n_rows=3)
    for job in jobs:
        assert ledger.claim(job.id, "dead", 60)
    assert ledger.claim_shard(shards.id, 0, "dead", 60)
    alive = ledger.claim(road.encoded_job(n_rows=2).id, "alive", 60)
    assert ledger.died("dead", "ended with status 1") == 3
    assert ledger.died("dead", "ended with status 1") == 0
    assert ledger.renew(alive, 60)
    assert ledger.claim_shard(shards.id, 0, "next", 60)
    assert all(ledger.claim(job.id, "next", 60) for job in jobs)


def test_the_time_in_the_queue_is_summed_up(ledger, engine, road, dispatch, clock):
    job = road.encoded_job(n_rows=2, fleet=True)
    dispatch.enqueue_batches(1)
    clock.now += 7
    claim = ledger.claim_batch(job.id, 0, "a", 60)
    clock.now += 100
    ledger.give_back(claim)
    clock.now += 100
    claim = ledger.claim_batch(job.id, 0, "a", 60)
    clock.now += 5
    ledger.give_back(claim)
    dispatch.enqueue_batches(1)
    clock.now += 2
    claim = ledger.claim_batch(job.id, 0, "a", 60)
    clock.now += 61
    assert ledger.claim_batch(job.id, 0, "b", 60)
    assert progress(engine, job.id).seconds["queue"] == 9


def test_a_clock_is_not_needed(engine, road):
    """The database's own is every machine's."""
    ledger = Ledger(engine)
    job = road.encoded_job(n_rows=2)
    claim = ledger.claim(job.id, "a", 60)
    assert ledger.renew(claim, 60)
    assert ledger.claim(job.id, "b", 60) is None
    assert ledger.finish(claim, road.outcomes(claim), NOTHING, "cpu")
    assert abs(progress(engine, job.id).finished_at - time.time()) < 60
