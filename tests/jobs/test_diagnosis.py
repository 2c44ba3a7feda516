"""What holds a job up, case by case, over records alone."""

import json
import os
import socket
from dataclasses import replace

import pytest

from jobs.diagnosis import OVERDUE_S, QUIET_S, Situation, hold_up
from jobs.fleet import Fleet
from pipeline.store.open_work import Amount, OpenWork
from pipeline.store.records import (
    BatchState,
    JobRecord,
    JobState,
    Role,
    ShardState,
    WorkerRecord,
    WorkerState,
)

NOW = 1_000_000.0
JOB = JobRecord(
    "j1", "my night", "{}", "print", "model", "input", JobState.RUNNING, 100, NOW - 600, None, None, fleet=True
)


def worker(role, state=WorkerState.IDLE, seen=1.0, **fields):
    return WorkerRecord(
        f"far/{role}.{seen}.{fields}", role, "far", 1, state, started_at=NOW - 300, seen_at=NOW - seen, **fields
    )


DISPATCHER = worker(Role.DISPATCHER, WorkerState.BUSY)
TOKENIZER = worker(Role.TOKENIZER, WorkerState.BUSY)
GPU = worker(Role.GPU)


def work(shards=0, batches=0, leased_shards=0, begun_at=None):
    found = OpenWork(begun_at=begun_at or {})
    found.shards.update({ShardState.PENDING: Amount(shards), ShardState.LEASED: Amount(leased_shards)})
    found.batches[BatchState.PENDING] = Amount(batches)
    return found


def told(*workers, job=JOB, moved=600.0, others=(), **waiting):
    jobs = {one.id: one for one in (job, *others)}
    return hold_up(Situation(job, work(**waiting), NOW - moved, Fleet(workers, NOW), jobs))


def test_a_job_that_moved_lately_is_not_held_up():
    assert told(DISPATCHER, batches=1, moved=QUIET_S - 1) is None
    assert told(DISPATCHER, batches=1, moved=QUIET_S) is not None


@pytest.mark.parametrize("state", [JobState.DONE, JobState.CANCELLED])
def test_a_job_that_is_over_is_not_held_up(state):
    assert told(job=replace(JOB, state=state)) is None


def test_one_that_a_person_paused_is_told_at_once():
    assert told(job=replace(JOB, paused_at=NOW), moved=0.0) == (
        "It was paused by `pipeline pause`. `pipeline resume 'my night'` goes on with it."
    )


def test_one_that_paused_itself_says_why():
    job = replace(JOB, paused_at=NOW, error="The model is not there.")
    assert told(job=job) == (
        "It was paused, because of this: The model is not there. `pipeline resume 'my night'` goes on with it."
    )


def test_without_a_dispatcher_nothing_is_handed_out_and_that_is_told_at_once():
    silent = "; the last one, on far, fell silent 2:00 ago"
    for dispatchers, died in (
        ([], ""),
        ([worker(Role.DISPATCHER, seen=120.0), worker(Role.DISPATCHER, seen=500.0)], silent),
        ([worker(Role.DISPATCHER, WorkerState.FAILED)], ""),
    ):
        assert told(GPU, TOKENIZER, *dispatchers, moved=0.0) == (
            f"No dispatcher lives on this database, so nobody hands its work out{died}. Start one: `pipeline "
            "dispatcher`, or `pipeline up` for a whole fleet on this machine. `pipeline resume 'my night' --here` "
            "answers it without a fleet."
        )


def test_a_dispatcher_that_is_there_and_cannot_give_a_sign_of_life_is_no_dead_one():
    here = replace(DISPATCHER, id="here/dispatcher.1", host=socket.gethostname(), pid=os.getpid(), seen_at=NOW - 90)
    why = told(here, moved=0.0)
    assert why.startswith(f"The dispatcher on {here.host} (process {here.pid}) fell silent 1:30 ago, although its ")
    assert "its disk is full" in why


