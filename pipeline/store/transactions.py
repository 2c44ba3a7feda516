"""The only way to the database: a transaction to read in or to write in, whose faults speak to a person."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError

from pipeline.errors import JobError, PipelineError, TryAgain

#: By the first two words of sqlite3's error name; {database} and {detail} are filled in.
SQLITE_FAULTS: dict[str, tuple[type[PipelineError], str]] = {
    "SQLITE_BUSY": (
        TryAgain,
        "The database {database} is locked by another process. Nothing was changed; try again when that one is done.",
    ),
    "SQLITE_FULL": (TryAgain, "The disk that holds the database {database} is full. Free some space and try again."),
    "SQLITE_IOERR": (
        TryAgain,
        "The database {database} could not be read or written ({detail}). Look whether its disk is full or gone, "
        "and try again.",
    ),
    "SQLITE_READONLY": (
        JobError,
        "The database {database} cannot be written to. Make the file and its directory writable, or set "
        "PIPELINE_DATABASE_URL to another place.",
    ),
    "SQLITE_CANTOPEN": (
        JobError,
        "The database {database} cannot be opened. Look whether it is a file in a directory that you may write to, "
        "or set PIPELINE_DATABASE_URL to another place.",
    ),
    "SQLITE_NOTADB": (
        JobError,
        "{database} is not a database. Move the file away, or set PIPELINE_DATABASE_URL to another place.",
    ),
    "SQLITE_CORRUPT": (
        JobError,
        "The database {database} is damaged ({detail}). Put a backup in its place, or move it away and submit again.",
    ),
}


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """One consistent view of the database; never waits for a writer."""
    with faults_told(engine), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """All of it is written, or none. On SQLite the one writer at a time: its lock is taken at the start, since a
    transaction that reads first and then writes is refused, however long it would wait."""
    with (
        faults_told(engine),
        engine.connect() as connection,
        connection.execution_options(begin="IMMEDIATE").begin(),
    ):
        yield connection


@contextmanager
def faults_told(engine: Engine) -> Iterator[None]:
    """Raises TryAgain or JobError for what the database says about itself; anything else passes through."""
    try:
        yield
    except IntegrityError:
        raise
    except DBAPIError as error:
        told = _told(engine, error)
        if told is None:
            raise
        raise told from error


def database_name(engine: Engine) -> str:
    """The path of a file, or the URL less its password."""
    if engine.dialect.name == "sqlite":
        return str(engine.url.database)
    return engine.url.render_as_string(hide_password=True)


def _told(engine: Engine, error: DBAPIError) -> PipelineError | None:
    database, detail = database_name(engine), str(error.orig).strip()
    if isinstance(error.orig, sqlite3.Error):
        name = "_".join(getattr(error.orig, "sqlite_errorname", "").split("_")[:2])
        if name not in SQLITE_FAULTS:
            return None
        kind, sentence = SQLITE_FAULTS[name]
        return kind(sentence.format(database=database, detail=detail))
    if isinstance(error, OperationalError | InterfaceError):
        return TryAgain(f"The database {database} did not answer as it should: {detail}. Try again when it is up.")
    return None
