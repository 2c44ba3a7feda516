import os
import socket
from collections import Counter

import pytest

from pipeline.errors import TryAgain
from pipeline.settings import Settings
from pipeline.store.database import open_database
from pipeline.store.records import Role
from pipeline.store.registry import Registry
from workers.readiness import Readiness

HOST = socket.gethostname()


class Clock:
    """A second later each time that it is asked."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1
        return self.now


@pytest.fixture
def registry(tmp_path):
    return Registry(open_database(Settings(home=tmp_path, database_url=f"sqlite:///{tmp_path}/pipeline.db")), Clock())


@pytest.fixture
def told():
    return []


@pytest.fixture
def readiness(registry, told):
    awaited = Counter({Role.DISPATCHER: 1, Role.TOKENIZER: 1, Role.GPU: 2})
    return Readiness(registry, awaited, lambda: told.append("ready"), Clock())


def enter(registry, *roles, host=HOST):
    for role in roles:
        registry.enter(role, host, os.getpid())


def test_a_fleet_is_ready_once_when_all_its_processes_have_signed_on(registry, readiness, told):
    enter(registry, Role.DISPATCHER, Role.TOKENIZER, Role.GPU)
    readiness.look()
    assert told == []
    enter(registry, Role.GPU)
    readiness.look()
    readiness.look()
    assert told == ["ready"]


def test_workers_that_were_there_before_or_on_other_hosts_do_not_count(registry, told):
    enter(registry, Role.DISPATCHER)
    readiness = Readiness(registry, Counter({Role.DISPATCHER: 1}), lambda: told.append("ready"), Clock())
    enter(registry, Role.DISPATCHER, host="elsewhere")
    readiness.look()
    assert told == []


def test_a_worker_that_gave_up_is_not_ready(registry, readiness, told):
    enter(registry, Role.DISPATCHER, Role.TOKENIZER, Role.GPU)
    registry.fail(registry.enter(Role.GPU, HOST, 0), "no such device")
    readiness.look()
    assert told == []


def test_a_database_that_is_away_is_asked_again(registry, readiness, told, monkeypatch):
    enter(registry, Role.DISPATCHER, Role.TOKENIZER, Role.GPU, Role.GPU)
    with monkeypatch.context() as away:
        away.setattr(registry, "alive", lambda: (_ for _ in ()).throw(TryAgain("away")))
        readiness.look()
    assert told == []
    readiness.look()
    assert told == ["ready"]
