"""What a worker says of itself, at each moment of its work."""

from pipeline.rows import BatchTiming
from pipeline.store.records import Claim, WorkerState
from workers.tally import Tally

CLAIM = Claim(job_id="job", batch_no=7, shard_no=0, row_ids=(1, 2), fence=1, attempts=1)


def test_a_worker_that_just_started_is_idle():
    assert Tally().facts() == {
        "state": WorkerState.IDLE,
        "model": None,
        "job_id": None,
        "batch_no": None,
        "note": None,
        "batches": 0,
        "rows": 0,
        "tokens": 0,
        "busy_s": 0.0,
    }


def test_while_it_loads_it_tells_what_and_for_which_job():
    tally = Tally()
    with tally.loading("job", "a-model"):
        facts = tally.facts()
        assert (facts["state"], facts["model"], facts["job_id"]) == (WorkerState.LOADING, "a-model", "job")
    facts = tally.facts()
    assert (facts["state"], facts["model"], facts["job_id"]) == (WorkerState.IDLE, "a-model", None)


def test_while_it_computes_it_tells_at_what_and_afterwards_for_how_long():
    moments = iter([10.0, 12.5])
    tally = Tally(clock=lambda: next(moments))
    with tally.busy(CLAIM):
        facts = tally.facts()
        assert (facts["state"], facts["job_id"], facts["batch_no"]) == (WorkerState.BUSY, "job", 7)
    facts = tally.facts()
    assert (facts["state"], facts["batch_no"], facts["busy_s"]) == (WorkerState.IDLE, None, 2.5)


def test_only_what_is_recorded_counts_with_all_its_tokens():
    tally = Tally()
    with tally.busy(CLAIM):
        pass
    assert tally.facts()["batches"] == 0
    tally.count(2, BatchTiming(computed_tokens=10, reused_tokens=5, output_tokens=3))
    facts = tally.facts()
    assert (facts["batches"], facts["rows"], facts["tokens"]) == (1, 2, 18)
