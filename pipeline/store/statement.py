"""Stage 7: one statement of a person's own on the database of the settings, which it reads and cannot change."""

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, NullPool, create_engine, func, select
from sqlalchemy.exc import DBAPIError

from pipeline.errors import PipelineError, RefusedError, SpecError, TryAgain
from pipeline.store.faults import told
from pipeline.store.selection import Block, read_only
from pipeline.store.sqlite_names import executed
from pipeline.store.transactions import database_name

#: Rows that are in memory at once.
_BLOCK_ROWS = 1000
#: SQLSTATEs, and names of SQLite's errors: of what would write, and of what was ended since its time was up.
_WRITES = ("25006", "SQLITE_READONLY", "SQLITE_AUTH")
_ENDED = ("57014", "SQLITE_INTERRUPT")
#: What PostgreSQL has no cursor for, so that all of its answer comes at once; behind comments.
_NO_CURSOR = re.compile(r"(?:\s+|--[^\n]*|/\*.*?\*/)*+(?:explain|show)\b", re.IGNORECASE | re.DOTALL)
#: Steps of SQLite's machine between two looks at the clock: some milliseconds.
_STEPS = 100_000


class Statement:
    """Run once, when its blocks are asked for; what it saw of the database is of one moment."""

    name = "the answer"

    def __init__(self, engine: Engine, sql: str, timeout_s: float | None = None) -> None:
        """It may take so long, from its start to its last row."""
        self._engine, self._sql, self._timeout_s = engine, sql.rstrip().rstrip(";"), timeout_s

    def facts(self) -> tuple[str, str]:
        return database_name(self._engine), self._sql

    def blocks(self) -> Iterator[Block]:
        """The first one also where it has no rows. Times are of UTC.

        Raises SpecError for a mistake in it, RefusedError where it would write, and TryAgain where its time is up.
        """
        deadline = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        with self._told(), self._connected(deadline) as connection:
            streams = _NO_CURSOR.match(self._sql) is None
            options = {"stream_results": streams, "max_row_buffer": _BLOCK_ROWS, "no_parameters": True}
            result, names = executed(connection.execution_options(**options), self._sql)
            if not result.returns_rows:
                raise SpecError("The statement gives no table. Write one SELECT.")
            kinds = tuple(getattr(column, "type_display", None) for column in result.cursor.description)
            rest = result.partitions(_BLOCK_ROWS)
            yield Block(names, kinds, next(rest, ()))
            for rows in rest:
                if deadline is not None and time.monotonic() > deadline:
                    raise self._too_long()
                yield Block(names, kinds, rows)

    @contextmanager
    def _connected(self, deadline: float | None) -> Iterator[Connection]:
        """A transaction that only reads, and is rolled back."""
        if self._engine.dialect.name == "sqlite":
            place = f"file:{quote(str(Path(str(self._engine.url.database)).absolute()))}?mode=ro"
            engine = create_engine("sqlite://", creator=lambda: read_only(place), poolclass=NullPool)
            with engine.connect() as connection:
                _end_at(connection, deadline)
                yield connection
            return
        view = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with self._engine.connect().execution_options(**view) as connection:
            limits = {"TimeZone": "UTC", "statement_timeout": f"{round(1000 * (self._timeout_s or 0))}ms"}
            connection.execute(select(*(func.set_config(name, value, True) for name, value in limits.items())))
            yield connection

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._fault(error) from error

    def _fault(self, error: DBAPIError) -> PipelineError:
        detail = next(iter(str(error.orig).strip().splitlines()), "").rstrip(".")
        number = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "sqlite_errorname", None) or ""
        if number.startswith(_WRITES):
            return RefusedError(f"`pipeline sql` only reads, and this would do more: {detail}. Nothing was changed.")
        if number.startswith(_ENDED):
            return self._too_long()
        quotes = " A text stands in single quotes." if '"' in self._sql and "column" in detail else ""
        return told(error, database_name(self._engine)) or SpecError(
            f"The database cannot answer this: {detail}.{quotes} Write one SELECT; `pipeline sql` by itself lists what "
            "there is to ask for."
        )

    def _too_long(self) -> TryAgain:
        return TryAgain(
            f"The statement was ended after {self._timeout_s:g} s, as --timeout asks. Ask for less, or give it more."
        )


def _end_at(connection: Connection, deadline: float | None) -> None:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    if deadline is not None:
        driver.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
