import socket
import threading
from dataclasses import replace

import pytest
from sqlalchemy import text

from pipeline.store.records import Role, WorkerRecord, WorkerState
from pipeline.store.registry import SILENT_AFTER_S, Registry, is_alive, is_near
from pipeline.store.transactions import reading


@pytest.fixture
def registry(engine, clock) -> Registry:
    return Registry(engine, clock)


def test_a_worker_enters_tells_and_leaves(registry, clock):
    entered_at = clock.now
    worker_id = registry.enter(Role.GPU, "box", 7, "cuda:0")
    assert worker_id.startswith("box/gpu.")
    entry = WorkerRecord(worker_id, Role.GPU, "box", 7, WorkerState.STARTING, entered_at, entered_at, "cuda:0")
    assert registry.all() == [entry]
    clock.now += 5
    news = {"state": WorkerState.BUSY, "model": "m", "job_id": "j", "batch_no": 3, "batches": 2, "rows": 9}
    registry.beat(worker_id, **news, tokens=40_000_000_000, busy_s=1.5, facts='{"depth": 1}')
    told = replace(entry, **news, seen_at=clock.now, tokens=40_000_000_000, busy_s=1.5, facts='{"depth": 1}')
    assert registry.all() == [told]
    clock.now += 5
    registry.beat(worker_id)
    assert registry.all() == [replace(told, seen_at=clock.now)]
    registry.leave(worker_id)
    assert registry.all() == []


def test_a_restarted_worker_is_another(registry):
    assert registry.enter(Role.TOKENIZER, "box", 7) != registry.enter(Role.TOKENIZER, "box", 7)
    assert len(registry.all()) == 2


def test_workers_come_by_role_host_and_start(registry, clock):
    places = [(Role.TOKENIZER, "a"), (Role.GPU, "b"), (Role.GPU, "a"), (Role.DISPATCHER, "c")]
    for role, host in places:
        registry.enter(role, host, 1)
    assert [(record.role, record.host) for record in registry.all()] == sorted(places)


def test_an_unknown_word_is_a_mistake_of_ours(registry):
    worker_id = registry.enter(Role.GPU, "box", 7)
    with pytest.raises(TypeError, match="nonsense"):
        registry.beat(worker_id, nonsense=1)


def test_one_that_stood_still_until_it_was_forgotten_is_back_with_its_next_beat(registry, clock, engine):
    worker_id = registry.enter(Role.GPU, "box", 7)
    registry.beat(worker_id, state=WorkerState.BUSY, job_id="j", rows=5)
    before = registry.all()[0]
    clock.now += 3600
    assert Registry(engine, clock).sweep(600) == 1
    registry.beat(worker_id, rows=6)
    assert registry.all() == [replace(before, rows=6, seen_at=clock.now)]


def test_a_beat_after_leaving_brings_nobody_back(registry):
    worker_id = registry.enter(Role.GPU, "box", 7)
    registry.leave(worker_id)
    registry.beat(worker_id, state=WorkerState.BUSY)
    assert registry.all() == []


def test_leaving_beside_a_beat_ends_with_nobody(registry):
    worker_id = registry.enter(Role.GPU, "box", 7)
    left = threading.Event()

    def beat() -> None:
        while not left.is_set():
            registry.beat(worker_id)

    beating = threading.Thread(target=beat)
    beating.start()
    registry.leave(worker_id)
    left.set()
    beating.join()
    assert registry.all() == []


def test_one_that_gave_up_stays_with_the_reason(registry, clock):
    worker_id = registry.enter(Role.GPU, "box", 7)
    registry.beat(worker_id, job_id="j")
    registry.fail(worker_id, "The model\0 does not fit.")
    registry.beat(worker_id, state=WorkerState.BUSY)
    (record,) = registry.all()
    assert (record.state, record.note, record.job_id) == (WorkerState.FAILED, "The model\0 does not fit.", "j")
    assert not is_alive(record, clock.now)


def test_another_process_tells_of_one_that_died(registry, engine, clock):
    failed, ended = registry.enter(Role.GPU, "box", 7), registry.enter(Role.GPU, "box", 8)
    supervisor = Registry(engine, clock)
    clock.now += 20
    supervisor.fail(failed, "It was killed.")
    supervisor.leave(ended)
    (record,) = registry.all()
    assert (record.id, record.note, record.seen_at) == (failed, "It was killed.", clock.now - 20)


def test_the_silent_are_not_alive_and_are_swept_away(registry, clock):
    silent = registry.enter(Role.GPU, "box", 7)
    clock.now += SILENT_AFTER_S
    heard = registry.enter(Role.GPU, "box", 8)
    alive = {record.id: is_alive(record, registry.now()) for record in registry.all()}
    assert alive == {silent: False, heard: True}
    assert registry.sweep(SILENT_AFTER_S - 1) == 1
    assert [record.id for record in registry.all()] == [heard]
    clock.now -= SILENT_AFTER_S
    assert registry.alive() == []


@pytest.mark.parametrize(
    ("host", "space", "near"), [(None, None, True), ("far", None, False), (None, "4026532001", False)]
)
def test_pids_are_looked_for_on_this_host_and_not_in_another_container(registry, monkeypatch, host, space, near):
    if space is not None:
        monkeypatch.setattr("pipeline.store.registry._pid_space", lambda: space)
    registry.enter(Role.GPU, host or socket.gethostname(), 7)
    monkeypatch.undo()
    (record,) = registry.all()
    assert is_near(record) is near


def test_those_that_an_older_version_entered_are_near_where_their_host_is(registry):
    registry.enter(Role.GPU, socket.gethostname(), 7)
    (record,) = registry.all()
    host, _, name = record.id.partition("/")
    role, _, unique = name.split(".")
    assert is_near(replace(record, id=f"{host}/{role}.{unique}"))


def test_the_databases_own_clock_tells_the_time(engine):
    registry = Registry(engine)
    worker_id = registry.enter(Role.GPU, "box", 7)
    registry.beat(worker_id)
    (record,) = registry.all()
    assert record.started_at <= record.seen_at <= registry.now()
    assert is_alive(record, registry.now())
    with reading(engine) as connection:
        assert connection.scalar(text("SELECT count(*) FROM workers")) == 1
