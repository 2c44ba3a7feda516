"""Opens the database of the settings: made where there is none, brought up to date where it is older."""

import errno
import os
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, select, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import ConnectionPoolEntry

from pipeline.errors import JobError, NotFoundError, SpecError
from pipeline.settings import Settings
from pipeline.store.postgresql import connect_postgresql, prepare_to_migrate
from pipeline.store.schedule_records import RunState
from pipeline.store.schema import OPEN_RUN, SCHEMA_VERSION, schedule_runs
from pipeline.store.transactions import database_name, reading, writing

#: What the other layers call it, who have no business with the library behind it.
Database = Engine

#: How long a statement waits for another process's transaction, which takes milliseconds as a rule.
BUSY_TIMEOUT_S = 30.0

_LOOK_S = 0.02

_EXAMPLES = "sqlite:///path/to/pipeline.db or postgresql://user:password@host/database"


def open_database(settings: Settings, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Engine:
    """Raises JobError or TryAgain where it cannot be used, JobError where it is newer than this program."""
    engine = _connect_to_make(settings.database_url, busy_timeout_s)
    with reading(engine) as connection:
        version = current_version(connection)
    if version != SCHEMA_VERSION:
        _upgrade(engine)
    return engine


def existing_database(settings: Settings, none: Callable[[Engine], str] | None = None) -> Engine:
    """The same for whoever only looks. Raises NotFoundError where it would be made, and JobError where it could not;
    `none` says what is looked for, and is not there."""
    engine = connect(settings.database_url, BUSY_TIMEOUT_S)
    if (file := file_of(engine)) is not None and not is_there(file):
        _require_place(file.parent)
        raise NotFoundError((none or no_jobs)(engine))
    return open_database(settings)


def no_jobs(engine: Engine) -> str:
    return f"There are no jobs yet in {database_name(engine)}. `pipeline submit --help` tells how to begin."


def none_yet(engine: Engine) -> str:
    """For whoever finds that there are no jobs."""
    begun = select(schedule_runs.c.job_name).where(OPEN_RUN, schedule_runs.c.state == RunState.BEGUN).limit(1)
    with reading(engine) as connection:
        name = connection.scalar(begun)
    if name is None:
        return no_jobs(engine)
    where = database_name(engine)
    return f"There are no jobs yet in {where}. A run of a schedule is loading its model, and is to begin {name}."


def no_schedules(engine: Engine) -> str:
    where = database_name(engine)
    return f"There are no schedules yet in {where}. `pipeline schedule add --help` tells how to begin."


def is_there(path: Path) -> bool:
    """False, too, where nobody may look."""
    return os.access(path, os.F_OK)


def file_of(engine: Engine) -> Path | None:
    """None for a server's."""
    return Path(str(engine.url.database)) if engine.dialect.name == "sqlite" else None


def migrate(settings: Settings) -> tuple[str | None, str]:
    """Bring the database up to date; its version before (None: it was empty) and after."""
    engine = _connect_to_make(settings.database_url, BUSY_TIMEOUT_S)
    try:
        return _upgrade(engine)
    finally:
        engine.dispose()


def connect(database_url: str, busy_timeout_s: float) -> Engine:
    """An engine whose transactions are ours; the tables may still be missing."""
    url = _parse(database_url)
    match url.get_backend_name():
        case "sqlite":
            return _connect_sqlite(url, busy_timeout_s)
        case "postgresql" | "postgres":
            return connect_postgresql(url, busy_timeout_s)
    raise SpecError(f"PIPELINE_DATABASE_URL asks for {url.drivername}. Write it as {_EXAMPLES}.")


def current_version(connection: Connection) -> str | None:
    """The newest migration that the database has seen."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return version


def _upgrade(engine: Engine) -> tuple[str | None, str]:
    # Alembic takes longer to import than most commands take to run, and is hardly ever needed.
    from pipeline.store.migrate import upgrade

    with writing(engine) as connection:
        if connection.dialect.name == "postgresql":
            prepare_to_migrate(connection)
        version = current_version(connection)
        if version is not None and version > SCHEMA_VERSION:
            raise JobError(
                f"The database {database_name(engine)} was written by a newer version of this program (its tables are "
                f"at {version}, this program knows {SCHEMA_VERSION}). Upgrade the program."
            )
        upgrade(connection)
    return version, SCHEMA_VERSION


def _parse(database_url: str) -> URL:
    try:
        return make_url(database_url)
    except (ArgumentError, ValueError):
        # The text may hold a password, so it is not repeated.
        raise SpecError(f"PIPELINE_DATABASE_URL is not a database URL. Write it as {_EXAMPLES}.") from None


def _connect_sqlite(url: URL, busy_timeout_s: float) -> Engine:
    if url.database in (None, "", ":memory:"):
        raise SpecError("PIPELINE_DATABASE_URL names no file. Write it as sqlite:///path/to/pipeline.db.")
    engine = create_engine(url, connect_args={"timeout": busy_timeout_s}, hide_parameters=True)
    event.listen(engine, "connect", partial(_prepare_sqlite, busy_timeout_s))
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _connect_to_make(database_url: str, busy_timeout_s: float) -> Engine:
    engine = connect(database_url, busy_timeout_s)
    if (file := file_of(engine)) is not None:
        _make_directory(file.parent)
    return engine


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_place(directory, error.strerror) from error


def _require_place(directory: Path) -> None:
    there = next(path for path in (directory.absolute(), *directory.absolute().parents) if is_there(path))
    if not there.is_dir():
        raise _no_place(directory, os.strerror(errno.ENOTDIR))
    if not os.access(there, os.W_OK | os.X_OK):
        raise _no_place(directory, os.strerror(errno.EACCES))


def _no_place(directory: Path, reason: str | None) -> JobError:
    return JobError(
        f"The directory {directory} for the database cannot be made: {reason}. "
        "Set PIPELINE_HOME or PIPELINE_DATABASE_URL to a place that you may write to."
    )


def _prepare_sqlite(busy_timeout_s: float, connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
    assert isinstance(connection, sqlite3.Connection)
    # With None the driver leaves every BEGIN to _begin_sqlite (SQLAlchemy's advice for Python before 3.12).
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    # A readers' snapshot beside one writer; a crash of the machine may undo the last commits, but breaks nothing.
    _write_ahead(connection, busy_timeout_s)
    connection.execute("PRAGMA synchronous = NORMAL")


def _write_ahead(connection: sqlite3.Connection, busy_timeout_s: float) -> None:
    """SQLite does not wait, as it does elsewhere, where another connection is at the same in a new file."""
    deadline = time.monotonic() + busy_timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_S)


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN DEFERRED")
