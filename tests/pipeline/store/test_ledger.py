"""Several ledgers on one database at once."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from pipeline.buckets import PlannedBatch
from pipeline.rows import BatchTiming
from pipeline.store.dispatch import Dispatch
from pipeline.store.integrity import check_integrity
from pipeline.store.ledger import Ledger
from pipeline.store.queries import progress, stream_results
from pipeline.store.records import JobRecord

RUNNER = """
import sys
from pipeline.rows import BatchTiming, Completion, Status
from pipeline.settings import Settings
from pipeline.store.database import open_database
from pipeline.store.ledger import Ledger

ledger = Ledger(open_database(Settings(database_url=sys.argv[1])))
sys.stdin.readline()
while claim := ledger.claim(sys.argv[2], "runner", 60):
    answers = [Completion(row_id, str(row_id), Status.OK, "yes") for row_id in claim.row_ids]
    assert ledger.finish(claim, answers, BatchTiming(), "cpu")
    print(claim.batch_no, flush=True)
"""


def test_processes_share_a_job_and_no_batch_is_claimed_twice(engine, database_url, ledger, road):
    job = road.encoded_job(n_rows=240, shard_rows=60)
    runners = [start_runner(database_url, job) for _ in range(3)]
    told = []
    for runner in runners:
        runner.stdin.write("\n")
        runner.stdin.flush()
    for runner in runners:
        out, err = runner.communicate()
        assert err == ""
        told += [int(line) for line in out.split()]
    assert sorted(told) == list(range(120))
    assert ledger.complete(job.id)
    assert progress(engine, job.id).ok == 240
    assert check_integrity(engine, job.id) == []


def test_a_runner_killed_at_work_loses_nothing(engine, database_url, ledger, road):
    job = road.encoded_job(n_rows=1200, shard_rows=60)
    runner = start_runner(database_url, job)
    runner.stdin.write("\n")
    runner.stdin.flush()
    while (line := runner.stdout.readline()) != "20\n":
        assert line
    runner.kill()
    runner.communicate()
    ledger.release(job.id, lambda owner: owner == "runner")
    assert check_integrity(engine, job.id) == []
    assert 0 < progress(engine, job.id).ok < 1200
    road.answer(job)
    assert ledger.complete(job.id)
    assert progress(engine, job.id).ok == 1200
    assert check_integrity(engine, job.id) == []


def test_threads_share_a_ledger(engine, ledger, road):
    job = road.encoded_job(n_rows=120, shard_rows=60)

    def run(name: str) -> list[int]:
        done = []
        while claim := ledger.claim(job.id, name, 60):
            assert ledger.finish(claim, road.outcomes(claim), BatchTiming(), "cpu")
            done.append(claim.batch_no)
        return done

    with ThreadPoolExecutor(4) as pool:
        done = [batch_no for part in pool.map(run, "abcd") for batch_no in part]
    assert sorted(done) == list(range(60))
    assert check_integrity(engine, job.id) == []


def test_runners_that_encode_the_same_shard_leave_it_encoded_once(engine, clock, road):
    job = road.job(n_rows=60, shard_rows=20)

    def encode(shard_no: int) -> list[int]:
        rows = range(20 * shard_no, 20 * shard_no + 20)
        planned = [PlannedBatch((row_id,), 1) for row_id in rows]
        return Ledger(engine, clock).record_encoding(job.id, shard_no, planned, [], 0.1)

    with ThreadPoolExecutor(6) as pool:
        numbers = list(pool.map(encode, [0, 1, 2] * 2))
    assert sorted(number for part in numbers for number in part) == list(range(60))
    assert sorted(len(part) for part in numbers) == [0, 0, 0, 20, 20, 20]
    assert list(stream_results(engine, job.id)) == []
    assert check_integrity(engine, job.id) == []


def start_runner(database_url: str, job: JobRecord) -> subprocess.Popen[str]:
    """It waits for a line on its standard input."""
    command = [sys.executable, "-c", RUNNER, database_url, job.id]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_whoever_cancels_pauses_or_recovers_meanwhile_nothing_is_lost_and_nobody_fails(engine, road):
    """By the database's own clock, and each in a thread of its own, so that they meet at every step."""
    job = road.encoded_job(n_rows=160, shard_rows=20, fleet=True)
    ledger, dispatch = Ledger(engine), Dispatch(engine, road.keys)
    worked = threading.Event()

    def work(owner: str) -> None:
        while not worked.is_set():
            bells = dispatch.enqueue_batches(8)
            claims = [ledger.claim_batch(bell.job_id, bell.batch_no, owner, 60) for bell in bells]
            for claim in ledger.renew_all([claim for claim in claims if claim], 60):
                if ledger.begin(claim):
                    ledger.finish(claim, road.outcomes(claim, errors=claim.row_ids[:1]), BatchTiming(), "cpu")
                else:
                    ledger.give_back(claim)

    def meddle() -> None:
        for _ in range(6):
            ledger.cancel(job.id, road.keys)
            ledger.revive(job.id)
            ledger.pause(job.id)
            ledger.retry_errors(job.id, 2)
            ledger.unpause(job.id)
            ledger.died("a", "ended with status 1")

    def recover() -> None:
        while not worked.is_set():
            dispatch.recover(0.01)
            dispatch.lose_all()

    with ThreadPoolExecutor(5) as pool:
        others = [pool.submit(work, "a"), pool.submit(work, "b"), pool.submit(recover), pool.submit(recover)]
        try:
            pool.submit(meddle).result()
        finally:
            worked.set()
        for other in others:
            other.result()
    assert check_integrity(engine, job.id) == []
    ledger.died("a", "ended with status 1")
    ledger.died("b", "ended with status 1")
    dispatch.recover(60)
    road.answer(job)
    assert ledger.complete(job.id)
    assert progress(engine, job.id).finished == 160
    assert check_integrity(engine, job.id) == []
