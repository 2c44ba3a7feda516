import os
import signal

import pytest

from tests.redis_server import eventually
from workers.broker.doorbell import Doorbell

both = pytest.mark.parametrize("pool", ["solo", "prefork"])


@pytest.fixture
def bell(server):
    return Doorbell(server.url)


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def knows_the_broker(worker):
    """What was told of the connection last is that it is there."""
    return [line.split()[0] for line in worker.lines if line.startswith(("ready", "lost"))][-1] == "ready"


@both
def test_a_worker_runs_what_it_hears_of_and_leaves_nothing_behind(server, bell, start_worker, pool):
    worker = start_worker(server.url, pool)
    for batch_no in range(5):
        bell.ring_batch("night", batch_no, b"rows")
    for batch_no in range(5):
        assert worker.says(f"end {batch_no}")
    assert worker.lines.index("begin 0") > worker.lines.index(f"ready {worker.process.pid}")
    assert worker.stop() == 0
    assert worker.pids("stop") == [worker.process.pid]
    assert bell.keys() == []


@both
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_it_ends_what_it_has_begun_and_begins_no_more(server, bell, start_worker, pool, number):
    worker, processes = start_worker(server.url, pool, held=True), 1 if pool == "solo" else 2
    for batch_no in range(5):
        bell.ring_batch("night", batch_no, None)
    for batch_no in range(processes):
        assert worker.says(f"begin {batch_no}")
    worker.process.send_signal(number)
    assert worker.says(f"stop {worker.process.pid}")
    worker.release()
    assert worker.process.wait(60) == 0
    assert sorted(worker.pids("end")) == sorted(worker.pids("begin")) == list(range(processes))
    assert bell.depth()["gpu"] >= 5 - 2 * processes


@both
def test_a_busy_worker_leaves_messages_to_others(server, bell, start_worker, pool):
    worker = start_worker(server.url, pool, held=True)
    for batch_no in range(5):
        bell.ring_batch("night", batch_no, None)
    processes = 1 if pool == "solo" else 2
    for batch_no in range(processes):
        assert worker.says(f"begin {batch_no}")
    other = start_worker(server.url, pool="solo")
    for batch_no in range(processes, 5):
        assert other.says(f"end {batch_no}")
    worker.release()
    assert worker.stop() == 0


@both
def test_a_second_ctrl_c_ends_it_at_once_with_all_its_processes(server, bell, start_worker, pool):
    worker = start_worker(server.url, pool, held=True)
    bell.ring_batch("night", 0, None)
    assert worker.says("begin 0")
    worker.process.send_signal(signal.SIGINT)
    assert worker.says(f"stop {worker.process.pid}")
    assert worker.lives()
    assert worker.stop(signal.SIGINT) == -signal.SIGINT
    assert eventually(lambda: all(is_gone(pid) for pid in worker.pids("child")))


def test_each_process_of_a_pool_is_made_ready_and_replaced_when_it_dies(server, bell, start_worker):
    worker = start_worker(server.url, "prefork")
    assert worker.says(f"ready {worker.process.pid}")
    assert eventually(lambda: len(worker.pids("child")) == 2)
    bell.ring_batch("night", 0, b"die")
    assert eventually(lambda: len(worker.pids("child")) == 3)
    bell.ring_batch("night", 1, None)
    assert worker.says("end 1")
    assert worker.process.pid not in worker.pids("child")
    assert worker.stop() == 0


def test_no_process_of_a_pool_outlives_a_killed_parent(server, start_worker):
    worker = start_worker(server.url, "prefork")
    assert eventually(lambda: len(worker.pids("child")) == 2)
    assert worker.stop(signal.SIGKILL) == -signal.SIGKILL
    assert eventually(lambda: all(is_gone(pid) for pid in worker.pids("child")))


@both
def test_a_broker_that_is_down_at_the_start_is_waited_for(server, bell, start_worker, pool):
    server.stop()
    worker = start_worker(server.url, pool)
    assert eventually(lambda: any("is tried again until it can" in line for line in worker.lines))
    assert worker.pids("ready") == []
    assert "lost" in worker.lines
    server.start()
    bell.ring_batch("night", 0, None)
    assert worker.says("end 0")
    assert knows_the_broker(worker)
    assert worker.stop() == 0