def test_what_blocks_the_dispatcher_is_told_in_its_own_words():
    blocked = worker(Role.DISPATCHER, WorkerState.BLOCKED, note="The broker is away.")
    assert told(blocked, batches=1) == "The broker is away."


def test_no_tokenizer():
    assert told(DISPATCHER, GPU, shards=1) == (
        "Its rows wait to be encoded, and no tokenizer worker lives. Start one: `pipeline worker tokenizer`."
    )


def test_no_gpu_worker():
    for silent in ([], [worker(Role.GPU, WorkerState.BUSY, seen=40.0)]):
        assert told(DISPATCHER, *silent, batches=1) == (
            "Its batches wait to be answered, and no gpu worker lives. Start one: `pipeline worker gpu`."
        )


@pytest.mark.parametrize(("role", "waiting"), [(Role.TOKENIZER, "shards"), (Role.GPU, "batches")])
def test_where_all_workers_failed_the_last_one_says_why(role, waiting):
    failed = [
        worker(role, WorkerState.FAILED, seen=seen, note=f"The device broke {seen:.0f} s ago.") for seen in (9.0, 500.0)
    ]
    assert told(DISPATCHER, *failed, **{waiting: 1}) == (
        f"All {role} workers have given up, the last one on far: The device broke 9 s ago."
    )


def test_one_living_worker_is_enough():
    failed = worker(Role.GPU, WorkerState.FAILED, note="It broke.")
    assert told(DISPATCHER, failed, GPU, batches=1) is None


@pytest.mark.parametrize(("role", "waiting"), [(Role.TOKENIZER, "shards"), (Role.GPU, "batches")])
def test_where_all_that_live_are_blocked_the_last_one_says_why(role, waiting):
    blocked = [worker(role, WorkerState.BLOCKED, seen=seen, note=f"Away since {seen:.0f}.") for seen in (1.0, 2.0)]
    assert told(DISPATCHER, *blocked, **{waiting: 1}) == (
        f"No {role} worker can go on, the last one on far because of this: Away since 1."
    )
    assert told(DISPATCHER, *blocked, worker(role), **{waiting: 1}) is None
    assert told(DISPATCHER, *blocked, TOKENIZER, GPU) is None


def test_a_shard_that_is_tried_in_vain_moves_nothing():
    blocked = worker(Role.TOKENIZER, WorkerState.BLOCKED, note="The disk is full.")
    why = "No tokenizer worker can go on, the last one on far because of this: The disk is full."
    assert told(DISPATCHER, blocked, shards=1, leased_shards=1) == why
    assert told(DISPATCHER, blocked, TOKENIZER, shards=1, leased_shards=1) is None


def ringing(**queued):
    return replace(DISPATCHER, facts=json.dumps({"queued": {"gpu": 0, "tokenizer": 0, **queued}}))


@pytest.mark.parametrize(("one", "waiting"), [(TOKENIZER, "shards"), (GPU, "batches")])
def test_messages_that_nobody_takes(one, waiting):
    assert told(ringing(**{one.role: 1}), one, **{waiting: 1}) == (
        f"1 message waits in the broker for {one.role} workers, and none that lives (on far) takes it. See that "
        "PIPELINE_BROKER_URL names the same Redis there as for the dispatcher on far, and start them again."
    )
    assert told(ringing(**{one.role: 1200}), one, **{waiting: 1}).startswith("1,200 messages wait")
    assert told(ringing(), one, **{waiting: 1}) is None
    assert told(ringing(**{one.role: 1}), one) is None


def test_messages_wait_where_workers_have_something_else_to_do():
    other = replace(JOB, id="j2", name="other", priority=-1)
    busy = worker(Role.GPU, WorkerState.BUSY, job_id="j2")
    assert told(ringing(gpu=1), busy, batches=1, others=(other,)) is None
    assert told(ringing(tokenizer=1), TOKENIZER, shards=1, others=(other,)) is None
    for over in (replace(other, paused_at=NOW), replace(other, fleet=False), replace(other, state=JobState.DONE)):
        assert told(ringing(tokenizer=1), TOKENIZER, shards=1, others=(over,)) is not None


