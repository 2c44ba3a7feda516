"""What may befall a fleet at any moment. Whatever has to be started again by somebody is, and the rest mends itself."""

import os
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from random import Random

import psycopg

from tests.fleet.fleet import Fleet

Disturbance = Callable[[Fleet, Random], None]
GPU = "pipeline:gpu"


def worker_killed(fleet: Fleet, chance: Random) -> None:
    _signal_one(fleet.children(_a_gpu(chance)), signal.SIGKILL)


def guard_killed(fleet: Fleet, chance: Random) -> None:
    fleet.restart(_a_gpu(chance))


def worker_asked_to_stop(fleet: Fleet, chance: Random) -> None:
    name = _a_gpu(chance)
    fleet.processes[name].terminate()
    fleet.processes[name].wait(timeout=90)
    fleet.restart(name)


def worker_frozen(fleet: Fleet, chance: Random) -> None:
    pids = fleet.children(_a_gpu(chance))
    _signal_one(pids, signal.SIGSTOP)
    time.sleep(chance.uniform(1, 6))
    _signal_one(pids, signal.SIGCONT)


def encoder_killed(fleet: Fleet, chance: Random) -> None:
    _signal_one(fleet.children("tokenizer"), signal.SIGKILL)


def tokenizer_killed(fleet: Fleet, chance: Random) -> None:
    fleet.restart("tokenizer")


def dispatcher_killed(fleet: Fleet, chance: Random) -> None:
    fleet.kill("dispatcher")
    time.sleep(chance.uniform(0, 2))
    fleet.restart("dispatcher")


def broker_flushed(fleet: Fleet, chance: Random) -> None:
    fleet.redis.client().flushall()


def broker_killed(fleet: Fleet, chance: Random) -> None:
    fleet.redis.kill()
    time.sleep(chance.uniform(0, 4))
    fleet.redis.start()


def broker_frozen(fleet: Fleet, chance: Random) -> None:
    with fleet.redis.frozen():
        time.sleep(chance.choice([2, 8, 30]))


def broker_full(fleet: Fleet, chance: Random) -> None:
    fleet.redis.fill()
    time.sleep(chance.uniform(1, 5))
    fleet.redis.empty()


def connections_to_the_broker_closed(fleet: Fleet, chance: Random) -> None:
    fleet.redis.client().execute_command("CLIENT", "KILL", "TYPE", "normal")


def messages_lost(fleet: Fleet, chance: Random) -> None:
    fleet.redis.client().ltrim(GPU, 0, chance.randrange(3))


def messages_doubled(fleet: Fleet, chance: Random) -> None:
    client = fleet.redis.client(decode=False)  # some may be damaged
    if waiting := client.lrange(GPU, 0, -1):
        client.lpush(GPU, *waiting)


def message_damaged(fleet: Fleet, chance: Random) -> None:
    fleet.redis.client().rpush(GPU, chance.randbytes(40))


def database_locked(fleet: Fleet, chance: Random) -> None:
    """By whoever writes for long."""
    with closing(sqlite3.connect(fleet.database_url.removeprefix("sqlite:///"), timeout=60)) as other:
        other.execute("BEGIN IMMEDIATE")
        time.sleep(chance.uniform(1, 5))


def database_restarted(fleet: Fleet, chance: Random) -> None:
    assert fleet.postgres is not None
    fleet.postgres.restart()


def database_killed(fleet: Fleet, chance: Random) -> None:
    assert fleet.postgres is not None
    fleet.postgres.kill()
    time.sleep(chance.uniform(0, 5))
    fleet.postgres.start()


def connections_to_the_database_ended(fleet: Fleet, chance: Random) -> None:
    assert fleet.postgres is not None
    with psycopg.connect(fleet.postgres.url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


_OF_ALL: list[Disturbance] = [
    worker_killed,
    guard_killed,
    worker_asked_to_stop,
    worker_frozen,
    encoder_killed,
    tokenizer_killed,
    dispatcher_killed,
    broker_flushed,
    broker_killed,
    broker_frozen,
    broker_full,
    connections_to_the_broker_closed,
    messages_lost,
    messages_doubled,
    message_damaged,
]
#: By the database's name.
DISTURBANCES: dict[str, list[Disturbance]] = {
    "sqlite": [*_OF_ALL, database_locked],
    "postgresql": [*_OF_ALL, database_restarted, database_killed, connections_to_the_database_ended],
}


def _a_gpu(chance: Random) -> str:
    return chance.choice(["gpu0", "gpu1"])


def _signal_one(pids: list[int], number: signal.Signals) -> None:
    """None where it is being started anew just now."""
    for pid in pids[:1]:
        os.kill(pid, number)
