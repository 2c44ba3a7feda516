"""Somebody's database as an input: the rows of one SELECT, some at a time, and nothing written."""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Engine, NullPool, create_engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError

from pipeline.errors import InputError, PipelineError, SpecError, TryAgain
from pipeline.store.postgresql import CONNECTION
from pipeline.store.sqlite_names import executed

#: Rows that are in memory at once.
_BLOCK_ROWS = 1000
_WAIT_S = 30.0  #: for whoever writes to an SQLite file just now
_EXAMPLES = "postgresql://user:password@host/database or sqlite:///path/to/file.db"
#: Of an option's name, and of its value: some hold a whole connection string.
_SECRET = re.compile("pass|secret|token|pwd|conninfo|dsn|odbc_connect", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"(password|passwd|pwd|secret|token)\s*=|://[^/@]*:[^@]*@", re.IGNORECASE)
#: Of the moment: by SQLSTATE's first two characters, by the name of SQLite's error, or where there is neither.
_PASSING = re.compile("08|40|53|55|57|58|SQLITE_(BUSY|LOCKED|IOERR|NOMEM)")
_REFUSAL = re.compile("password|role|pg_hba|certificate|authentication|Access denied|does not exist", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows, as the driver gives them."""

    names: tuple[str, ...]
    kinds: tuple[str | None, ...]  #: what PostgreSQL calls each column's type, such as numeric(10, 2)
    rows: Sequence[Sequence[object]]


class Selection:
    """May be read any number of times, each time anew; nothing but ORDER BY makes that the same rows in one order."""

    def __init__(self, url: str, sql: str) -> None:
        """Raises SpecError for a URL that is none."""
        self._url = _parsed(url)
        self._sql = sql.rstrip().rstrip(";")
        self._database = without_password(url)
        self.name = f"the SELECT on {self._database}"

    def facts(self) -> tuple[str, str]:
        return self._database, self._sql

    def blocks(self) -> Iterator[Block]:
        """The first one also where it has no rows. Raises InputError, or TryAgain where the database is away."""
        with self._told(), _engine(self._url).connect() as connection:
            options: dict[str, Any] = {"stream_results": True, "max_row_buffer": _BLOCK_ROWS, "no_parameters": True}
            if self._url.get_backend_name() == "postgresql":
                options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
            result, names = executed(connection.execution_options(**options), self._sql)
            if not result.returns_rows:
                raise InputError("--sql gives no table. Write one SELECT.")
            kinds = tuple(getattr(column, "type_display", None) for column in result.cursor.description)
            rest = result.partitions(_BLOCK_ROWS)
            yield Block(names, kinds, next(rest, ()))
            for rows in rest:
                yield Block(names, kinds, rows)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._fault(error) from error

    def _fault(self, error: DBAPIError) -> PipelineError:
        detail = next(iter(str(error.orig).strip().splitlines()), "").rstrip(".")
        if self._url.password:  # drivers do not tell it, but that is their promise and not ours
            detail = detail.replace(str(self._url.password), "***")
        number = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "sqlite_errorname", None)
        if number is None and _REFUSAL.search(detail):
            return InputError(
                f"{self._database} does not let this program in: {detail}. Write the password into --from, or the "
                "whole URL into PIPELINE_SOURCE_URL; it is not kept with the job."
            )
        if is_of_the_moment(error):
            return TryAgain(f"{self._database} did not answer as it should: {detail}. Try again when it is up.")
        return InputError(f"--sql cannot be run on {self._database}: {detail}. Correct the statement, or --from.")


def is_of_the_moment(error: DBAPIError) -> bool:
    """Whether the same may go well later."""
    number = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "sqlite_errorname", None)
    if number is None:
        return isinstance(error, OperationalError | InterfaceError) and not _REFUSAL.search(str(error.orig))
    return _PASSING.match(number) is not None


def without_password(url: str, flag: str = "--from") -> str:
    """What may be kept and told of it. Raises SpecError, which does not repeat it."""
    parsed = _parsed(url, flag)
    if any(_SECRET.search(name) or _SECRET_VALUE.search(str(value)) for name, value in parsed.query.items()):
        raise SpecError(f"{flag} holds a secret among its options. Write it as {_EXAMPLES}.")
    # URL.set() takes None for "as it is".
    kept = URL.create(parsed.drivername, parsed.username, None, parsed.host, parsed.port, parsed.database, parsed.query)
    return kept.render_as_string()


def with_password(url: str, other: str | None) -> str:
    """The other one where it is of the same database and the same user, otherwise the URL itself."""
    return other if other and without_password(other) == url else url


def _parsed(url: str, flag: str = "--from") -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise SpecError(f"{flag} is not a database URL. Write it as {_EXAMPLES}.") from None
    # What follows the first @ would be taken for the host, and told: it may be the rest of a password.
    if parsed.get_backend_name() != "sqlite" and url.count("@") > 1:
        raise SpecError(f"{flag} holds more than one @. Write one that is part of a user's name or password as %40.")
    if parsed.get_backend_name() == "postgres":
        parsed = parsed.set(drivername="postgresql")
    return parsed


def _engine(url: URL) -> Engine:
    match url.get_backend_name():
        case "sqlite":
            path = Path(url.database or "")
            if not path.is_file():
                raise InputError(f"There is no database {path}. Write --from as sqlite:///path/to/file.db.")
            place = f"file:{quote(str(path.absolute()))}?mode=ro"
            return create_engine("sqlite://", creator=lambda: _left_to_rows(read_only(place)), poolclass=NullPool)
        case "postgresql":
            usual = {name: value for name, value in CONNECTION.items() if name not in url.query}
            driver = url.set(drivername="postgresql+psycopg")
            return create_engine(driver, connect_args=usual, poolclass=NullPool, hide_parameters=True)
    raise SpecError(f"--from asks for {url.drivername}, which is not read here. Write it as {_EXAMPLES}.")


def _left_to_rows(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Text that is no UTF-8, with halves of surrogate pairs where it is broken (strange.py)."""
    connection.text_factory = partial(bytes.decode, errors="surrogateescape")
    return connection


def read_only(place: str) -> sqlite3.Connection:
    """`mode=ro` holds for the file itself; ATTACH and VACUUM INTO, which asks for the same right, would make others."""

    def allowed(action: int, name: str | None, value: str | None, *_: str | None) -> int:
        return sqlite3.SQLITE_DENY if _writes_beside(action, str(name).lower(), value) else sqlite3.SQLITE_OK

    connection = sqlite3.connect(place, _WAIT_S, uri=True)
    connection.set_authorizer(allowed)
    return connection


def _writes_beside(action: int, name: str, value: str | None) -> bool:
    """Some would fail by themselves, but as if the disk did."""
    if action == sqlite3.SQLITE_PRAGMA:
        return name == "wal_checkpoint" or (name == "journal_mode" and value is not None)
    return action == sqlite3.SQLITE_ATTACH