def test_workers_that_load_their_model():
    loading = worker(Role.GPU, WorkerState.LOADING, model="qwen")
    starting = worker(Role.GPU, WorkerState.STARTING)
    assert told(DISPATCHER, loading, starting, batches=1) == (
        "The gpu workers are loading qwen; it goes on when they are ready."
    )
    assert told(DISPATCHER, starting, batches=1) == (
        "The gpu workers are loading the model; it goes on when they are ready."
    )
    assert told(DISPATCHER, loading, GPU, batches=1) is None


def test_workers_that_are_busy_with_jobs_of_a_higher_priority():
    first = replace(JOB, id="j2", name="first", priority=9)
    second = replace(JOB, id="j3", name="second", priority=4)
    lower = replace(JOB, id="j4", name="lower", priority=-1)
    busy = [worker(Role.GPU, WorkerState.BUSY, job_id=job.id) for job in (second, first, lower)]
    assert told(DISPATCHER, *busy, batches=1, others=(first, second, lower)) == (
        "The gpu workers are busy with first (priority 9), second (priority 4); this one's priority is 0."
    )


def test_a_batch_that_takes_long_holds_nothing_up():
    assert told(DISPATCHER, worker(Role.GPU, WorkerState.BUSY, job_id="j1"), shards=1, batches=9) is None


def test_a_shard_that_takes_long_holds_nothing_up():
    assert told(DISPATCHER, TOKENIZER, leased_shards=1, batches=1) is None


def test_a_producer_that_died():
    cutting = replace(JOB, state=JobState.CUTTING, n_rows=None)
    everybody = (DISPATCHER, TOKENIZER, GPU)
    assert told(*everybody, worker(Role.PRODUCER, job_id="j1"), job=cutting) is None
    for gone in ((), (worker(Role.PRODUCER, job_id="j2"),)):
        assert told(*everybody, *gone, job=cutting) == (
            "Whoever read its input died before the end of it. `pipeline resume 'my night'` reads the rest."
        )


def test_a_producer_that_is_silent_is_named_as_it_may_stand_still():
    cutting = replace(JOB, state=JobState.CUTTING, n_rows=None)
    silent = worker(Role.PRODUCER, seen=35.0, job_id="j1")
    assert told(DISPATCHER, TOKENIZER, GPU, silent, job=cutting) == (
        "Whoever reads its input (process 1 on far) fell silent 35.0 s ago. `pipeline resume 'my night'` reads the "
        "rest; if that process stands still, end it before (kill -9 1 there)."
    )


def test_the_first_cause_is_told():
    blocked = worker(Role.DISPATCHER, WorkerState.BLOCKED, note="The broker is away.")
    assert told(blocked, shards=1, batches=1) == "The broker is away."
    assert told(DISPATCHER, shards=1, batches=1).startswith("Its rows wait to be encoded")


def test_nothing_to_say():
    assert told(DISPATCHER, TOKENIZER, GPU, batches=1) is None


def test_a_batch_that_never_ends_is_told_with_the_process_to_kill():
    busy = worker(Role.GPU, WorkerState.BUSY, job_id="j1", batch_no=3, device="cuda:1")
    everybody = (DISPATCHER, TOKENIZER, busy)
    assert told(*everybody, batches=1, begun_at={3: NOW - OVERDUE_S + 1}) is None
    assert told(*everybody, batches=1, begun_at={2: NOW - 9 * OVERDUE_S}) is None
    assert told(*everybody, batches=1, moved=0.0, begun_at={3: NOW - 1800}) == (
        "The gpu worker on far (process 1, cuda:1) has been at batch 3 for 30 minutes. If its device stands still, "
        "kill that process: another one takes its place, and the batch."
    )
