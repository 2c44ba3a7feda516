"""The real command, as a process or in this one, on a tiny model, in a home of its own."""

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine

from jobs.cli import cli
from pipeline.rows import Completion
from pipeline.settings import Settings
from pipeline.store.database import open_database
from pipeline.store.integrity import check_integrity
from pipeline.store.queries import find_job, progress, stream_results
from pipeline.store.records import Progress
from tests.warm import Command


@dataclass
class Home:
    """One PIPELINE_HOME, and what can be done and seen there."""

    path: Path
    variables: dict[str, str]

    def environment(self) -> dict[str, str]:
        return os.environ | {
            "PIPELINE_HOME": str(self.path),
            "COLUMNS": "200",
            "OMP_NUM_THREADS": "1",
            **self.variables,
        }

    def start(self, *arguments: str) -> Command:
        """The command as a process of its own, which the test ends."""
        return Command(arguments, self.environment())

    def call(self, *arguments: object, stdin: bytes | None = None) -> Result:
        """The command in this process, which has torch already; a fault of the program is raised here."""
        runner = CliRunner(env=self.environment())
        result = runner.invoke(cli, [str(argument) for argument in arguments], input=stdin, prog_name="pipeline")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    @cached_property
    def _engine(self) -> Engine:
        return open_database(Settings.from_environment({"PIPELINE_HOME": str(self.path)}))

    def database(self) -> Engine:
        return self._engine

    def figures(self, name: str) -> Progress:
        database = self.database()
        return progress(database, find_job(database, name).id)

    def answers(self, name: str) -> dict[int, tuple[object, ...]]:
        """What a person gets, by row; how often a prefix was found is no part of it."""
        database = self.database()
        rows = list(stream_results(database, find_job(database, name).id))
        found = {row.row_id: (row.key, row.status, row.output, row.label, row.error, row.output_tokens) for row in rows}
        assert len(found) == len(rows)
        return found

    def results(self, name: str) -> list[Completion]:
        """In the order of the input; every row of it has exactly one."""
        database = self.database()
        found = list(stream_results(database, find_job(database, name).id))
        assert [result.row_id for result in found] == list(range(self.figures(name).total))
        return found

    def faults(self, name: str) -> list[str]:
        database = self.database()
        return check_integrity(database, find_job(database, name).id)

    def wait_until(self, process: Command, is_time: Callable[[], bool]) -> None:
        """Returns as soon as it is time; fails where the process ends before that."""
        while not self.asked(is_time):
            assert process.poll() is None, process.output + process.errors
            time.sleep(0.01)

    @staticmethod
    def asked(is_time: Callable[[], bool]) -> bool:
        try:
            return is_time()
        except Exception:  # the database or the job is not there yet
            return False


@pytest.fixture
def make_home(tmp_path: Path) -> Callable[..., Home]:
    def make(name: str = "home", **variables: str) -> Home:
        return Home(tmp_path / name, variables)

    return make


@pytest.fixture
def home(make_home: Callable[..., Home]) -> Home:
    return make_home()


@pytest.fixture
def submit(home: Home, tiny_model: Path) -> Callable[..., Result]:
    """`pipeline submit` in this process: a job of short answers; of a flag given twice the last one counts."""

    def submit_one(*arguments: object, stdin: bytes | None = None) -> Result:
        usual = ("--name", "night", "--model", tiny_model, "--prompt", "Say: {text}")
        short = () if {"--choices", "--score", "--embed"}.intersection(arguments) else ("--max-tokens", "4")
        return home.call("submit", *usual, *short, *arguments, stdin=stdin)

    return submit_one


@pytest.fixture
def told() -> Callable[[Result, int], str]:
    """The error's sentences, of a command that printed no answers and ended with this status."""

    def tell(result: Result, status: int) -> str:
        assert (result.exit_code, result.stdout) == (status, ""), result.output
        assert "Traceback" not in result.stderr
        return result.stderr.partition("Error: ")[2].rstrip("\n")

    return tell


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AbstractContextManager[None]]:
    """After so many files and directories have been written down, the disk is full until the block ends."""

    @contextmanager
    def full(behind: int) -> Iterator[None]:
        sync, left = os.fsync, list(range(behind))

        def limited(descriptor: int) -> None:
            if not left:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            left.pop()
            sync(descriptor)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", limited)
            yield

    return full


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PIPELINE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    """Writes columns as a Parquet file."""

    def write(name: str = "rows.parquet", **columns: object) -> Path:
        pq.write_table(pa.table(columns), tmp_path / name)
        return tmp_path / name

    return write
