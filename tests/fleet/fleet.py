"""A fleet of real processes on a real broker and a real database, and what can be done to it and seen of it."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from click.testing import CliRunner, Result
from sqlalchemy import Engine, text

from jobs.cli import cli
from pipeline.errors import TryAgain
from pipeline.settings import Settings
from pipeline.store.database import open_database
from pipeline.store.queries import list_jobs
from pipeline.store.records import JobRecord, JobState
from tests.fleet.sight import Answers, Sight
from tests.fleet.table import ERRORS, ROWS
from tests.ports import free_port
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer
from workers.tether import tether

#: All that may be left in the broker. No message is kept there until it is acknowledged.
KEYS = {"pipeline:epoch", "pipeline:gpu", "pipeline:tokenizer"}
HOOKS = Path(__file__).parent / "hooks"


@dataclass
class Fleet:
    """Processes by the names that a test gives them; each leads a group of its own."""

    home: Path
    redis: RedisServer
    database_url: str
    model: Path
    postgres: PostgresServer | None = None
    variables: dict[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    posts: dict[str, tuple[str, ...]] = field(default_factory=dict)  #: who belongs to it when nothing is broken
    ports: dict[str, int] = field(default_factory=dict)  #: where each of these serves its metrics

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PIPELINE_")}
        return kept | {
            "PIPELINE_HOME": str(self.home),
            "PIPELINE_BROKER_URL": self.redis.url,
            "PIPELINE_DATABASE_URL": self.database_url,
            "PIPELINE_DEVICE": "cpu",
            "PIPELINE_SHARD_ROWS": "16",
            "PIPELINE_BATCH_ROWS": "4",
            "PIPELINE_LEASE_S": "3",
            "PIPELINE_LOST_AFTER_S": "3",
            "PIPELINE_BATCH_SECONDS": "1",
            "PYTHONPATH": os.pathsep.join((str(HOOKS), str(HOOKS.parents[2]))),
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "200",
            **self.variables,
        }

    @cached_property
    def engine(self) -> Engine:
        return open_database(Settings.from_environment(self.environment))

    @property
    def seen(self) -> Sight:
        return Sight(self.engine)

    def start(self, name: str, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        """`pipeline ...` in the background; what it says goes to a file of its name."""
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "jobs", *arguments],
                env=self.environment | variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=tether(),
            )
        return self.processes[name]

    def start_all(self, gpus: int) -> None:
        self.posts = {"dispatcher": ("dispatcher",), "tokenizer": ("worker", "tokenizer")}
        self.posts |= {f"gpu{number}": ("worker", "gpu", "--device", "cpu") for number in range(gpus)}
        for name in self.posts:
            self.ports[name] = free_port()
            self.posts[name] += ("--metrics-port", str(self.ports[name]))
            self.restart(name)

    def restart(self, name: str) -> None:
        """As it was at first, whatever it is now."""
        self.kill(name)
        # A tokenizer makes no batch larger than this, however fast its fleet was measured to be.
        self.start(name, *self.posts[name], PIPELINE_SHARD_ROWS="4")

    def mend(self) -> None:
        """After a test: nothing is held or frozen, nobody is missing, and no job is left."""
        for file in self.home.glob("hold-*"):
            file.unlink()
        for name in list(self.processes):
            for pid in self.family(name):
                _signal(pid, signal.SIGCONT)
            if name not in self.posts:
                self.kill(name)
        for name in self.posts:
            if not self.is_manned(name):
                self.restart(name)
        for job in self.jobs():
            if job.state in (JobState.CUTTING, JobState.RUNNING):
                self.run("cancel", job.name)

    def man(self) -> None:
        """As a service manager does: who ended, since the database was away at its start, is started again."""
        for name in self.posts:
            if self.processes[name].poll() is not None:
                self.restart(name)

    def is_manned(self, name: str) -> bool:
        """Whether there is a process that does the work, beside the one that looks after it."""
        if name not in self.processes or self.processes[name].poll() is not None:
            return False
        return name == "dispatcher" or bool(self.children(name))

    def kill(self, name: str) -> None:
        """With all that it started, as far as the kernel knows."""
        if name in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(self.processes[name].pid, signal.SIGKILL)
            self.processes.pop(name).wait()

    def stop(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for name, process in list(self.processes.items()):
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=30)
            self.kill(name)
        self.engine.dispose()

    def run(self, *arguments: str, **variables: str) -> Result:
        """`pipeline ...` in this process, which has all that must be imported."""
        return CliRunner().invoke(cli, arguments, env=self.environment | variables)

    def submission(self, rows: Path, name: str, *more: str) -> list[str]:
        """A job whose batches take about a quarter of a second; what is asked for last counts."""
        asked = {"--name": name, "--model": str(self.model), "--prompt": "Say: {text}", "--key": "id"}
        asked["--max-tokens"] = "48"
        return ["submit", str(rows), *(word for pair in asked.items() for word in pair), *more]

    def submit(self, rows: Path, name: str, *more: str, **variables: str) -> None:
        done = self.run(*self.submission(rows, name, *more), **variables)
        assert done.exit_code == 0, done.output

    @contextmanager
    def held(self, what: str) -> Iterator[None]:
        """Nobody goes on with "encoding" or "answering", and no `pipeline submit` cuts a third shard with "cutting"."""
        file = self.home / f"hold-{what}"
        file.touch()
        try:
            yield
        finally:
            file.unlink(missing_ok=True)

    def children(self, name: str) -> list[int]:
        return _children(self.processes[name].pid)

    def family(self, name: str) -> list[int]:
        """The process and all below it."""
        found = [self.processes[name].pid]
        for pid in found:
            found += _children(pid)
        return found

    def worker(self, name: str) -> int:
        """The pid of the process that works, below the one that looks after it, once it is there."""
        self.until(lambda: self.is_manned(name))
        return self.children(name)[0]

    def log(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text()

    def jobs(self) -> list[JobRecord]:
        return list_jobs(self.engine)

    def metrics(self, name: str) -> dict[str, float]:
        """By name and labels, as Prometheus reads them; none where nobody answers yet."""
        try:
            answer = urlopen(f"http://127.0.0.1:{self.ports[name]}/metrics", timeout=10)
        except URLError:
            return {}
        with answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {sample: float(value) for sample, _, value in pairs}

    def freeze_at_work(self, name: str) -> int:
        """Stops a worker that is at a batch of the job, and in no transaction that others would wait for; its pid."""
        frozen: list[int] = []

        def freeze() -> bool:
            for batch_no, pid in self.seen.begun(name):
                os.kill(pid, signal.SIGSTOP)
                time.sleep(0.1)
                if (batch_no, pid) in self.seen.begun(name) and self._can_write():
                    frozen.append(pid)
                    return True
                os.kill(pid, signal.SIGCONT)
            return False

        with self.held("answering"):  # for as long as it takes
            self.until(freeze)
        return frozen[0]

    def guard_of(self, worker: int) -> str:
        return next(name for name in self.processes if worker in self.children(name))

    def _can_write(self) -> bool:
        with self.engine.connect() as connection:
            if self.postgres is not None:
                amid = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
                return connection.scalar(text(amid)) == 0
            try:
                with sqlite3.connect(self.database_url.removeprefix("sqlite:///"), timeout=0.5) as database:
                    database.execute("BEGIN IMMEDIATE")
                return True
            except sqlite3.OperationalError:
                return False

    def status(self, name: str) -> dict[str, object]:
        told: dict[str, object] = json.loads(self.run("status", name, "--json").stdout)
        return told

    def until(self, is_so: Callable[[], object], seconds: float = 120.0) -> None:
        """A database that is away makes nothing so. The time is for a very busy machine."""
        deadline = time.monotonic() + seconds
        while not _true(is_so):
            assert time.monotonic() < deadline, self.told()
            time.sleep(0.02)

    def until_recorded(self, name: str, rows: int) -> None:
        self.until(lambda: self.seen.figures(name).recorded >= rows)

    def until_encoded(self, name: str) -> None:
        self.until(lambda: sum(len(batch.row_ids) for batch in self.seen.batches(name)) >= ROWS - ERRORS)

    def until_done(self, name: str, seconds: float = 120.0) -> None:
        self.until(lambda: self.seen.job(name).state is JobState.DONE, seconds)

    def require_whole(self, name: str, expected: Answers) -> None:
        """Rows in are rows out, each once, with the answers of a calm run; no lease is left, and nothing in Redis."""
        assert self.seen.job(name).state is JobState.DONE, self.told()
        assert self.seen.answers(name) == expected
        self.seen.require_closed(name)
        assert set(self.redis.client().keys()) <= KEYS

    def told(self) -> str:
        """For whoever has to find out what went wrong."""
        logs = "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in sorted(self.home.glob("*.log")))
        return f"{logs}\n--- status\n{self.run('status').output}"


@contextmanager
def running(fleet: Fleet) -> Iterator[Fleet]:
    try:
        yield fleet
    finally:
        fleet.stop()


def _true(is_so: Callable[[], object]) -> bool:
    try:
        return bool(is_so())
    except TryAgain:
        return False


def _children(pid: int) -> list[int]:
    with suppress(FileNotFoundError, ProcessLookupError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
