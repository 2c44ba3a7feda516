"""A broker that loses, repeats or spoils messages, or is away: it is a doorbell, and the ledger knows what is to do."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import redis

from tests.fleet.marks import on_sqlite

GPU = "pipeline:gpu"


def test_everything_in_the_broker_is_lost(fleet, rows, name, calm):
    with messages_waiting(fleet, rows, name) as client:
        client.flushall()
    fleet.until_done(name)
    fleet.require_whole(name, calm)


def test_the_broker_is_killed_and_starts_again_empty(fleet, job, calm):
    fleet.redis.kill()
    fleet.redis.start()
    fleet.until_done(job)
    fleet.require_whole(job, calm)
    assert fleet.seen.crashes(job) == 0


@on_sqlite
def test_the_broker_stands_still_for_a_while(fleet, job, calm):
    with fleet.redis.frozen():
        time.sleep(8)
    fleet.until_done(job)
    fleet.require_whole(job, calm)


@on_sqlite
def test_the_broker_closes_all_connections(fleet, job, calm):
    fleet.redis.client().execute_command("CLIENT", "KILL", "TYPE", "normal")
    fleet.until_done(job)
    fleet.require_whole(job, calm)


@on_sqlite
def test_messages_vanish_from_the_broker(fleet, rows, name, calm):
    with messages_waiting(fleet, rows, name) as client:
        assert client.delete(GPU) == 1
    fleet.until_done(name)
    fleet.require_whole(name, calm)


@on_sqlite
def test_every_message_comes_twice(fleet, rows, name, calm):
    with messages_waiting(fleet, rows, name) as client:
        client.lpush(GPU, *client.lrange(GPU, 0, -1))
    fleet.until_done(name)
    fleet.require_whole(name, calm)
    assert {row.attempts for row in fleet.seen.batches(name)} == {1}


@on_sqlite
def test_messages_are_damaged(fleet, rows, name, calm):
    workers = [fleet.worker(guard) for guard in ("gpu0", "gpu1")]
    with messages_waiting(fleet, rows, name) as client:
        halves = [message[: len(message) // 2] for message in client.lrange(GPU, 0, -1)]
        client.delete(GPU)
        client.rpush(GPU, b"\xff\x00nonsense", b"{}", b'{"body": 1}', *halves)
    fleet.until_done(name)
    fleet.require_whole(name, calm)
    assert [fleet.worker(guard) for guard in ("gpu0", "gpu1")] == workers


@on_sqlite
def test_a_broker_that_is_full_stops_nobody_and_status_says_so(fleet, rows, name, calm):
    workers = [fleet.worker(guard) for guard in ("gpu0", "gpu1")]
    try:
        with fleet.held("encoding"):
            fleet.submit(rows, name)
            fleet.redis.fill()
            fleet.until(lambda: "full" in (dispatcher(fleet, name)["note"] or ""))
            assert dispatcher(fleet, name)["state"] == "blocked"
            assert fleet.seen.job(name).state == "running"
    finally:
        fleet.redis.empty()
    fleet.until_done(name)
    fleet.require_whole(name, calm)
    assert [fleet.worker(guard) for guard in ("gpu0", "gpu1")] == workers


@on_sqlite
def test_a_job_is_submitted_while_the_broker_is_down(fleet, rows, name, calm):
    fleet.redis.kill()
    fleet.submit(rows, name)
    fleet.until(lambda: "cannot be used just now" in (dispatcher(fleet, name)["note"] or ""))
    fleet.redis.start()
    fleet.until_done(name)
    fleet.require_whole(name, calm)


@contextmanager
def messages_waiting(fleet, rows, name) -> Iterator[redis.Redis]:
    """While the workers are held at a batch each."""
    client = fleet.redis.client()
    with fleet.held("answering"):
        fleet.submit(rows, name)
        fleet.until(lambda: client.llen(GPU) > 1 and len(fleet.seen.begun(name)) == 2)
        yield client


def dispatcher(fleet, job) -> dict[str, object]:
    return next(worker for worker in fleet.status(job)["fleet"]["workers"] if worker["role"] == "dispatcher")
