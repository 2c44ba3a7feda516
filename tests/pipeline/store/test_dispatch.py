"""A fleet's dispatcher: what is enqueued, in which order, and how it comes back."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event

from pipeline.buckets import PlannedBatch
from pipeline.rows import BatchTiming
from pipeline.store.dispatch import Dispatch, Recovered
from pipeline.store.integrity import check_integrity
from pipeline.store.ledger import Ledger
from pipeline.store.outbox import Backlog
from pipeline.store.queries import find_job, progress
from pipeline.store.records import BatchState, Bell, JobState
from pipeline.store.transactions import reading


def names(bells):
    return [(bell.job_id, bell.batch_no) for bell in bells]


def test_a_bell_tells_where_the_prompts_are(ledger, road, dispatch):
    job = road.job(n_rows=4, shard_rows=4, fleet=True)
    planned = [PlannedBatch((0, 1), 20), PlannedBatch((2, 3), 20)]
    ledger.record_encoding(job.id, 0, planned, [], 0.5, tokens="/shards/0.tokens")
    assert dispatch.enqueue_batches(9) == [
        Bell(job.id, 0, 0, 0, "/shards/0.tokens"),
        Bell(job.id, 1, 0, 1, "/shards/0.tokens"),
    ]


def test_batches_without_prompts_have_no_part(road, dispatch):
    job = road.encoded_job(n_rows=2, fleet=True)
    assert dispatch.enqueue_batches(9) == [Bell(job.id, 0, 0, None, None)]


def test_no_more_is_enqueued_than_asked_and_nothing_twice(engine, road, dispatch):
    job = road.encoded_job(n_rows=12, shard_rows=6, fleet=True)
    assert dispatch.enqueue_batches(0) == []
    assert names(dispatch.enqueue_batches(4)) == [(job.id, number) for number in range(4)]
    assert names(dispatch.enqueue_batches(4)) == [(job.id, number) for number in (4, 5)]
    assert dispatch.enqueue_batches(4) == []
    assert check_integrity(engine, job.id) == []


def test_jobs_take_turns_and_a_higher_priority_goes_first(road, dispatch, clock):
    first = road.encoded_job(fleet=True)
    clock.now += 1
    second = road.encoded_job(fleet=True)
    clock.now += 1
    urgent = road.encoded_job(n_rows=2, fleet=True, priority=1)
    assert names(dispatch.enqueue_batches(1)) == [(urgent.id, 0)]
    assert names(dispatch.enqueue_batches(3)) == [(first.id, 0), (second.id, 0), (first.id, 1)]
    assert names(dispatch.enqueue_batches(2)) == [(second.id, 1), (first.id, 2)]


def test_only_jobs_that_go_on_in_a_fleet_are_handed_out(ledger, road, dispatch):
    road.encoded_job()
    paused, cancelled = road.encoded_job(fleet=True), road.encoded_job(fleet=True)
    ledger.pause(paused.id)
    ledger.cancel(cancelled.id, road.keys)
    road.job()
    for job in (road.job(fleet=True), road.job(fleet=True)):
        ledger.pause(job.id)
    assert dispatch.enqueue_batches(9) == []
    assert dispatch.enqueue_shards(9) == []


def test_a_job_is_handed_out_while_it_is_still_cut(ledger, dispatch):
    job = ledger.create_job(None, "{}", "", "", "", fleet=True)
    ledger.add_shard(job.id, 0, "/shards/0", 0, 2)
    assert dispatch.enqueue_shards(9) == [(job.id, 0)]
    claim = ledger.claim_shard(job.id, 0, "tokenizer", 60)
    assert ledger.record_encoding(job.id, claim.shard_no, [PlannedBatch((0, 1), 9)], [], 0.5) == [0]
    assert names(dispatch.enqueue_batches(9)) == [(job.id, 0)]
    assert ledger.claim_batch(job.id, 0, "gpu", 60)
    assert dispatch.complete_jobs() == []


def test_shards_take_the_same_turns(ledger, road, dispatch, clock):
    first = road.job(n_rows=9, fleet=True)
    clock.now += 1
    second = road.job(n_rows=9, fleet=True)
    assert dispatch.enqueue_shards(3) == [(first.id, 0), (second.id, 0), (first.id, 1)]
    assert dispatch.enqueue_shards(9) == [(second.id, 1), (first.id, 2), (second.id, 2)]
    assert dispatch.enqueue_shards(9) == []


def test_what_could_not_be_published_is_pending_at_once(engine, ledger, road, dispatch):
    job = road.encoded_job(fleet=True)
    bells = dispatch.enqueue_batches(3)
    held = ledger.claim_batch(job.id, 1, "quick", 60)
    dispatch.unenqueue(bells[1:])
    dispatch.unenqueue([])
    assert progress(engine, job.id).batches[BatchState.PENDING] == 2
    assert ledger.renew(held, 60)
    assert names(dispatch.enqueue_batches(9)) == [(job.id, 2), (job.id, 3)]
    unencoded = road.job(fleet=True)
    keys = dispatch.enqueue_shards(9)
    dispatch.unenqueue_shards(keys[1:])
    assert dispatch.enqueue_shards(9) == keys[1:]
    assert check_integrity(engine, unencoded.id) == []


def test_what_nobody_took_for_too_long_is_enqueued_again(engine, road, ledger, dispatch, clock):
    job, unencoded = road.encoded_job(n_rows=4, fleet=True), road.job(n_rows=3, fleet=True)
    dispatch.enqueue_batches(9)
    dispatch.enqueue_shards(9)
    ledger.claim_batch(job.id, 0, "gpu", 600)
    clock.now += 60
    assert dispatch.recover(60) == Recovered()
    clock.now += 1
    assert dispatch.recover(float("inf")) == Recovered()
    assert dispatch.recover(60) == Recovered(lost=3)
    assert names(dispatch.enqueue_batches(9)) == [(job.id, 1), (job.id, 2)]
    assert dispatch.enqueue_shards(9) == [(unencoded.id, 0)]
    assert check_integrity(engine, job.id) == []


def test_what_was_lost_is_missed_when_the_clock_is_set_back(road, dispatch, clock):
    job, unencoded = road.encoded_job(n_rows=2, fleet=True), road.job(n_rows=3, fleet=True)
    dispatch.enqueue_batches(9)
    dispatch.enqueue_shards(9)
    clock.now -= 60
    assert dispatch.recover(60) == Recovered()
    clock.now -= 3600
    assert dispatch.recover(60) == Recovered(lost=2)
    assert names(dispatch.enqueue_batches(9)) == [(job.id, 0)]
    assert dispatch.enqueue_shards(9) == [(unencoded.id, 0)]


def test_a_broker_that_lost_everything(engine, road, ledger, dispatch):
    job, unencoded = road.encoded_job(fleet=True), road.job(n_rows=3, fleet=True)
    sent = names(dispatch.enqueue_batches(9))
    dispatch.enqueue_shards(9)
    held = ledger.claim_batch(job.id, 0, "gpu", 60)
    assert dispatch.lose_all() == 4
    assert ledger.renew(held, 60)
    assert names(dispatch.enqueue_batches(9)) == sent[1:]
    assert dispatch.enqueue_shards(9) == [(unencoded.id, 0)]


def test_a_bell_that_rings_late_or_twice_does_no_harm(ledger, road, dispatch, clock):
    job = road.encoded_job(n_rows=2, fleet=True)
    dispatch.enqueue_batches(9)
    clock.now += 61
    dispatch.recover(60)
    claim = ledger.claim_batch(job.id, 0, "gpu", 60)
    assert ledger.claim_batch(job.id, 0, "other", 60) is None
    assert ledger.finish(claim, road.outcomes(claim), BatchTiming(), "cpu")
    assert ledger.claim_batch(job.id, 0, "other", 60) is None
    assert dispatch.enqueue_batches(9) == []


def test_leases_that_ran_out_are_taken_back(engine, ledger, road, dispatch, clock):
    job, unencoded, embedded = road.encoded_job(fleet=True), road.job(fleet=True), road.encoded_job()
    for each in (job, embedded):
        assert ledger.claim_batch(each.id, 0, "gpu", 60)
    assert ledger.claim_batch(job.id, 1, "gpu", 61)
    assert ledger.claim_shard(unencoded.id, 0, "tokenizer", 60)
    clock.now += 60.5
    assert dispatch.recover(600) == Recovered(expired=2)
    assert names(dispatch.enqueue_batches(1)) == [(job.id, 0)]
    assert [progress(engine, each.id).batches[BatchState.LEASED] for each in (job, embedded)] == [1, 1]


def test_the_backlog_counts_what_the_fleet_has_to_do(ledger, road, dispatch):
    assert dispatch.backlog() == Backlog()
    job, unencoded = road.encoded_job(n_rows=24, shard_rows=12, fleet=True), road.job(n_rows=30, fleet=True)
    for other in (road.encoded_job(), road.job()):
        assert not other.fleet
    dispatch.enqueue_batches(4)
    dispatch.enqueue_shards(3)
    road.answer(job, batches=1)
    ledger.claim_batch(job.id, 1, "gpu", 60)
    ledger.claim_shard(unencoded.id, 0, "tokenizer", 60)
    assert dispatch.backlog() == Backlog(
        shards_pending=7,
        shards_enqueued=2,
        shards_leased=1,
        batches_pending=8,
        batches_enqueued=2,
        batches_leased=1,
    )
    ledger.pause(job.id)
    ledger.pause(unencoded.id)
    assert dispatch.backlog() == Backlog(shards_leased=1, batches_leased=1)


def test_jobs_of_which_nothing_is_open_are_done(engine, ledger, road, dispatch, clock):
    done, running, embedded = road.encoded_job(fleet=True), road.encoded_job(fleet=True), road.encoded_job()
    road.answer(done)
    road.answer(running, batches=1)
    road.answer(embedded)
    cutting = ledger.create_job(None, "{}", "", "", "", fleet=True)
    assert dispatch.complete_jobs() == [done.id]
    assert dispatch.complete_jobs() == []
    told = find_job(engine, done.id)
    assert (told.state, told.finished_at) == (JobState.DONE, clock.now)
    ledger.finish_cutting(cutting.id, 0)
    assert dispatch.complete_jobs() == [cutting.id]


def test_two_dispatchers_enqueue_nothing_twice(engine, road, clock):
    jobs = [road.encoded_job(n_rows=120, shard_rows=60, fleet=True) for _ in range(2)]

    def run(_):
        dispatch, sent = Dispatch(engine, road.keys, clock), []
        while bells := dispatch.enqueue_batches(7):
            sent += names(bells)
        return sent

    with ThreadPoolExecutor(3) as pool:
        sent = [name for part in pool.map(run, range(3)) for name in part]
    sent += names(Dispatch(engine, road.keys, clock).enqueue_batches(200))
    assert sorted(sent) == sorted((job.id, number) for job in jobs for number in range(60))


WORKER = """
import sys
from pipeline.rows import BatchTiming, Completion, Status
from pipeline.settings import Settings
from pipeline.store.database import open_database
from pipeline.store.ledger import Ledger

