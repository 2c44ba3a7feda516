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
    """A process that takes messages from the queue `gpu` and writes what it does, a line each. Its tasks end at once,
    or once it is released."""

    def __init__(self, directory: Path, url: str, pool: str, held: bool) -> None:
        self.output, self.temporary, self._hold = directory / "output", directory / "temporary", directory / "hold"
        self.temporary.mkdir(exist_ok=True)
        if held:
            self._hold.touch()
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, WORKER, url, pool, self._hold],
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

    def release(self) -> None:
        self._hold.unlink(missing_ok=True)

    def lives(self) -> bool:
        return self.process.poll() is None

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)

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

    def start(url: str, pool: str = "solo", *, held: bool = False) -> Worker:
        directory = tmp_path / f"worker-{len(started)}"
        directory.mkdir()
        started.append(Worker(directory, url, pool, held))
        return started[-1]

    yield start
    for worker in started:
        if worker.lives():
            os.killpg(worker.process.pid, signal.SIGKILL)
            worker.process.wait()
