"""A fleet for the benchmarks: its processes, a private Redis, a PostgreSQL of its own, and what each of them takes."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.postgres_server import PostgresServer as PostgresServer  # noqa: E402
from tests.postgres_server import new_database  # noqa: E402
from workers.broker.doorbell import Doorbell  # noqa: E402
from workers.broker.server import private_server  # noqa: E402

PIPELINE = (sys.executable, "-m", "jobs")
IDLE_WORKER = (sys.executable, str(Path(__file__).with_name("idle_worker.py")))


@dataclass
class Peak:
    """The most memory that each process, with its children, and the broker took; in MB."""

    processes: dict[str, float] = field(default_factory=dict)
    broker: float = 0.0


@contextmanager
def services(directory: Path, **variables: str) -> Iterator[dict[str, str]]:
    """An environment with a broker and a database in it; PIPELINE_DATABASE_URL, where it is set, is used."""
    with private_server(directory / "redis") as broker, _database() as database:
        given = {"PIPELINE_HOME": str(directory / "home"), "PIPELINE_BROKER_URL": broker}
        yield os.environ | given | {"PIPELINE_DATABASE_URL": database, "PIPELINE_DEVICE": "cpu"} | variables


@contextmanager
def running(commands: Mapping[str, Sequence[str]], environment: Mapping[str, str]) -> Iterator[Peak]:
    """Until the block ends."""
    peak, done = Peak(), threading.Event()
    started = {name: subprocess.Popen(command, env=environment, cwd=ROOT) for name, command in commands.items()}
    pids = {name: process.pid for name, process in started.items()}
    watcher = threading.Thread(target=_watch, args=(pids, environment["PIPELINE_BROKER_URL"], peak, done), daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()
        for process in started.values():
            process.terminate()
        for process in started.values():
            process.wait()


def _watch(pids: Mapping[str, int], broker_url: str, peak: Peak, done: threading.Event) -> None:
    doorbell = Doorbell(broker_url)
    while not done.wait(0.5):
        for name, pid in pids.items():
            peak.processes[name] = max(peak.processes.get(name, 0.0), max(_resident(pid)))
        peak.broker = max(peak.broker, doorbell.memory()[0] / 1e6)


def _resident(pid: int) -> Iterator[float]:
    """MB of a process and of each that it started."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        yield 0.0
        return
    yield pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    for child in children:
        yield from _resident(int(child))


@contextmanager
def _database() -> Iterator[str]:
    if named := os.environ.get("PIPELINE_DATABASE_URL"):
        yield named
        return
    server = PostgresServer()
    server.start()
    try:
        with new_database(server.url) as url:
            yield url
    finally:
        server.remove()


def timed(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, str]:
    """Seconds, and what it printed."""
    started = time.perf_counter()
    done = subprocess.run(command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return time.perf_counter() - started, done.stdout