ledger = Ledger(open_database(Settings(database_url=sys.argv[1])))
for line in sys.stdin:
    job_id, batch_no = line.split()
    claim = ledger.claim_batch(job_id, int(batch_no), "gpu", 60)
    if claim and ledger.begin(claim):
        print("begun", batch_no, flush=True)
        answers = [Completion(row_id, str(row_id), Status.OK, "yes") for row_id in claim.row_ids]
        assert ledger.finish(claim, answers, BatchTiming(), "cpu")
"""


def test_a_worker_killed_at_work_loses_nothing(engine, database_url, road):
    """By the clocks of the machine and the database: the worker is another process."""
    ledger, dispatch = Ledger(engine), Dispatch(engine, road.keys)
    job = road.encoded_job(n_rows=400, shard_rows=40, fleet=True)
    pipe = subprocess.PIPE
    worker = subprocess.Popen([sys.executable, "-c", WORKER, database_url], stdin=pipe, stdout=pipe, text=True)
    for bell in dispatch.enqueue_batches(200):
        worker.stdin.write(f"{bell.job_id} {bell.batch_no}\n")
    worker.stdin.flush()
    while (line := worker.stdout.readline()) != "begun 20\n":
        assert line
    worker.kill()
    worker.communicate()
    ledger.died("gpu", "killed by signal 9 (SIGKILL)")
    assert check_integrity(engine, job.id) == []
    assert dispatch.lose_all() + progress(engine, job.id).batches[BatchState.DONE] >= 199
    for bell in dispatch.enqueue_batches(200):
        claim = ledger.claim_batch(bell.job_id, bell.batch_no, "next", 60)
        assert ledger.begin(claim)
        assert ledger.finish(claim, road.outcomes(claim), BatchTiming(), "cpu")
    assert dispatch.complete_jobs() == [job.id]
    assert progress(engine, job.id).ok == 400
    assert check_integrity(engine, job.id) == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_looking_for_what_ran_out_walks_over_what_is_under_way_only(engine, road, dispatch):
    road.encoded_job(fleet=True)
    sent = []
    event.listen(engine, "before_cursor_execute", lambda *told: sent.append((told[2], told[3])))
    dispatch.recover(60)
    dispatch.unenqueue(dispatch.enqueue_batches(9))
    dispatch.backlog()
    dispatch.complete_jobs()
    with reading(engine) as connection:
        for statement, values in [told for told in sent if told[0].startswith("SELECT")]:
            plan = [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)]
            assert not [step for step in plan if "batches" in step and "batches_" not in step], (statement, plan)
