from dataclasses import replace

import pytest
from sqlalchemy import text

from pipeline.rows import BatchTiming, Sample, TokenLogprob
from pipeline.store.integrity import check_integrity
from pipeline.store.transactions import writing


@pytest.fixture
def done_job(ledger, road):
    job = road.encoded_job(n_rows=6, shard_rows=3, failed=[1])
    road.answer(job, errors=[5])
    assert ledger.complete(job.id)
    return job


FAULTS = {
    "DELETE FROM results WHERE row_id = 2": [
        "The sums say 4 rows are ok, the results 3.",
        "1 rows are lost: they have no result and are in no open batch: 2.",
    ],
    "UPDATE batches SET n_ok = n_ok + 2 WHERE batch_no = 0": [
        "The sums say 6 rows are ok, the results 4.",
        "The job is done with 8 results for 6 rows.",
    ],
    "UPDATE batches SET state = 'leased', finished_at = NULL WHERE batch_no = 1": [
        "2 rows are answered and yet in an open batch: 3, 4.",
        "The job is done, but 1 batches are leased.",
        "1 batches are marked as enqueued or leased where they are not, or the other way round.",
    ],
    "UPDATE shards SET enqueued_at = 1.0 WHERE shard_no = 0": [
        "1 shards are marked as enqueued or leased where they are not, or the other way round.",
    ],
    "UPDATE results SET row_id = 77 WHERE row_id = 0": [
        "1 rows are lost: they have no result and are in no open batch: 0.",
        "1 rows are not of the encoded shards: 77.",
    ],
    "UPDATE shards SET row_from = 4 WHERE shard_no = 1": [
        "Shard 1 starts at row 4 where row 3 comes next.",
        "1 rows are not of the encoded shards: 3.",
    ],
    "UPDATE jobs SET n_rows = 7": [
        "The shards end at row 6, the job has 7.",
        "The job is done with 6 results for 7 rows.",
    ],
}


def test_a_job_that_went_well_has_no_faults(engine, done_job):
    assert check_integrity(engine, done_job.id) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_told(engine, done_job, fault):
    with writing(engine) as connection:
        connection.execute(text(fault))
    assert check_integrity(engine, done_job.id) == FAULTS[fault]


def test_a_row_in_two_open_batches_is_told(engine, road):
    job = road.encoded_job(n_rows=6)
    with writing(engine) as connection:
        connection.execute(
            text("UPDATE batches SET row_ids = (SELECT row_ids FROM batches WHERE batch_no = 0) WHERE batch_no = 2")
        )
    assert check_integrity(engine, job.id) == [
        "2 rows are lost: they have no result and are in no open batch: 3, 4.",
        "2 rows are in two open batches: 0, 1.",
    ]


@pytest.fixture
def sampled_job(ledger, road):
    """Rows 0 to 3 with two samples and logprobs, of which row 2 is an error."""
    job = road.encoded_job(n_rows=4, shard_rows=4)
    ledger.restate(job.id, '{"n": 2, "logprobs": 0}')
    logprobs = (TokenLogprob(4, "a", -0.5),)
    samples = (Sample("a", "stop", 1, logprobs), Sample("b", "stop", 1, logprobs))
    while claim := ledger.claim(job.id, "worker", 60.0):
        outcomes = [
            outcome if outcome.output is None else replace(outcome, samples=samples, logprobs=logprobs)
            for outcome in road.outcomes(claim, errors=[2])
        ]
        assert ledger.finish(claim, outcomes, BatchTiming(), "cpu")
    assert ledger.complete(job.id)
    return job


ODD_SAMPLES = "recorded with more samples than they should have, or fewer"
ODD_LOGPROBS = "recorded without logprobs that were asked for, or with some that were not"


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("UPDATE results SET samples = NULL WHERE row_id = 1", [f"1 rows are {ODD_SAMPLES}: 1."]),
        ("UPDATE results SET logprobs = NULL WHERE row_id = 3", [f"1 rows are {ODD_LOGPROBS}: 3."]),
        (
            "UPDATE results SET samples = (SELECT samples FROM results WHERE row_id = 0) WHERE row_id = 2",
            [f"1 rows are {ODD_SAMPLES}: 2."],
        ),
        ('UPDATE jobs SET spec_json = \'{"n": 3, "logprobs": 5}\'', [f"3 rows are {ODD_SAMPLES}: 0, 1, 3."]),
        (
            "UPDATE jobs SET spec_json = '{}'",
            [f"3 rows are {ODD_SAMPLES}: 0, 1, 3.", f"3 rows are {ODD_LOGPROBS}: 0, 1, 3."],
        ),
    ],
)
def test_rows_have_what_was_asked_for(engine, sampled_job, fault, told):
    assert check_integrity(engine, sampled_job.id) == []
    with writing(engine) as connection:
        connection.execute(text(fault))
    assert check_integrity(engine, sampled_job.id) == told
