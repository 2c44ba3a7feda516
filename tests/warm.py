"""The command as a process of its own, which begins as a copy of one that has imported all that it needs."""

import multiprocessing
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).parents[1]


class Command:
    """`pipeline ...`. What it tells goes to files, so that it never waits for somebody who reads."""

    def __init__(self, arguments: tuple[str, ...], environment: Mapping[str, str], directory: Path = ROOT) -> None:
        self._files = [tempfile.NamedTemporaryFile() for _ in range(2)]  # noqa: SIM115, they are there as long as this
        told = [file.name for file in self._files]
        self._process = _starter().Process(target=_begin, args=(arguments, dict(environment), directory, *told))
        self._process.start()

    @property
    def pid(self) -> int:
        return int(self._process.pid or 0)

    @property
    def output(self) -> str:
        return Path(self._files[0].name).read_text()

    @property
    def errors(self) -> str:
        return Path(self._files[1].name).read_text()

    def poll(self) -> int | None:
        """Its status, as subprocess has it, once it has ended."""
        return self._process.exitcode

    def wait(self, timeout: float = 120.0) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("pipeline", timeout, self.output.encode(), self.errors.encode())
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


@contextmanager
def running(command: Command) -> Iterator[Command]:
    """It does not outlive the block."""
    try:
        yield command
    finally:
        command.kill()


@cache
def _starter() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.preloaded"])
    with patch.dict(os.environ, PYTHONPATH=str(ROOT)):
        forkserver.ensure_running()
    return context


def _begin(arguments: tuple[str, ...], environment: Mapping[str, str], directory: Path, *told: str) -> None:
    for number, name in enumerate(told, start=1):
        with Path(name).open("wb") as file:
            os.dup2(file.fileno(), number)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    from jobs.cli import cli

    cli(arguments, prog_name="pipeline")
