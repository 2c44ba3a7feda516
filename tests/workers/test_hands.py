"""A GPU worker's threads on a real ledger, with a model that a test plays."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from sqlalchemy.exc import StatementError

from pipeline.buckets import PlannedBatch
from pipeline.errors import DeviceLost, ModelError, TryAgain
from pipeline.messages import Payload, pack
from pipeline.rows import BatchTiming, Completion, Prompt, Status, Twin
from pipeline.store.integrity import check_integrity
from pipeline.store.lookup import read_job
from pipeline.store.queries import progress
from pipeline.store.records import BatchState, Claim, WorkerState
from workers.hands import FAULT, Hands, _or_exit
from workers.tally import Tally

TIMING = BatchTiming(computed_tokens=5, output_tokens=2)


@dataclass
class Model:
    """Answers every row, once `open` is set; remembers what it was given."""

    given: list[tuple[int, Payload | None]] = field(default_factory=list)
    open: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)

    def run(self, claim: Claim, payload: Payload | None, load_s: float):
        self.given.append((claim.batch_no, payload))
        self.begun.set()
        assert self.open.wait(60)
        rows = [Completion(row_id, f"k{row_id}", Status.OK, "yes") for row_id in claim.row_ids]
        return SimpleNamespace(claim=claim, device="cpu", written=lambda: (rows, TIMING))


def until(is_so: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def tally() -> Tally:
    return Tally()


@pytest.fixture
def hands(desk, model, tally) -> Hands:
    desk.encode_all()
    return Hands("here/gpu.1", desk.ledger, lambda job_id: model, tally, 60.0)


def done(desk) -> int:
    return progress(desk.database, desk.job.id).batches[BatchState.DONE]


def message(*row_ids: int) -> bytes:
    return pack((1, 2), [Prompt(row_id, f"k{row_id}", (3, 4)) for row_id in row_ids])


def test_what_is_received_is_answered_recorded_and_counted(desk, hands, model, tally):
    model.open.set()
    with hands.working():
        for batch_no in range(6):
            hands.receive(desk.job.id, batch_no, message(batch_no))
        until(lambda: done(desk) == 6)
    assert [payload.prompts[0].row_id for _, payload in model.given] == list(range(6))
    facts = tally.facts()
    assert (facts["batches"], facts["rows"], facts["tokens"]) == (6, 6, 42)
    assert desk.ledger.complete(desk.job.id)
    assert check_integrity(desk.database, desk.job.id) == []


def test_a_message_is_taken_where_its_prompts_have_all_rows_of_the_batch_as_twins_or_by_themselves(desk, model, tally):
    desk.ledger.record_encoding(desk.job.id, 0, [PlannedBatch((0, 2, 1), 4, prompt_rows=(2, 1))], [], 0.0)
    desk.ledger.record_encoding(desk.job.id, 1, [PlannedBatch((3, 5, 4), 4, prompt_rows=(2, 1))], [], 0.0)
    whole = (Prompt(0, "k0", (3, 4), twins=(Twin(2, "k2"),)), Prompt(1, "k1", (5,)))
    model.open.set()
    hands = Hands("here/gpu.1", desk.ledger, lambda job_id: model, tally, 60.0)
    with hands.working():
        hands.receive(desk.job.id, 0, pack((1, 2), whole))
        hands.receive(desk.job.id, 1, message(3, 4))
        until(lambda: done(desk) == 2)
    assert model.given == [(0, Payload((1, 2), whole)), (1, None)]


def test_the_next_batch_is_claimed_and_read_while_one_is_computed_and_no_more_than_that(desk, hands, model):
    with hands.working():
        receiver = threading.Thread(
            target=lambda: [hands.receive(desk.job.id, batch_no, message(batch_no)) for batch_no in range(4)]
        )
        receiver.start()
        assert model.begun.wait(60)
        until(lambda: progress(desk.database, desk.job.id).batches[BatchState.LEASED] == 2)
        time.sleep(0.1)
        assert progress(desk.database, desk.job.id).batches[BatchState.LEASED] == 2
        model.open.set()
        receiver.join()
        until(lambda: done(desk) == 4)


def test_a_message_that_comes_twice_is_answered_once(desk, hands, model):
    model.open.set()
    with hands.working():
        for _ in range(3):
            hands.receive(desk.job.id, 0, message(0))
        until(lambda: done(desk) == 1)
        hands.receive(desk.job.id, 0, message(0))
        hands.receive(desk.job.id, 1, message(1))
        until(lambda: done(desk) == 2)
    assert [batch_no for batch_no, _ in model.given] == [0, 1]


@pytest.mark.parametrize("lost", [None, b"", b"damaged", message(5), message(0)[:-1]])
def test_a_message_that_is_lost_damaged_or_of_other_rows_leaves_the_rows_to_be_encoded_again(desk, hands, model, lost):
    model.open.set()
    with hands.working():
        hands.receive(desk.job.id, 0, lost)
        until(lambda: done(desk) == 1)
    assert model.given == [(0, None)]


@pytest.mark.parametrize("foreign", [(5, 0, None), ("a job", {}, None), ("a job", 2**70, b"")])
def test_a_message_that_no_dispatcher_sent_keeps_no_other_waiting(desk, hands, model, foreign):
    model.open.set()
    with hands.working():
        with pytest.raises((StatementError, OverflowError)):
            hands.receive(*foreign)
        hands.receive(desk.job.id, 0, "text")
        until(lambda: done(desk) == 1)
    assert model.given == [(0, None)]


def test_when_it_is_stopped_the_batch_in_hand_is_recorded_and_the_waiting_one_given_back(desk, hands, model):
    with hands.working():
        hands.receive(desk.job.id, 0, message(0))
        assert model.begun.wait(60)
        hands.receive(desk.job.id, 1, message(1))
        hands.stop()
        hands.receive(desk.job.id, 2, message(2))
        model.open.set()
    told = progress(desk.database, desk.job.id)
    assert (told.batches[BatchState.DONE], told.batches[BatchState.PENDING], told.batches[BatchState.LEASED]) == (
        1,
        5,
        0,
    )
    claim = desk.ledger.claim(desk.job.id, "next", 60.0)
    assert (claim.batch_no, claim.attempts) == (1, 2)


def test_a_job_that_this_machine_cannot_answer_is_paused_with_the_reason_and_its_batch_is_free(desk, model, tally):
    desk.encode_all()

    def answering(job_id: str):
        raise ModelError("There is no model at /models/x: no such file or directory.")

    with Hands("gpuhost/gpu.1", desk.ledger, answering, tally, 60.0).working() as _:
        pass
    hands = Hands("gpuhost/gpu.1", desk.ledger, answering, tally, 60.0)
    with hands.working():
        hands.receive(desk.job.id, 0, message(0))
        until(lambda: read_job(desk.database, desk.job.id).paused_at is not None)
    job = read_job(desk.database, desk.job.id)
    assert job.error == "On gpuhost: There is no model at /models/x: no such file or directory."
    assert progress(desk.database, desk.job.id).batches[BatchState.PENDING] == 6


def test_what_is_paused_after_it_was_claimed_is_not_begun(desk, hands, model):
    with hands.working():
        hands.receive(desk.job.id, 0, message(0))
        assert model.begun.wait(60)
        hands.receive(desk.job.id, 1, message(1))
        desk.ledger.pause(desk.job.id)
        model.open.set()
        until(lambda: progress(desk.database, desk.job.id).batches[BatchState.LEASED] == 0)
    assert [batch_no for batch_no, _ in model.given] == [0]
    assert done(desk) == 1


def test_a_moments_trouble_of_the_machine_gives_the_batch_back_and_the_worker_goes_on(desk, model, tally, monkeypatch):
    monkeypatch.setattr("workers.hands._AGAIN_S", 0.01)
    desk.encode_all()
    troubles, blocked, told = iter([TryAgain("The disk is full.")]), tally.blocked, []
    monkeypatch.setattr(tally, "blocked", lambda note: told.append(note) or blocked(note))

    def answering(job_id: str):
        for trouble in troubles:
            raise trouble
        return model

    model.open.set()
    hands = Hands("here/gpu.1", desk.ledger, answering, tally, 60.0)
    with hands.working():
        hands.receive(desk.job.id, 0, message(0))
        hands.receive(desk.job.id, 1, message(1))
        until(lambda: done(desk) == 1)
    assert told == ["The disk is full."]
    assert tally.facts()["note"] is None
    assert read_job(desk.database, desk.job.id).paused_at is None
    assert [batch_no for batch_no, _ in model.given] == [1]


def test_a_device_that_is_lost_ends_the_process_with_its_batch_in_hand(desk, tally, monkeypatch):
    desk.encode_all()
    ended = []

    class Lost:
        def run(self, claim, payload, load_s):
            raise DeviceLost("The device failed.")

    def end(status):
        ended.append(status)
        raise SystemExit

    monkeypatch.setattr("workers.hands.os._exit", end)
    hands = Hands("here/gpu.1", desk.ledger, lambda job_id: Lost(), tally, 60.0)
    hands.receive(desk.job.id, 0, message(0))
    with pytest.raises(SystemExit):
        _or_exit(hands._compute)
    assert ended == [FAULT]
    assert progress(desk.database, desk.job.id).batches[BatchState.LEASED] == 1


def test_a_database_that_is_away_for_a_moment_costs_no_answer(desk, hands, model, monkeypatch):
    finish, refusals = desk.ledger.finish, iter([TryAgain("The database is locked."), TryAgain("It is locked.")])

    def refuse_first(*arguments):
        for refusal in refusals:
            raise refusal
        return finish(*arguments)

    monkeypatch.setattr(desk.ledger, "finish", refuse_first)
    monkeypatch.setattr("workers.hands._AGAIN_S", 0.01)
    model.open.set()
    with hands.working():
        hands.receive(desk.job.id, 0, message(0))
        until(lambda: done(desk) == 1)
    assert len(model.given) == 1


def test_answers_of_a_batch_that_went_to_another_do_not_count(desk, hands, model, tally):
    with hands.working():
        hands.receive(desk.job.id, 0, message(0))
        assert model.begun.wait(60)
        desk.ledger.died("here/gpu.1", "thought to be dead")
        model.open.set()
    assert done(desk) == 0
    assert (tally.facts()["batches"], tally.facts()["state"]) == (0, WorkerState.IDLE)
