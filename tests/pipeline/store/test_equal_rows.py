"""Rows of several shards with the same prompt: one leads, and the others follow it to its answer."""

from dataclasses import replace

import pytest
from sqlalchemy import select, text

from pipeline.buckets import PlannedBatch
from pipeline.rows import BatchTiming, Follower, Status
from pipeline.store import equal_rows
from pipeline.store.integrity import check_integrity
from pipeline.store.purge import purge
from pipeline.store.queries import find_job, progress, stream_results
from pipeline.store.schema import followers
from pipeline.store.transactions import reading

HASHES = [bytes([n]) * 16 for n in range(6)]


@pytest.fixture
def job(ledger, road):
    """Of six rows in two shards: 3 and 5 follow 0; 1, 2 and 4 are in batches of their own."""
    job = road.job()
    encode(ledger, job)
    return job


def encode(ledger, job):
    ledger.record_encoding(job.id, 0, [PlannedBatch((row_id,), 4) for row_id in (0, 1, 2)], [], 0.5)
    waiting = [Follower(3, "k3", 0, 0), Follower(5, "k5", 8, 0)]
    ledger.record_encoding(job.id, 1, [PlannedBatch((4,), 4)], [], 0.5, followers=waiting)


def waiting_rows(engine):
    with reading(engine) as connection:
        return list(connection.scalars(select(followers.c.row_id).order_by(followers.c.row_id)))


def test_the_shard_that_is_first_at_it_leads_and_the_next_leads_what_is_new(ledger, road):
    job = road.job(n_rows=9, shard_rows=3)
    assert ledger.lead(job.id, 0, {HASHES[0]: 0, HASHES[1]: 1}) == {}
    assert ledger.lead(job.id, 1, {HASHES[1]: 3, HASHES[2]: 4}) == {HASHES[1]: 1}
    assert ledger.lead(job.id, 2, {HASHES[n]: 6 + n for n in range(3)}) == {HASHES[0]: 0, HASHES[1]: 1, HASHES[2]: 4}
    # One that died before its shard was encoded is followed by another at the same shard.
    assert ledger.lead(job.id, 1, {HASHES[1]: 3, HASHES[2]: 4}) == {HASHES[1]: 1}
    assert ledger.lead(road.job().id, 0, {HASHES[0]: 0}) == {}


def test_a_shard_whose_batches_are_closed_leads_no_more_for_then_its_answers_are_found(ledger, road):
    job = road.job(n_rows=6, shard_rows=3)
    ledger.lead(job.id, 0, {HASHES[n]: n for n in range(3)})
    ledger.record_encoding(job.id, 0, [PlannedBatch((0,), 4), PlannedBatch((1, 2), 4)], [], 0.5)
    road.answer(job, batches=1)
    assert ledger.lead(job.id, 1, {HASHES[0]: 3}) == {HASHES[0]: 0}
    claim = ledger.claim(job.id, "worker", 60)
    rows = [replace(road.outcome(1), prompt_hash=HASHES[1]), road.outcome(2, Status.ERROR)]
    assert ledger.finish(claim, rows, BatchTiming(), "cpu")
    assert ledger.lead(job.id, 1, {HASHES[1]: 3, HASHES[2]: 4}) == {}
    found = ledger.answers_to(job.id, HASHES, of_any_job=False)
    assert found == {HASHES[1]: replace(road.outcome(1), copied_from=None)}
    assert ledger.answers_to(road.job().id, HASHES, of_any_job=False) == {}


def test_followers_have_their_leaders_answer_under_their_own_names(ledger, engine, road, job, monkeypatch):
    monkeypatch.setattr(equal_rows, "_AT_ONCE", 1)
    assert ledger.settle(job.id) == 0
    assert check_integrity(engine, job.id) == []
    road.answer(job)
    assert not ledger.complete(job.id)
    before = progress(engine, job.id).reused_tokens
    assert [ledger.settle(job.id) for _ in range(3)] == [1, 1, 0]
    assert ledger.complete(job.id)
    found = list(stream_results(engine, job.id))
    assert found[3] == replace(road.outcome(0), row_id=3, key="k3", reused_tokens=7)
    assert found[5] == replace(road.outcome(0), row_id=5, key="k5", reused_tokens=7, cut_tokens=8)
    assert [row.row_id for row in found] == list(range(6))
    told = progress(engine, job.id)
    assert (told.ok, told.copied, told.reused_tokens) == (6, 2, before + 2 * 7)
    with reading(engine) as connection:
        assert connection.scalar(text("SELECT reused_tokens FROM v_jobs")) == told.reused_tokens
    assert check_integrity(engine, job.id) == []
    assert waiting_rows(engine) == []


