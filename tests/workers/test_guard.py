"""Whether a GPU worker that died is started again, and what the ledger is told, by what it said last."""

import os
import socket
import subprocess
import sys

import pytest

from pipeline.rows import Status
from pipeline.store.lookup import read_job
from pipeline.store.queries import progress, stream_results
from pipeline.store.records import BatchState, Role, WorkerState
from pipeline.store.registry import Registry
from workers.guard import Guard

KILLED = -9


@pytest.fixture
def registry(desk) -> Registry:
    return Registry(desk.database)


@pytest.fixture
def guard(desk, registry) -> Guard:
    desk.encode_all()
    return Guard(desk.ledger, registry, "cpu")


@pytest.fixture
def pid() -> int:
    """Of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def worker(registry, pid, **news) -> str:
    worker_id = registry.enter(Role.GPU, socket.gethostname(), pid, "cpu")
    registry.beat(worker_id, **news)
    return worker_id


def test_what_a_dead_worker_held_is_free_at_once_and_only_what_it_had_begun_is_blamed(desk, guard, registry, pid):
    owner = worker(registry, pid, state=WorkerState.BUSY)
    begun, waiting = (desk.ledger.claim(desk.job.id, owner, 60.0) for _ in range(2))
    desk.ledger.begin(begun)
    assert guard.died(pid, KILLED) is True
    assert progress(desk.database, desk.job.id).batches[BatchState.LEASED] == 0
    assert registry.all() == []
    assert [desk.ledger.bisect(desk.job.id, desk.keys_of), guard.died(pid, KILLED)] == [(0, 0), True]
    again = worker(registry, pid, state=WorkerState.BUSY)
    for claim in (waiting, begun):
        taken = desk.ledger.claim_batch(desk.job.id, claim.batch_no, again, 60.0)
        desk.ledger.begin(taken)
    guard.died(pid, KILLED)
    assert desk.ledger.bisect(desk.job.id, desk.keys_of) == (0, 1)
    (dead,) = stream_results(desk.database, desk.job.id, Status.ERROR)
    assert dead.row_id == begun.row_ids[0]
    assert "killed by signal 9 (SIGKILL), as happens when memory runs out" in dead.error


@pytest.mark.skipif(sys.platform != "linux", reason="Only Linux tells containers apart.")
def test_a_worker_of_the_same_pid_in_another_container_of_the_host_is_left_alone(
    desk, guard, registry, pid, monkeypatch
):
    mine = worker(registry, pid, state=WorkerState.BUSY)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("pipeline.store.registry._pid_space", lambda: "4026532001")
        others = worker(registry, pid, state=WorkerState.BUSY)
    held, kept = (desk.ledger.claim(desk.job.id, owner, 60.0) for owner in (mine, others))
    guard.died(pid, KILLED)
    assert [record.id for record in registry.all()] == [others]
    assert not desk.ledger.renew(held, 60.0)
    guard.let_go()
    assert [record.id for record in registry.all()] == [others]
    assert desk.ledger.renew(kept, 60.0)


def test_one_that_ended_since_others_are_away_is_started_again_for_ever(guard, pid):
    assert all(guard.died(pid, returncode) for returncode in [0, 75] * 20)


def test_one_that_dies_at_its_start_is_given_up_with_a_note_after_three_times(guard, registry, pid):
    assert [guard.died(pid, 1) for _ in range(3)] == [True, True, False]
    (record,) = registry.all()
    assert (record.role, record.state, record.device) == (Role.GPU, WorkerState.FAILED, "cpu")
    assert record.note == "Its process ended at its start, 3 times in a row: ended with status 1."


def test_one_that_dies_as_it_loads_a_model_holds_that_job_after_three_times_and_is_started_again(
    desk, guard, registry, pid
):
    for attempt in range(3):
        assert read_job(desk.database, desk.job.id).paused_at is None, attempt
        owner = worker(registry, pid, state=WorkerState.LOADING, job_id=desk.job.id, model="huge")
        assert desk.ledger.claim(desk.job.id, owner, 60.0) is not None
        assert guard.died(pid, KILLED) is True
    job = read_job(desk.database, desk.job.id)
    assert job.paused_at is not None
    assert "died while it loaded the model huge, 3 times in a row: killed by signal 9 (SIGKILL)" in job.error
    assert desk.ledger.bisect(desk.job.id, desk.keys_of) == (0, 0)


def test_one_that_dies_again_and_again_without_an_answer_is_given_up(guard, registry, pid):
    told = []
    for _ in range(25):
        worker(registry, pid, state=WorkerState.BUSY)
        told.append(guard.died(pid, KILLED))
    assert told == [True] * 24 + [False]
    (record,) = registry.all()
    assert record.state is WorkerState.FAILED
    assert "25 times in a row before it had answered a batch" in record.note


def test_an_answer_in_between_makes_it_an_accident(guard, registry, pid):
    for attempt in range(60):
        worker(registry, pid, state=WorkerState.BUSY, batches=attempt % 20 == 0)
        assert guard.died(pid, KILLED) is True


def test_what_one_held_that_was_asked_to_stop_and_killed_is_free_and_nobody_is_blamed(desk, guard, registry, pid):
    for _ in range(2):
        owner = worker(registry, pid, state=WorkerState.BUSY)
        assert desk.ledger.begin(desk.ledger.claim_batch(desk.job.id, 0, owner, 60.0))
        guard.let_go()
        assert registry.all() == []
    assert progress(desk.database, desk.job.id).batches[BatchState.LEASED] == 0
    assert desk.ledger.bisect(desk.job.id, desk.keys_of) == (0, 0)


def test_one_that_lives_keeps_what_it_holds(desk, guard, registry):
    owner = worker(registry, os.getpid(), state=WorkerState.BUSY)
    assert desk.ledger.claim_batch(desk.job.id, 0, owner, 60.0)
    guard.let_go()
    assert len(registry.all()) == progress(desk.database, desk.job.id).batches[BatchState.LEASED] == 1


def test_of_several_that_had_its_pid_the_newest_is_meant(desk, guard, registry, pid):
    worker(registry, pid, state=WorkerState.LOADING, job_id=desk.job.id)
    newest = worker(registry, pid, state=WorkerState.BUSY)
    assert guard.died(pid, KILLED) is True
    assert newest not in {record.id for record in registry.all()}


def test_one_that_failed_and_told_why_is_not_started_again_and_its_reason_stays(guard, registry, pid):
    registry.fail(worker(registry, pid), "There is no device cuda:7.")
    assert guard.died(pid, 1) is False
    (record,) = registry.all()
    assert record.note == "There is no device cuda:7."


def test_one_that_is_given_up_tells_of_itself_alone(guard, registry, pid):
    registry.fail(worker(registry, pid), "There is no device cpu.")
    for _ in range(3):
        guard.died(os.getpid(), 1)
    (record,) = registry.all()
    assert record.note.startswith("Its process ended at its start")


def test_the_next_one_waits_for_the_rest_of_a_minute_after_one_failed_there_and_its_reason_stays(desk, pid, caplog):
    now = [1000.0]
    registry = Registry(desk.database, lambda: now[0])
    guard = Guard(desk.ledger, registry, "cpu")
    assert guard.pause_s() == 0.0
    registry.fail(registry.enter(Role.GPU, socket.gethostname(), pid, "cuda:1"), "It has no memory.")
    assert guard.pause_s() == 0.0
    registry.fail(worker(registry, pid), "There is no such device.")
    now[0] += 20.0
    assert guard.pause_s() == 40.0
    assert caplog.messages == ["The last worker on cpu failed: There is no such device. It is tried again in 40 s."]
    now[0] += 40.0
    assert guard.pause_s() == 0.0
    assert len(registry.all()) == 2
