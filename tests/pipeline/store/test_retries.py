import pytest

from pipeline.errors import RefusedError
from pipeline.rows import Status
from pipeline.store.integrity import check_integrity
from pipeline.store.queries import find_job, progress, stream_results
from pipeline.store.records import BatchState, JobState


@pytest.fixture
def failed_job(ledger, road):
    """Done, with six of nine rows in error: row 1 at encoding, the others in their batches."""
    job = road.encoded_job(n_rows=9, shard_rows=3, failed=[1])
    road.answer(job, errors=[0, 3, 4, 5, 8])
    assert ledger.complete(job.id)
    return job


def test_error_rows_go_into_new_batches_of_their_shard(ledger, engine, failed_job):
    assert ledger.retry_errors(failed_job.id, 2) == 6
    claims = [ledger.claim(failed_job.id, "worker", 60) for _ in range(4)]
    assert [(claim.batch_no, claim.shard_no, claim.row_ids) for claim in claims] == [
        (5, 0, (0, 1)), (6, 1, (3, 4)), (7, 1, (5,)), (8, 2, (8,))
    ]  # fmt: skip
    assert ledger.claim(failed_job.id, "worker", 60) is None


def test_sums_stay_right_from_retry_to_end(ledger, engine, road, failed_job):
    assert (progress(engine, failed_job.id).ok, progress(engine, failed_job.id).error) == (3, 6)
    ledger.retry_errors(failed_job.id, 2)
    assert (progress(engine, failed_job.id).ok, progress(engine, failed_job.id).error) == (3, 0)
    assert (find_job(engine, "last").state, find_job(engine, "last").finished_at) == (JobState.RUNNING, None)
    assert check_integrity(engine, failed_job.id) == []
    road.answer(failed_job, errors=[5])
    assert ledger.complete(failed_job.id)
    assert (progress(engine, failed_job.id).ok, progress(engine, failed_job.id).error) == (8, 1)
    assert check_integrity(engine, failed_job.id) == []
    assert ledger.retry_errors(failed_job.id, 2) == 1
    assert check_integrity(engine, failed_job.id) == []


def test_answers_stay(ledger, engine, failed_job):
    ledger.retry_errors(failed_job.id, 2)
    assert [(row.row_id, row.status) for row in stream_results(engine, failed_job.id)] == [
        (row_id, Status.OK) for row_id in (2, 6, 7)
    ]


def test_without_errors_nothing_changes(ledger, engine, road):
    job = road.encoded_job()
    road.answer(job)
    ledger.complete(job.id)
    before = find_job(engine, job.id), progress(engine, job.id)
    assert ledger.retry_errors(job.id, 2) == 0
    assert (find_job(engine, job.id), progress(engine, job.id)) == before


def test_a_running_job_goes_on_beside_its_retries(ledger, engine, road):
    job = road.encoded_job(n_rows=6, failed=[1])
    road.answer(job, batches=1, errors=[0])
    claim = ledger.claim(job.id, "worker", 60)
    assert ledger.retry_errors(job.id, 5) == 2
    ledger.give_back(claim)
    road.answer(job)
    assert ledger.complete(job.id)
    assert progress(engine, job.id).ok == 6
    assert check_integrity(engine, job.id) == []


def test_cancelling_and_reviving_a_retry_keeps_the_sums(ledger, engine, road, failed_job):
    ledger.retry_errors(failed_job.id, 2)
    road.answer(failed_job, batches=1)
    assert ledger.cancel(failed_job.id, road.keys) == 4
    assert check_integrity(engine, failed_job.id) == []
    ledger.revive(failed_job.id)
    assert progress(engine, failed_job.id).batches[BatchState.PENDING] == 3
    road.answer(failed_job)
    assert ledger.complete(failed_job.id)
    assert progress(engine, failed_job.id).ok == 9
    assert check_integrity(engine, failed_job.id) == []


def test_a_cancelled_job_is_not_retried(ledger, road):
    job = road.encoded_job(failed=[1])
    ledger.cancel(job.id, road.keys)
    with pytest.raises(RefusedError, match="is cancelled; let it go on"):
        ledger.retry_errors(job.id, 2)


def test_a_batch_holds_fewer_rows_where_each_has_several_samples(ledger, road):
    job = road.encoded_job(n_rows=9, shard_rows=9)
    ledger.restate(job.id, '{"n": 4}')
    road.answer(job, errors=range(9))
    ledger.retry_errors(job.id, 8)
    assert [len(ledger.claim(job.id, "worker", 60).row_ids) for _ in range(5)] == [2, 2, 2, 2, 1]
