"""The only way to the database: a transaction to read in or to write in, whose faults speak to a person."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Double, Engine, cast, extract, func, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from pipeline.store.faults import told

#: SQLite's readers have a consistent view by themselves.
_ONE_VIEW: Mapping[str, Mapping[str, object]] = {
    "sqlite": {},
    "postgresql": {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
}


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """One consistent view of the database; never waits for a writer."""
    view = _ONE_VIEW[engine.dialect.name]
    with faults_told(engine), engine.connect() as connection, connection.execution_options(**view).begin():
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """All of it is written, or none. Each statement sees what others committed before it.

    On SQLite the one writer at a time: its lock is taken at the start, since a transaction that reads first and then
    writes is refused, however long it would wait.
    """
    # Not readonly=False, for with that a server that is set to take no changes would take them.
    write = {"writes": True, "postgresql_readonly": None}
    with faults_told(engine), engine.connect() as connection, connection.execution_options(**write).begin():
        yield connection


def moment(connection: Connection) -> float:
    """Seconds since 1970 by the clock that all users of this database share: a server's own, or that of the one machine
    which can open the file."""
    if connection.dialect.name == "sqlite":
        return time.time()
    now: float = connection.execute(select(cast(extract("epoch", func.clock_timestamp()), Double))).scalar_one()
    return now


@contextmanager
def faults_told(engine: Engine) -> Iterator[None]:
    """Raises TryAgain or JobError for what the database says about itself; anything else passes through."""
    try:
        yield
    except IntegrityError:
        raise
    except DBAPIError as error:
        fault = told(error, database_name(engine))
        if fault is None:
            raise
        raise fault from error


def database_name(engine: Engine) -> str:
    """The path of a file, or a server's URL less all that may be secret."""
    if engine.dialect.name == "sqlite":
        return str(Path(str(engine.url.database)).absolute())
    query = {name: value for name, value in engine.url.query.items() if name in ("host", "port")}
    return engine.url.set(drivername=engine.dialect.name, query=query).render_as_string(hide_password=True)
