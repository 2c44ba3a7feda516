"""Shards whose rows were sorted have scattered ids; the ledger goes by these."""

import pytest

from pipeline.buckets import PlannedBatch
from pipeline.errors import RefusedError
from pipeline.rows import BatchTiming, Status
from pipeline.store.integrity import check_integrity
from pipeline.store.queries import find_job, list_pages, list_shards, progress, stream_results
from pipeline.store.records import JobState, PageRecord

IDS = [(0, 3, 6), (1, 4, 7), (2, 5)]
STARTS = [0, 3, 6, 8]


@pytest.fixture
def job(ledger):
    """Eight rows in three shards, cut and sorted."""
    job = ledger.create_job("sorted", '{"choices": null}', "print", "model", "input")
    ledger.set_outlook(job.id, True)
    for page_no, (row_from, row_to) in enumerate([(0, 5), (5, 8)]):
        ledger.add_page(job.id, page_no, f"/pages/{page_no}", row_from, row_to)
    for shard_no, row_ids in enumerate(IDS):
        place = f"/shards/{shard_no}"
        ledger.add_shard(job.id, shard_no, place, STARTS[shard_no], STARTS[shard_no + 1], row_ids)
    ledger.finish_cutting(job.id, 8)
    return job


def encode(ledger, road, job, failed=()):
    for shard_no, row_ids in enumerate(IDS):
        left = tuple(row_id for row_id in row_ids if row_id not in failed)
        failures = [road.outcome(row_id, Status.ERROR) for row_id in row_ids if row_id in failed]
        ledger.record_encoding(job.id, shard_no, [PlannedBatch(left, 9)], failures, 0.5)


def keys(shard):
    return [(row_id, f"k{row_id}") for row_id in IDS[shard.shard_no]]


def test_their_rows_are_held_to_their_ids(ledger, job):
    for planned in ((0, 1, 2), (0, 3), (0, 3, 6, 7)):
        with pytest.raises(ValueError, match="of shard 0 are not its rows, each once"):
            ledger.record_encoding(job.id, 0, [PlannedBatch(planned, 9)], [], 0.5)
    assert len(ledger.record_encoding(job.id, 0, [PlannedBatch((6, 0, 3), 9)], [], 0.5)) == 1


def test_they_are_answered_and_recounted(ledger, engine, road, job):
    encode(ledger, road, job)
    assert check_integrity(engine, job.id) == []
    road.answer(job)
    assert ledger.complete(job.id)
    assert [row.row_id for row in stream_results(engine, job.id)] == list(range(8))
    assert (progress(engine, job.id).ok, check_integrity(engine, job.id)) == (8, [])


def test_errors_go_into_new_batches_of_their_own_shards(ledger, engine, road, job):
    encode(ledger, road, job, failed=[4])
    road.answer(job, errors=[3, 6, 5])
    assert ledger.complete(job.id)
    assert ledger.retry_errors(job.id, 2) == 4
    claims = [ledger.claim(job.id, "worker", 60) for _ in range(3)]
    assert [(claim.shard_no, claim.row_ids) for claim in claims] == [(0, (3, 6)), (1, (4,)), (2, (5,))]
    for claim in claims:
        assert ledger.finish(claim, road.outcomes(claim), BatchTiming(), "cpu")
    assert ledger.complete(job.id)
    assert (progress(engine, job.id).ok, check_integrity(engine, job.id)) == (8, [])


def test_rows_without_a_result_are_cancelled_and_come_back(ledger, engine, road, job):
    encode(ledger, road, job)
    road.answer(job, batches=1)
    assert ledger.cancel(job.id, keys) == 5
    assert [row.status is Status.OK for row in stream_results(engine, job.id)] == [row in IDS[0] for row in range(8)]
    assert check_integrity(engine, job.id) == []
    ledger.revive(job.id)
    road.answer(job)
    assert ledger.complete(job.id)
    assert check_integrity(engine, job.id) == []


def test_pages_are_there_until_the_job_is_discarded(ledger, engine, job, road):
    assert list_pages(engine, job.id) == [PageRecord("/pages/0", 0, 5), PageRecord("/pages/1", 5, 8)]
    with pytest.raises(RefusedError, match="not being cut any more"):
        ledger.add_page(job.id, 2, "/pages/2", 8, 9)
    other = ledger.create_job("other", "{}", "print", "model", "input")
    ledger.add_page(other.id, 0, "/pages/0", 0, 5)
    ledger.discard(other.id)
    assert list_pages(engine, other.id) == []


def test_shards_of_rows_that_were_not_sorted_are_pages(engine, road):
    job = road.job(n_rows=5, shard_rows=3)
    assert [page.rows for page in list_pages(engine, job.id)] == [range(3), range(3, 5)]
    assert len(list_shards(engine, job.id)) == 2


def test_a_row_in_two_shards_is_found(ledger, engine, road, job):
    other = ledger.create_job("twice", '{"choices": null}', "print", "model", "input")
    for shard_no in (0, 1):
        ledger.add_shard(other.id, shard_no, "/shards/0", shard_no, shard_no + 1, [0])
        ledger.record_encoding(other.id, shard_no, [PlannedBatch((0,), 9)], [], 0.5)
    assert "1 rows are in two shards: 0." in check_integrity(engine, other.id)


def test_what_was_chosen_is_kept(ledger, engine, job):
    assert find_job(engine, "sorted").sorts_rows is True
    assert ledger.create_job("new", "{}", "p", "m", "i").sorts_rows is None
    assert find_job(engine, "sorted").state is JobState.RUNNING
