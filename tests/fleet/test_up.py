"""`pipeline up`: a whole fleet with one command, and gone with it, however it ends."""

import os
import signal
from pathlib import Path

import pytest

from tests.fleet.fleet import running
from tests.redis_server import RedisServer

ROLES = {"dispatcher", "tokenizer", "gpu"}


@pytest.fixture
def devices() -> tuple[str, ...]:
    return ("cpu",)


@pytest.fixture
def up(make_fleet, tmp_path, devices):
    """A fleet of which `up` is the only process that the test starts; nobody has told it of a broker."""
    broker = RedisServer(tmp_path)
    fleet = make_fleet(f"sqlite:///{tmp_path / 'pipeline.db'}", broker, PIPELINE_BROKER_URL="")
    broker.url = f"redis+socket://{fleet.home}/redis/redis.sock"
    with running(fleet):
        fleet.start("up", "up", *(word for device in devices for word in ("--device", device)))
        yield fleet


def test_one_command_answers_a_job_and_one_ctrl_c_ends_it(up, rows, name, calm):
    up.until(lambda: "The fleet is ready: a dispatcher, 1 tokenizer and 1 GPU worker on cpu." in up.log("up"))
    assert {worker.role for worker in up.seen.workers()} == ROLES
    up.submit(rows, name)
    assert {worker["role"] for worker in up.status(name)["fleet"]["workers"]} == ROLES
    up.until_done(name)
    up.require_whole(name, calm)
    assert len(processes_of(up)) >= 5
    up.processes["up"].send_signal(signal.SIGINT)
    assert up.processes["up"].wait(timeout=60) == 0, up.told()
    assert processes_of(up) == []
    assert up.seen.workers() == []
    assert "Traceback" not in up.log("up")


def test_a_second_ctrl_c_ends_it_at_once_and_gives_back_what_was_in_hand(up, rows, name):
    up.until(lambda: "The fleet is ready" in up.log("up"))
    with up.held("answering"):
        up.submit(rows, name)
        up.until(lambda: up.seen.begun(name))
        up.processes["up"].send_signal(signal.SIGINT)
        up.until(lambda: "Ctrl-C again stops at once." in up.log("up"))
        up.processes["up"].send_signal(signal.SIGINT)
        assert up.processes["up"].wait(timeout=30) == 130, up.told()
    assert processes_of(up) == []
    assert up.seen.workers() == []
    assert (up.seen.leases(name), up.seen.crashes(name)) == (0, 0)
    assert "Traceback" not in up.log("up")


@pytest.mark.parametrize("devices", [("cpu", "cuda:7")])
def test_a_worker_that_cannot_start_is_given_up_and_when_it_is_killed_nothing_of_the_rest_is_left(up):
    up.until(lambda: {worker.role for worker in up.seen.workers()} >= {"dispatcher", "tokenizer"})
    up.until(lambda: "gpu cuda:7 ended with status 69; it is given up." in up.log("up"))
    assert [worker.state for worker in up.seen.workers() if worker.device == "cuda:7"] == ["failed"]
    assert len(processes_of(up)) >= 5
    up.processes["up"].kill()
    up.processes["up"].wait()
    up.until(lambda: processes_of(up) == [])


def processes_of(fleet) -> list[int]:
    """All that run with the fleet's home, whoever started them."""
    mark = f"PIPELINE_HOME={fleet.home}\0".encode()
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if mark in _read(path)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes() if int(path.parent.name) != os.getpid() else b""
    except OSError:
        return b""