@both
def test_a_worker_that_waits_for_the_broker_can_be_stopped(server, start_worker, pool):
    server.stop()
    worker = start_worker(server.url, pool)
    assert eventually(lambda: any("is tried again until it can" in line for line in worker.lines))
    assert worker.stop() == 0


@both
def test_a_broker_that_restarts_empty_twice_is_found_again(server, bell, start_worker, pool):
    worker = start_worker(server.url, pool, held=True)
    bell.ring_batch("night", 0, b"rows")
    assert worker.says("begin 0")
    for batch_no in (1, 2):
        server.kill()
        server.start()
        worker.release()
        bell.ring_batch("night", batch_no, b"rows")
        assert worker.says(f"end {batch_no}")
        assert knows_the_broker(worker)
    assert "end 0" in worker.lines
    assert len(worker.pids("ready")) >= 3
    assert worker.stop() == 0


@both
def test_a_frozen_broker_is_survived(server, bell, start_worker, pool):
    worker = start_worker(server.url, pool)
    bell.ring_batch("night", 0, None)
    assert worker.says("end 0")
    with server.frozen():
        assert worker.says("lost")
    bell.ring_batch("night", 1, None)
    assert worker.says("end 1")
    assert knows_the_broker(worker)
    assert worker.stop() == 0


def test_a_worker_of_a_frozen_broker_can_be_stopped(server, bell, start_worker):
    worker = start_worker(server.url)
    bell.ring_batch("night", 0, None)
    assert worker.says("end 0")
    with server.frozen():
        assert worker.stop() == 0


@both
def test_lost_connections_are_made_anew(server, bell, start_worker, pool):
    worker = start_worker(server.url, pool)
    for batch_no in range(3):
        bell.ring_batch("night", batch_no, None)
        assert worker.says(f"end {batch_no}")
        server.client().client_kill_filter(_type="normal", skipme=True)
    bell.ring_batch("night", 3, None)
    assert worker.says("end 3")
    assert worker.stop() == 0


@both
def test_workers_empty_a_full_broker_and_start_on_one(server, bell, start_worker, pool):
    first = start_worker(server.url, pool, held=True)
    for batch_no in range(4):
        bell.ring_batch("night", batch_no, b"x" * 100_000)
    server.fill()
    first.release()
    for batch_no in range(4):
        assert first.says(f"end {batch_no}")
    assert first.stop() == 0
    server.empty()
    bell.ring_batch("night", 4, b"x" * 100_000)
    server.fill()
    second = start_worker(server.url, pool)
    assert second.says("end 4")
    assert second.stop() == 0


def test_what_a_message_carries_is_written_nowhere_when_the_broker_dies(server, bell, start_worker):
    worker = start_worker(server.url, "prefork")
    assert worker.says(f"ready {worker.process.pid}")
    assert eventually(lambda: len(worker.pids("child")) == 2)
    for child in worker.pids("child"):  # so that none of them says that it has a message
        os.kill(child, signal.SIGSTOP)
    bell.ring_batch("night", 0, b"somebody's rows")
    assert eventually(lambda: bell.depth()["gpu"] == 0)
    server.kill()
    assert eventually(lambda: any("is tried again until it can" in line for line in worker.lines))
    for child in worker.pids("child"):
        os.kill(child, signal.SIGCONT)
    assert worker.stop() == 0
    assert "somebody" not in worker.output.read_text()
    assert [path for path in worker.temporary.rglob("*") if path.is_file()] == []


def test_a_message_of_another_version_is_dropped_unread(server, bell, start_worker):
    worker = start_worker(server.url)
    bell._app.send_task("pipeline.unheard_of", (b"somebody's rows",), queue="gpu", retry=False)
    bell.ring_batch("night", 1, None)
    assert worker.says("end 1")
    assert any("that this version does not understand" in line for line in worker.lines)
    assert "somebody" not in worker.output.read_text()
    assert worker.stop() == 0


@pytest.mark.parametrize("pool", ["solo", "prefork"])
def test_what_is_no_message_is_dropped_and_ends_nothing(server, bell, start_worker, pool):
    worker = start_worker(server.url, pool)
    for nonsense in ("somebody's rows", "{}", '{"body": "somebody"}', "[1, 2]", ""):
        server.client().lpush("pipeline:gpu", nonsense)
    bell.ring_batch("night", 1, None)
    assert worker.says("end 1")
    assert any("is no message, and was dropped" in line for line in worker.lines)
    assert "somebody" not in worker.output.read_text()
    assert worker.stop() == 0
