from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from pipeline.errors import NotFoundError, RefusedError
from pipeline.rows import BatchTiming, Status
from pipeline.store.integrity import check_integrity
from pipeline.store.queries import find_job, list_jobs, progress, stream_results
from pipeline.store.records import BatchState, JobState


def test_a_new_job_is_being_cut(ledger, engine, clock):
    job = ledger.create_job("nightly", '{"model": "m"}', "print", "model", "input")
    assert (job.name, job.state, job.n_rows, job.submitted_at) == ("nightly", JobState.CUTTING, None, clock.now)
    assert (job.fingerprint, job.model_digest, job.input_digest) == ("print", "model", "input")
    assert len(job.id) == 32
    assert find_job(engine, "nightly") == job


def test_jobs_without_a_name_are_numbered_by_day(ledger, clock):
    def name() -> str:
        return ledger.create_job(None, "{}", "", "", "").name

    assert [name(), name()] == ["job-20261129-1", "job-20261129-2"]
    ledger.create_job("job-20261129-7", "{}", "", "", "")
    ledger.create_job("job-20261129-late", "{}", "", "", "")
    assert name() == "job-20261129-8"
    clock.now += 86_400
    assert name() == "job-20261130-1"


def test_a_taken_name_is_refused(ledger):
    ledger.create_job("nightly", "{}", "", "", "")
    with pytest.raises(RefusedError, match='There is a job named "nightly" already'):
        ledger.create_job("nightly", "{}", "", "", "")


def test_last_is_no_name(ledger):
    with pytest.raises(RefusedError, match='"last" stands for the newest job'):
        ledger.create_job("last", "{}", "", "", "")


def test_cutting_ends_once(ledger, engine, road):
    job = road.job(n_rows=6, name="six")
    assert (find_job(engine, "six").state, find_job(engine, "six").n_rows) == (JobState.RUNNING, 6)
    with pytest.raises(RefusedError, match="not being cut"):
        ledger.finish_cutting(job.id, 6)


def test_an_unknown_job_is_not_found(ledger):
    with pytest.raises(NotFoundError, match="There is no job nope"):
        ledger.finish_cutting("nope", 1)


def test_a_job_completes_only_when_all_is_done(ledger, engine, road, clock):
    job = road.job(n_rows=6)
    assert not ledger.complete(job.id)
    road.encode(job)
    assert not ledger.complete(job.id)
    road.answer(job, batches=3)
    claim = ledger.claim(job.id, "worker", 60)
    assert not ledger.complete(job.id)
    assert ledger.finish(claim, road.outcomes(claim), BatchTiming(), "cpu")
    clock.now += 5
    assert ledger.complete(job.id)
    assert (find_job(engine, job.id).state, find_job(engine, job.id).finished_at) == (JobState.DONE, clock.now)
    assert not ledger.complete(job.id)
    assert check_integrity(engine, job.id) == []


def test_a_job_whose_rows_all_fail_to_encode_completes(ledger, engine, road):
    job = road.encoded_job(n_rows=3, failed=range(3))
    assert ledger.complete(job.id)
    assert progress(engine, job.id).error == 3
    assert check_integrity(engine, job.id) == []


def test_cancel_gives_every_other_row_its_result(ledger, engine, road):
    job = road.encoded_job(n_rows=9, failed=[8])
    road.answer(job, batches=1)
    zombie = ledger.claim(job.id, "zombie", 60)
    assert ledger.cancel(job.id, road.keys) == 6
    told = [(row.row_id, row.key, row.status) for row in stream_results(engine, job.id)]
    assert told == [
        *((row_id, f"k{row_id}", Status.OK) for row_id in (0, 1)),
        *((row_id, f"k{row_id}", Status.CANCELLED) for row_id in range(2, 8)),
        (8, "k8", Status.ERROR),
    ]
    assert not ledger.finish(zombie, road.outcomes(zombie), BatchTiming(), "cpu")
    assert not ledger.renew(zombie, 60)
    assert ledger.claim(job.id, "other", 60) is None
    assert progress(engine, job.id).cancelled == 6
    assert progress(engine, job.id).batches[BatchState.CANCELLED] == 4
    assert find_job(engine, job.id).state is JobState.CANCELLED
    assert check_integrity(engine, job.id) == []


