import os
import signal
import socket

import pytest

from pipeline.errors import DeviceLost, TryAgain
from pipeline.store.integrity import check_integrity
from pipeline.store.queries import find_job, progress, stream_results
from pipeline.store.records import BatchState
from workers.local import LocalRunner, Outcome
from workers.process import StopRequest


@pytest.fixture
def run(desk):
    """Runs a walk to its end; how it ended."""

    def run_one(journey, on_change=lambda: None):
        runner = LocalRunner(desk.job.id, journey, desk.ledger, desk.members, 60.0, desk.keys_of)
        state = lambda: find_job(desk.database, "night").state  # noqa: E731
        return runner.run(StopRequest(lambda: None), state, on_change)

    return run_one


def batches(desk, state):
    return progress(desk.database, desk.job.id).batches[state]


def statuses(desk):
    return [str(result.status) for result in stream_results(desk.database, desk.job.id)]


def test_a_job_is_walked_to_its_end(desk, run, walk):
    journey, changes = walk(), []
    assert run(journey, lambda: changes.append(1)) is Outcome.DONE
    assert journey.answered == [0, 1, 2, 3, 4, 5]
    assert len(changes) == 2 + 6
    assert find_job(desk.database, "night").state == "done"
    assert check_integrity(desk.database, desk.job.id) == []
    assert desk.members.jobs_at_work() == set()


def test_a_job_that_another_has_done_is_done(desk, run, walk):
    run(walk())
    idle = walk()
    assert run(idle) is Outcome.DONE
    assert idle.answered == []


def test_what_is_encoded_is_answered_before_more_is_encoded(desk, run, walk):
    waiting = []
    run(walk(lambda claim: waiting.append(batches(desk, BatchState.PENDING))))
    assert max(waiting) == 2


def test_cancelled_by_another_it_ends_and_records_nothing_more(desk, run, walk):
    def on_answer(claim):
        if claim.batch_no == 1:
            desk.cancel()

    assert run(walk(on_answer)) is Outcome.CANCELLED
    assert statuses(desk) == ["ok", *["cancelled"] * 5]
    assert check_integrity(desk.database, desk.job.id) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_records_the_batch_in_hand(desk, run, walk, number):
    def on_answer(claim):
        if claim.batch_no == 1:
            os.kill(os.getpid(), number)

    assert run(walk(on_answer)) is Outcome.STOPPED
    assert statuses(desk) == ["ok", "ok"]
    assert batches(desk, BatchState.LEASED) == 0
    assert run(walk()) is Outcome.DONE
    assert statuses(desk) == ["ok"] * 6


def test_asked_to_stop_in_the_last_batch_it_is_done(desk, run, walk):
    def on_answer(claim):
        if claim.batch_no == 5:
            os.kill(os.getpid(), signal.SIGINT)

    assert run(walk(on_answer)) is Outcome.DONE
    assert find_job(desk.database, "night").state == "done"


@pytest.mark.parametrize("error", [TryAgain("The disk is full."), KeyboardInterrupt(), RuntimeError("odd")])
def test_a_batch_whose_answer_fails_is_given_back(desk, run, walk, error):
    def on_answer(claim):
        raise error

    with pytest.raises(type(error)):
        run(walk(on_answer))
    assert (batches(desk, BatchState.PENDING), batches(desk, BatchState.LEASED)) == (3, 0)
    assert desk.members.jobs_at_work() == set()
    assert run(walk()) is Outcome.DONE
    assert check_integrity(desk.database, desk.job.id) == []


def test_a_batch_at_which_the_device_was_lost_counts_as_what_the_process_died_of(desk, run, walk):
    def on_answer(claim):
        raise DeviceLost("The device failed.")

    with pytest.raises(DeviceLost):
        run(walk(on_answer))
    assert batches(desk, BatchState.LEASED) == 1
    assert run(walk()) is Outcome.DONE
    assert check_integrity(desk.database, desk.job.id) == []


def test_a_batch_of_the_dead_is_taken_over_at_once(desk, run, walk):
    desk.encode_all()
    dead = desk.ledger.claim(desk.job.id, f"{socket.gethostname()}/{desk.job.id}.0123", 1000.0)
    journey = walk()
    assert run(journey) is Outcome.DONE
    assert journey.answered[0] == dead.batch_no
    assert not walk().answer(dead)
    assert check_integrity(desk.database, desk.job.id) == []


def test_a_batch_of_another_host_is_taken_over_when_its_lease_has_run_out(desk, run, walk):
    desk.encode_all()
    desk.ledger.claim(desk.job.id, f"elsewhere/{desk.job.id}.0123", 0.5)
    journey = walk()
    assert run(journey) is Outcome.DONE
    assert sorted(journey.answered) == [0, 1, 2, 3, 4, 5]


def test_a_batch_of_the_living_is_left_to_it(desk, run, walk):
    """It is answered by its holder once the runner has done all the others and waits."""
    desk.encode_all()
    with desk.members.joined(desk.job.id) as owner:
        held = desk.ledger.claim(desk.job.id, owner, 1000.0)
        holder, journey = walk(), walk()

        def on_change():
            if len(journey.answered) == 5:
                assert holder.answer(held)

        assert run(journey, on_change) is Outcome.DONE
    assert (holder.answered, journey.answered) == ([0], [1, 2, 3, 4, 5])
    assert check_integrity(desk.database, desk.job.id) == []


def test_a_batch_that_killed_two_processes_is_an_error_and_the_rest_is_answered(desk, walk, run):
    desk.encode_all()
    for attempt in range(2):
        claim = desk.ledger.claim(desk.job.id, f"dead-{attempt}", 60.0)
        assert desk.ledger.begin(claim)
        desk.ledger.died(f"dead-{attempt}", "killed by signal 9 (SIGKILL)")
    assert run(walk()) is Outcome.DONE
    told = progress(desk.database, desk.job.id)
    assert (told.ok, told.error) == (5, 1)
    (failed,) = [row for row in stream_results(desk.database, desk.job.id) if row.status == "error"]
    assert (failed.row_id, failed.key, failed.error_type) == (0, "k0", "crash")
    assert "killed by signal 9 (SIGKILL)" in failed.error
