"""The dispatcher, tick by tick, on a real broker and a real ledger."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.buckets import PlannedBatch
from pipeline.errors import TryAgain
from pipeline.ingest import token_files
from pipeline.messages import pack, unpack
from pipeline.rows import BatchTiming, Completion, Prompt, Status
from pipeline.settings import Settings
from pipeline.store.dispatch import Dispatch, Recovered
from pipeline.store.ledger import Ledger
from pipeline.store.lookup import read_job
from pipeline.store.queries import progress
from pipeline.store.records import BatchState, Role, WorkerState
from pipeline.store.registry import Registry
from tests.redis_server import RedisServer
from workers.broker.doorbell import Doorbell
from workers.dispatcher import Dispatcher


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path / "redis")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def doorbell(redis) -> Doorbell:
    return Doorbell(redis.url)


@pytest.fixture
def dispatcher(desk, doorbell) -> Dispatcher:
    return made(desk, doorbell)


def made(desk, doorbell, lost_after_s: float = 60.0) -> Dispatcher:
    """Of a fleet with two GPU workers."""
    desk.ledger.take_over(desk.job.id, fleet=True)
    registry = Registry(desk.database)
    for pid in (1, 2):
        registry.enter(Role.GPU, "host", pid)
    settings = Settings(home=desk.home, lost_after_s=lost_after_s)
    return Dispatcher(Dispatch(desk.database, desk.keys_of), registry, doorbell, settings)


def tick(dispatcher: Dispatcher, times: int = 1) -> None:
    for _ in range(times):
        left = iter([False])
        dispatcher.run(lambda left=left: next(left, True))


def states(desk) -> dict[BatchState, int]:
    return {state: count for state, count in progress(desk.database, desk.job.id).batches.items() if count}


def answer(desk, batch_no: int) -> None:
    claim = desk.ledger.claim_batch(desk.job.id, batch_no, "worker", 60.0)
    rows = [Completion(row_id, f"k{row_id}", Status.OK, "yes") for row_id in claim.row_ids]
    assert desk.ledger.finish(claim, rows, BatchTiming(), "cpu")


def test_shards_are_handed_to_tokenizers_no_more_than_they_can_soon_take(desk, dispatcher, doorbell):
    tick(dispatcher)
    assert doorbell.depth() == {"gpu": 0, "tokenizer": 2}
    tick(dispatcher)
    assert doorbell.depth() == {"gpu": 0, "tokenizer": 2}


def test_batches_are_handed_out_by_credit_and_more_follows_what_is_answered(desk, dispatcher, doorbell):
    desk.encode_all()
    tick(dispatcher)
    assert states(desk) == {BatchState.ENQUEUED: 6}
    assert doorbell.depth()["gpu"] == 6
    for batch_no in range(6):
        answer(desk, batch_no)
    dispatcher._recovered_at = float("-inf")
    tick(dispatcher)
    assert read_job(desk.database, desk.job.id).state == "done"


def test_a_message_carries_the_prompts_that_the_tokenizer_laid_by(desk, dispatcher, redis, doorbell, monkeypatch):
    prompts = [Prompt(row_id, f"k{row_id}", (7, row_id + 1)) for row_id in range(3)]
    place = str(desk.home / "00000-1.tokens")
    token_files.write(place, [pack((1, 2), [prompt]) for prompt in prompts])
    desk.encode_all(tokens={0: place})
    sent = []
    monkeypatch.setattr(doorbell, "ring_batch", lambda job_id, batch_no, payload: sent.append((batch_no, payload)) or 0)
    tick(dispatcher)
    assert [batch_no for batch_no, _ in sent] == list(range(6))
    assert [unpack(payload).prompts for _, payload in sent[:3]] == [(prompt,) for prompt in prompts]
    assert [payload for _, payload in sent[3:]] == [None] * 3


def test_when_a_job_is_done_the_prompts_of_all_attempts_are_gone(desk, dispatcher, redis):
    assert desk.ledger.claim_shard(desk.job.id, 0, "lost", 60.0)
    assert desk.ledger.died("lost", "killed") == 1
    tick(dispatcher)
    second = desk.ledger.claim_shard(desk.job.id, 0, "here", 60.0)
    places = [desk.home / token_files.name(0, fence) for fence in (1, second.fence)]
    for place in places:
        token_files.write(str(place), [b"prompts"])
    desk.encode_all(tokens={0: str(places[1])})
    tick(dispatcher)
    for batch_no in range(6):
        answer(desk, batch_no)
    dispatcher._recovered_at = float("-inf")
    tick(dispatcher)
    assert [place.exists() for place in places] == [False, False]


def test_a_broker_that_is_away_blocks_it_and_is_told_of_and_nothing_is_handed_out(desk, dispatcher, redis):
    desk.encode_all()
    redis.stop()
    tick(dispatcher)
    news = dispatcher.facts()
    assert news["state"] is WorkerState.BLOCKED
    assert "broker" in news["note"]
    assert states(desk) == {BatchState.PENDING: 6}
    redis.start()
    dispatcher._recovered_at = float("-inf")
    tick(dispatcher)
    assert dispatcher.facts()["note"] is None
    assert states(desk) == {BatchState.ENQUEUED: 6}


def test_the_brokers_trouble_is_logged_once_and_so_is_its_end(desk, dispatcher, redis, doorbell, monkeypatch, caplog):
    def look_again():
        dispatcher._recovered_at = float("-inf")
        tick(dispatcher)

    def refuse(*arguments):
        raise TryAgain("It takes nothing.")

    desk.encode_all()
    with monkeypatch.context() as answering:
        answering.setattr(doorbell, "ring_batch", refuse)
        for _ in range(3):
            look_again()
    assert caplog.messages == ["Nothing is handed out. It takes nothing."]
    look_again()
    look_again()
    assert caplog.messages[1:] == ["The broker can be used again."]
    redis.stop()
    look_again()
    look_again()
    assert [message.partition(" at ")[0] for message in caplog.messages[2:]] == ["Nothing is handed out. The broker"]


def test_a_broker_whose_memory_is_half_full_gets_nothing_more(desk, dispatcher, redis):
    desk.encode_all()
    client = redis.client()
    client.config_set("maxmemory", int(client.info("memory")["used_memory"] * 1.5))
    tick(dispatcher)
    assert "full" in dispatcher.facts()["note"]
    assert states(desk) == {BatchState.PENDING: 6}


def test_a_broker_that_is_too_small_for_anything_is_called_full(desk, dispatcher, redis):
    redis.fill()
    tick(dispatcher)
    assert re.match(r"The broker's memory is \d{3}% full", dispatcher.facts()["note"])


def test_a_broker_that_lost_all_is_told_all_again_at_once(desk, dispatcher, redis, doorbell):
    desk.encode_all()
    tick(dispatcher)
    assert doorbell.depth()["gpu"] == 6
    redis.client().flushall()
    dispatcher._recovered_at = float("-inf")
    tick(dispatcher)
    assert doorbell.depth()["gpu"] == 6
    assert states(desk) == {BatchState.ENQUEUED: 6}


def test_messages_that_vanished_are_missed_after_a_while_but_not_those_that_still_wait(desk, doorbell, redis):
    dispatcher = made(desk, doorbell, lost_after_s=0.0)
    desk.encode_all()
    tick(dispatcher)
    dispatcher._recovered_at = float("-inf")
    tick(dispatcher)
    assert doorbell.depth()["gpu"] == 6
    redis.client().ltrim("pipeline:gpu", 0, 2)
    dispatcher._recovered_at = float("-inf")
    tick(dispatcher)
    assert doorbell.depth()["gpu"] == 9
    assert states(desk) == {BatchState.ENQUEUED: 6}


def test_two_dispatchers_hand_each_batch_out_once(desk, dispatcher, doorbell):
    other = made(desk, doorbell)
    desk.encode_all()
    for _ in range(3):
        tick(dispatcher)
        tick(other)
    assert doorbell.depth()["gpu"] == 6


def test_it_tells_what_it_sees_of_the_broker(desk, dispatcher):
    desk.encode_all()
    tick(dispatcher, 2)
    facts = json.loads(dispatcher.facts()["facts"])
    assert set(facts["queued"]) == {"gpu", "tokenizer"}
    assert facts["memory"][0] > 0 < facts["memory"][1]


def test_tokenizers_that_are_many_get_more_shards_at_once(desk, dispatcher, doorbell):
    registry = Registry(desk.database)
    worker = registry.enter(Role.TOKENIZER, "host", 1)
    registry.beat(worker, facts=json.dumps({"concurrency": 8}))
    tick(dispatcher)
    assert doorbell.depth()["tokenizer"] == 2


def test_shards_of_a_job_are_handed_out_although_another_has_many_batches_waiting(desk, dispatcher, doorbell):
    desk.encode_all()
    ledger = desk.ledger
    big = ledger.create_job("big", "{}", "print", "model", "input", fleet=True)
    ledger.add_shard(big.id, 0, "/nowhere", 0, 500)
    ledger.finish_cutting(big.id, 500)
    ledger.record_encoding(big.id, 0, [PlannedBatch((row,), 1) for row in range(500)], [], 0.0)
    ledger.add_shard(late_job(ledger), 0, "/nowhere", 0, 5)
    tick(dispatcher)
    assert doorbell.depth()["tokenizer"] == 1


def late_job(ledger) -> str:
    return ledger.create_job("late", "{}", "print", "model", "input", fleet=True, priority=10).id


@pytest.fixture
def at(desk, doorbell) -> Callable[[float], int]:
    """How many batches are leased once a dispatcher has looked at the ledger, at such a time; one is at first."""
    now = [0.0]
    dispatcher = made(desk, doorbell)
    dispatcher._dispatch = Dispatch(desk.database, desk.keys_of, lambda: now[0])
    desk.encode_all()
    assert Ledger(desk.database, lambda: now[0]).claim_batch(desk.job.id, 0, "worker", 5.0)

    def at(seconds: float, recover: Callable[..., object] = dispatcher._dispatch.recover) -> int:
        now[0] = seconds
        dispatcher._dispatch.recover = recover
        dispatcher._recovered_at = float("-inf")
        tick(dispatcher)
        return states(desk).get(BatchState.LEASED, 0)

    return at


def test_a_lease_that_runs_out_before_its_eyes_is_taken(at):
    assert [at(seconds) for seconds in (0.0, 20.0, 40.0, 59.0, 61.0)] == [1, 1, 1, 1, 0]


def test_a_database_that_stood_still_and_says_nothing_of_it_is_given_time_to_be_heard_through(at):
    assert [at(seconds) for seconds in (-90.0, -70.0, -50.0, -30.0, -10.0, 3.0)] == [1] * 6
    assert [at(seconds) for seconds in (63.0, 83.0, 103.0, 122.0, 124.0)] == [1, 1, 1, 1, 0]


def test_while_the_database_was_away_nobody_could_renew_a_lease_so_none_is_taken_to_have_run_out(at):
    def away(*_: object) -> Recovered:
        raise TryAgain("The database did not answer.")

    assert [at(seconds) for seconds in (-90.0, -70.0, -50.0, -30.0, -10.0)] == [1] * 5
    assert at(0.0, away) == 1
    assert [at(seconds) for seconds in (10.0, 30.0, 50.0, 69.0, 71.0)] == [1, 1, 1, 1, 0]


def test_prompts_that_cannot_be_read_keep_no_message_back(desk, dispatcher, doorbell, monkeypatch):
    desk.encode_all(tokens={0: "nowhere://0.tokens"})
    tick(dispatcher)
    assert doorbell.depth()["gpu"] == 6


def test_the_prompts_of_a_job_that_is_done_are_deleted(desk, dispatcher):
    place = desk.home / "00000-1.tokens"
    token_files.write(str(place), [pack((1,), [Prompt(row_id, f"k{row_id}", (7,))]) for row_id in range(3)])
    desk.encode_all(tokens={0: str(place)})
    tick(dispatcher)
    for batch_no in range(6):
        answer(desk, batch_no)
    dispatcher._recovered_at = float("-inf")
    tick(dispatcher)
    assert read_job(desk.database, desk.job.id).state == "done"
    assert not place.exists()
