import pytest

from pipeline.buckets import PlannedBatch
from pipeline.store.ledger import Ledger
from pipeline.store.open_work import Amount, encode_rate, open_work, work_of
from pipeline.store.queries import progress
from pipeline.store.records import BatchState, ShardState


@pytest.fixture
def make(engine):
    """A job of so many shards of four rows, the first of which is encoded, in two batches."""
    ledger = Ledger(engine)

    def make_one(name, shards=3, fleet=True):
        job = ledger.create_job(name, "{}", "print", "model", "input", fleet=fleet)
        for shard_no in range(shards):
            ledger.add_shard(job.id, shard_no, f"{shard_no}.parquet", 4 * shard_no, 4 * shard_no + 4)
        ledger.finish_cutting(job.id, 4 * shards)
        ledger.record_encoding(job.id, 0, [PlannedBatch((0, 1, 2), 30), PlannedBatch((3,), 7)], [], 0.5)
        return job

    return ledger, make_one


def test_what_waits_is_counted_by_state(engine, make):
    ledger, make_one = make
    job = make_one("night")
    claim = ledger.claim_batch(job.id, 1, "far/gpu.1", 60.0)
    assert ledger.claim_shard(job.id, 2, "far/tokenizer.1", 60.0) is not None
    work = open_work(engine)[job.id]
    assert work.shards == {
        ShardState.PENDING: Amount(1, 4),
        ShardState.ENQUEUED: Amount(),
        ShardState.LEASED: Amount(1, 4),
    }
    assert work.batches == {
        BatchState.PENDING: Amount(1, 3, 30),
        BatchState.ENQUEUED: Amount(),
        BatchState.LEASED: Amount(1, 1, 7),
    }
    assert (work.to_encode, work.to_answer) == (Amount(2, 8), Amount(2, 4, 37))
    assert work_of(engine, job.id, progress(engine, job.id)).begun_at == {}
    ledger.begin(claim)
    ((batch_no, begun_at),) = work_of(engine, job.id, progress(engine, job.id)).begun_at.items()
    assert (batch_no, begun_at > 0) == (1, True)
    same = work_of(engine, job.id, progress(engine, job.id))
    assert same.shards == work.shards
    assert {state: amount.parts for state, amount in same.batches.items()} == {"pending": 1, "enqueued": 0, "leased": 1}


def test_of_all_jobs_only_those_of_the_fleet_that_go_on(engine, make):
    ledger, make_one = make
    job = make_one("night")
    make_one("here", fleet=False)
    ledger.pause(make_one("paused").id)
    ledger.cancel(make_one("gone").id, lambda shard: [(row, str(row)) for row in range(shard.row_from, shard.row_to)])
    assert list(open_work(engine)) == [job.id]


def test_a_job_with_nothing_open_is_not_there(engine, make):
    ledger, _ = make
    ledger.create_job("night", "{}", "print", "model", "input", fleet=True)
    assert open_work(engine) == {}


def test_how_quickly_shards_were_encoded(engine, make):
    ledger, make_one = make
    job = make_one("night")
    assert encode_rate(engine, job.id) == pytest.approx(8.0)
    assert encode_rate(engine, ledger.create_job("new", "{}", "print", "model", "input").id) is None
