"""Servers that a test may kill, and real workers on them in processes of their own."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.redis_server import RedisServer, any_broker, eventually

WORKER = Path(__file__).with_name("worker_process.py")


class Worker:
    """A process that takes messages from the queue `gpu` and writes what it does, a line each."""

    def __init__(self, directory: Path, url: str, pool: str, task_s: float) -> None:
        self.output, self.temporary = directory / "output", directory / "temporary"
        self.temporary.mkdir(exist_ok=True)
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, WORKER, url, pool, str(task_s)],
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=os.environ | {"TMPDIR": str(self.temporary)},
            )

    @property
    def lines(self) -> list[str]:
        return self.output.read_text().splitlines()

    def says(self, line: str) -> bool:
        return eventually(lambda: line in self.lines)

    def lives(self) -> bool:
        return self.process.poll() is None

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)

    def pids(self, event: str) -> list[int]:
        return [int(line.split()[1]) for line in self.lines if line.startswith(f"{event} ")]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path / "redis")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def broker_url(tmp_path: Path) -> Iterator[str]:
    with any_broker(tmp_path / "redis") as url:
        yield url


@pytest.fixture
def start_worker(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    started: list[Worker] = []

    def start(url: str, pool: str = "solo", task_s: float = 0.0) -> Worker:
        directory = tmp_path / f"worker-{len(started)}"
        directory.mkdir()
        started.append(Worker(directory, url, pool, task_s))
        return started[-1]

    yield start
    for worker in started:
        if worker.lives():
            os.killpg(worker.process.pid, signal.SIGKILL)
            worker.process.wait()