def test_cancel_while_cutting_takes_what_is_cut(ledger, engine, road):
    job = ledger.create_job(None, "{}", "", "", "")
    ledger.add_shard(job.id, 0, "/shards/0", 0, 4)
    assert ledger.cancel(job.id, road.keys) == 4
    assert (progress(engine, job.id).total, progress(engine, job.id).cancelled) == (None, 4)
    assert check_integrity(engine, job.id) == []
    for refused in (lambda: ledger.add_shard(job.id, 1, "/shards/1", 4, 8), lambda: ledger.finish_cutting(job.id, 4)):
        with pytest.raises(RefusedError, match="is not being cut"):
            refused()
    ledger.revive(job.id)
    assert find_job(engine, job.id).state is JobState.CUTTING
    ledger.add_shard(job.id, 1, "/shards/1", 4, 8)


def test_a_cancel_cut_short_is_made_whole_by_another(ledger, engine, road):
    job = road.encoded_job(n_rows=6, shard_rows=3)

    def keys(shard):
        if shard.shard_no == 1:
            raise KeyboardInterrupt
        return road.keys(shard)

    with pytest.raises(KeyboardInterrupt):
        ledger.cancel(job.id, keys)
    assert len(check_integrity(engine, job.id)) == 2
    assert ledger.cancel(job.id, road.keys) == 3
    assert check_integrity(engine, job.id) == []


def test_a_cancel_that_meets_a_revive_stops(ledger, engine, road):
    job = road.encoded_job(n_rows=6, shard_rows=3)

    def keys(shard):
        if shard.shard_no == 1:
            ledger.revive(job.id)
        return road.keys(shard)

    assert ledger.cancel(job.id, keys) == 3
    assert list(stream_results(engine, job.id)) == []
    assert check_integrity(engine, job.id) == []


def test_a_done_job_is_not_cancelled(ledger, road):
    job = road.encoded_job()
    road.answer(job)
    ledger.complete(job.id)
    with pytest.raises(RefusedError, match=f'Job "{job.name}" is done; there is nothing to cancel'):
        ledger.cancel(job.id, road.keys)


def test_a_revived_job_ends_as_if_never_cancelled(ledger, engine, road):
    job = road.job(n_rows=9)
    road.encode(job, failed=[1])
    road.answer(job, batches=2)
    ledger.cancel(job.id, road.keys)
    ledger.revive(job.id)
    assert find_job(engine, job.id).finished_at is None
    assert progress(engine, job.id).cancelled == 0
    assert check_integrity(engine, job.id) == []
    road.answer(job)
    assert ledger.complete(job.id)
    assert [row.status for row in stream_results(engine, job.id)].count(Status.OK) == 8
    assert check_integrity(engine, job.id) == []


def test_a_revived_job_encodes_what_was_not_encoded(ledger, engine, road):
    job = road.job(n_rows=6)
    assert ledger.cancel(job.id, road.keys) == 6
    assert ledger.next_unencoded_shard(job.id) is None
    ledger.revive(job.id)
    road.encode(job)
    road.answer(job)
    assert ledger.complete(job.id)
    assert check_integrity(engine, job.id) == []


def test_only_a_cancelled_job_is_revived(ledger, road):
    with pytest.raises(RefusedError, match="is not cancelled"):
        ledger.revive(road.job().id)