def test_a_leaders_error_is_its_own_and_its_followers_are_answered_by_themselves(ledger, engine, road, job):
    road.answer(job, errors=[0])
    assert ledger.settle(job.id) == 2
    assert not ledger.complete(job.id)
    claim = ledger.claim(job.id, "worker", 60)
    assert (claim.shard_no, claim.row_ids) == (1, (3, 5))
    ledger.give_back(claim)
    assert check_integrity(engine, job.id) == []
    road.answer(job)
    assert ledger.complete(job.id)
    assert [row.status for row in stream_results(engine, job.id)] == ["error", *["ok"] * 5]
    assert check_integrity(engine, job.id) == []


def test_an_error_that_is_tried_again_in_time_is_waited_for(ledger, engine, road, job):
    road.answer(job, errors=[0])
    assert ledger.retry_errors(job.id, 2) == 1
    assert ledger.settle(job.id) == 0
    road.answer(job)
    assert ledger.settle(job.id) == 2
    assert ledger.complete(job.id)
    assert check_integrity(engine, job.id) == []


def test_a_leader_that_was_cut_short_is_an_answer(ledger, engine, road, job):
    claim = ledger.claim(job.id, "worker", 60)
    assert ledger.finish(claim, [replace(road.outcome(0), status=Status.TRUNCATED)], BatchTiming(), "cpu")
    road.answer(job)
    ledger.settle(job.id)
    assert progress(engine, job.id).truncated == 3
    assert check_integrity(engine, job.id) == []


def test_a_leader_whose_own_shard_is_not_encoded_yet_is_waited_for(ledger, engine, road):
    job = road.job()
    rows = [Follower(row_id, f"k{row_id}", 0, 0) for row_id in (3, 4, 5)]
    ledger.record_encoding(job.id, 1, [], [], 0.5, followers=rows)
    assert ledger.settle(job.id) == 0
    assert not ledger.complete(job.id)
    road.encode(job)
    road.answer(job)
    assert ledger.settle(job.id) == 3
    assert ledger.complete(job.id)


def test_cancelled_while_they_wait_they_end_with_the_others_and_go_on_with_them(ledger, engine, road, job):
    road.answer(job, batches=1)
    assert ledger.cancel(job.id, road.keys) == 5
    assert ledger.settle(job.id) == 0
    assert check_integrity(engine, job.id) == []
    ledger.revive(job.id)
    assert check_integrity(engine, job.id) == []
    assert ledger.settle(job.id) == 2
    road.answer(job)
    assert ledger.complete(job.id)
    assert [row.status for row in stream_results(engine, job.id)] == ["ok"] * 6
    assert check_integrity(engine, job.id) == []


def test_none_waits_for_one_that_waits_itself(ledger, engine, road):
    job = road.job(n_rows=2, shard_rows=1)
    for row_id in (0, 1):
        follower = Follower(row_id, f"k{row_id}", 0, 1 - row_id)
        ledger.record_encoding(job.id, row_id, [], [], 0.5, followers=[follower])
    assert ledger.settle(job.id) == 2
    road.answer(job)
    assert ledger.complete(job.id)
    assert check_integrity(engine, job.id) == []


def test_a_dispatcher_has_them_answered_before_their_job_is_done(ledger, engine, dispatch, road):
    job = road.job(fleet=True)
    encode(ledger, job)
    assert dispatch.complete_jobs() == []
    road.answer(job, batches=1)
    assert dispatch.complete_jobs() == []
    assert progress(engine, job.id).ok == 3
    road.answer(job)
    assert dispatch.complete_jobs() == [job.id]


def test_followers_are_rows_of_their_shard_each_once(ledger, road):
    job = road.job()
    with pytest.raises(ValueError, match="failures, copies and followers of shard 0 are not its rows, each once"):
        ledger.record_encoding(job.id, 0, [PlannedBatch((0, 1, 2), 4)], [], 0.5, followers=[Follower(2, "k2", 0, 5)])


def test_they_go_with_their_job(ledger, engine, road, job):
    ledger.cancel(job.id, road.keys)
    assert purge(engine, find_job(engine, job.id), "results")
    begun = ledger.create_job(None, "{}", "", "", "")
    ledger.add_shard(begun.id, 0, "/shards/0", 0, 1)
    ledger.record_encoding(begun.id, 0, [], [], 0.5, followers=[Follower(0, "k0", 0, 9)])
    ledger.discard(begun.id)
    assert waiting_rows(engine) == []