def test_a_note_stays_until_the_job_is_done(ledger, engine, road):
    job = road.encoded_job()
    ledger.fail_note(job.id, "The disk was full.")
    assert find_job(engine, job.id).error == "The disk was full."
    ledger.fail_note(job.id, None)
    assert find_job(engine, job.id).error is None
    ledger.fail_note(job.id, "The disk was full.")
    road.answer(job)
    ledger.complete(job.id)
    assert find_job(engine, job.id).error is None


def test_a_job_whose_input_cannot_be_read_is_forgotten_and_its_name_is_free(engine, ledger):
    job = ledger.create_job("reviews", "{}", "print", "model", "input")
    ledger.add_shard(job.id, 0, "/shards/00000.parquet", 0, 3)
    ledger.discard(job.id)
    assert list_jobs(engine) == []
    assert ledger.create_job("reviews", "{}", "print", "model", "input").name == "reviews"


def test_a_job_that_is_cut_is_never_forgotten(engine, ledger, road):
    job = road.job(name="kept")
    with pytest.raises(RefusedError, match='Job "kept" is cut, so it may have results that must not be lost'):
        ledger.discard(job.id)
    assert [found.id for found in list_jobs(engine)] == [job.id]


def test_a_job_carries_how_it_is_to_be_answered(ledger, engine):
    job = ledger.create_job("a", "{}", "", "", "", fleet=True, priority=3, context=512, tokenizer="/t")
    assert (job.fleet, job.priority, job.context, job.tokenizer) == (True, 3, 512, "/t")
    assert find_job(engine, "a") == job
    ledger.set_tokenizer(job.id, "/u", 1024)
    assert list_jobs(engine) == [replace(job, tokenizer="/u", context=1024)]


def test_a_fleets_job_goes_on_here_and_in_a_fleet_again(ledger, engine, road, dispatch):
    job = road.job(n_rows=6, fleet=True)
    dispatch.enqueue_shards(9)
    held = ledger.claim_shard(job.id, 0, "tokenizer", 60)
    ledger.take_over(job.id, False)
    assert not ledger.renew_shard(held, 60)
    assert not find_job(engine, job.id).fleet
    road.encode(job)
    assert dispatch.enqueue_batches(9) == []
    road.answer(job, batches=1)
    ledger.take_over(job.id, True)
    assert [bell.batch_no for bell in dispatch.enqueue_batches(9)] == [1, 2, 3]
    held = ledger.claim_batch(job.id, 1, "gpu", 60)
    ledger.take_over(job.id, True)
    assert progress(engine, job.id).batches[BatchState.ENQUEUED] == 2
    ledger.take_over(job.id, False)
    assert progress(engine, job.id).batches[BatchState.ENQUEUED] == 0
    assert ledger.finish(held, road.outcomes(held), BatchTiming(), "cpu")
    road.answer(job)
    assert ledger.complete(job.id)
    assert check_integrity(engine, job.id) == []


def test_a_revived_job_of_a_fleet_goes_on(ledger, engine, road, dispatch):
    job = road.job(n_rows=9, fleet=True)
    assert dispatch.enqueue_shards(2) == [(job.id, 0), (job.id, 1)]
    ledger.claim_shard(job.id, 0, "tokenizer", 60)
    assert ledger.cancel(job.id, road.keys) == 9
    assert check_integrity(engine, job.id) == []
    ledger.revive(job.id)
    assert dispatch.enqueue_shards(9) == [(job.id, 0), (job.id, 1), (job.id, 2)]


def test_a_retry_that_comes_as_the_job_ends_is_not_forgotten(engine, ledger, road):
    """The one holds the job while the other looks whether anything is open."""
    job = road.encoded_job(n_rows=6)
    for _ in range(10):
        road.answer(job, errors=[0, 3])
        with ThreadPoolExecutor(2) as pool:
            retried = pool.submit(ledger.retry_errors, job.id, 2)
            pool.submit(ledger.complete, job.id).result()
            retried.result()
        assert find_job(engine, job.id).state is JobState.RUNNING
        assert check_integrity(engine, job.id) == []
