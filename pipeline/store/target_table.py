"""Stage 7: results as a table of somebody's database: all of an export, or nothing, and no row twice."""

import datetime
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypedDict

import pyarrow as pa
from sqlalchemy import (
    JSON,
    URL,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Date,
    DateTime,
    Double,
    Engine,
    LargeBinary,
    MetaData,
    NullPool,
    Numeric,
    Table,
    Text,
    Time,
    create_engine,
    event,
    inspect,
    make_url,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import quoted_name
from sqlalchemy.types import TypeEngine

from pipeline.errors import JobError, PipelineError, RefusedError, SpecError, TryAgain
from pipeline.store.entries import INSERT
from pipeline.store.export import Wanted, free_name, joined, result_name, wanted_schema
from pipeline.store.json_texts import json_cells
from pipeline.store.postgresql import CONNECTION
from pipeline.store.records import JobRecord
from pipeline.store.selection import is_of_the_moment, with_password, without_password
from pipeline.store.table_limits import bindable_values, require_names

_WAIT_S = 30  #: for whoever writes to an SQLite file just now
_EXAMPLES = "postgresql://user@host/database or sqlite:///path/to/file.db"
#: Behind backslashes that stand for themselves.
_NUL_IN_JSON = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_TYPES: tuple[tuple[Callable[[pa.DataType], bool], TypeEngine[Any]], ...] = (
    (pa.types.is_boolean, Boolean()),
    (pa.types.is_integer, BigInteger()),
    (pa.types.is_floating, Double()),
    (pa.types.is_decimal, Numeric().with_variant(Text(), "sqlite")),
    (pa.types.is_date, Date()),
    (pa.types.is_time, Time()),
    (pa.types.is_nested, JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")),
    (pa.types.is_binary, LargeBinary()),
    (pa.types.is_large_binary, LargeBinary()),
)


def export_to_table(engine: Engine, job: JobRecord, wanted: Wanted, url: str, secret_url: str | None, name: str) -> int:
    """How many rows were written, in one transaction. The table (in PostgreSQL also SCHEMA.TABLE) is made where it is
    not there; its columns are `job`, `job_id`, then those of an export. A row that it has already is written over.

    `secret_url` is used where it is `url` but for a password. Raises SpecError for a URL that makes no sense or holds a
    secret, RefusedError for a table that is not such a one, TryAgain or JobError where the database says so.
    """
    if wanted.columns is not None and "row_id" not in wanted.columns:
        wanted = replace(wanted, columns=("row_id", *wanted.columns))
    layout = _Layout.of(wanted_schema(engine, job, wanted))
    n_rows = 0
    with _writing(_url(url, secret_url)) as connection:
        table = _table(connection, name, layout)
        insert = INSERT[connection.dialect.name](table)
        others = {column.name: insert.excluded[column.name] for column in table.c if column.name not in layout.key}
        upsert = insert.on_conflict_do_update(index_elements=list(layout.key), set_=others)
        for piece in joined(engine, job, layout.schema, wanted):
            connection.execute(upsert, _rows(piece, layout, job, connection))
            n_rows += piece.num_rows
    return n_rows


class _Place(TypedDict):
    table_name: str
    schema: str | None  #: None: the first one that the database looks into


@dataclass(frozen=True, slots=True)
class _Layout:
    """Names that the input has already are given way to, as in every export."""

    schema: pa.Schema
    job: str  #: the column of the job's name
    key: tuple[str, str]  #: those of its id, and of the row's

    @classmethod
    def of(cls, schema: pa.Schema) -> "_Layout":
        row_id = next(field.name for field in schema if result_name(field) == "row_id")
        return cls(schema, free_name("job", schema.names), (free_name("job_id", schema.names), row_id))

    def columns(self) -> list[Column[Any]]:
        """All quoted: SQLite has more words of its own than are known here."""
        job, job_id = (quoted_name(name, quote=True) for name in (self.job, self.key[0]))
        return [Column(job, Text, nullable=False), Column(job_id, Text, primary_key=True)] + [
            Column(
                quoted_name(field.name, quote=True),
                _type(field.type),
                primary_key=field.name in self.key,
                autoincrement=False,
            )
            for field in self.schema
        ]


def _url(url: str, secret_url: str | None) -> URL:
    kept = without_password(url, "--to")
    if make_url(url).password is not None:
        raise SpecError(
            "--to holds a password, which others on this machine could see. Leave it out, and write the whole URL into "
            "PIPELINE_TARGET_URL."
        )
    parsed = make_url(with_password(kept, secret_url))
    match parsed.get_backend_name():
        case "postgresql" | "postgres":
            return parsed.set(drivername="postgresql+psycopg")
        case "sqlite" if parsed.query:
            raise SpecError("--to has options behind a ?, and an SQLite file takes none. Leave them out.")
        case "sqlite" if parsed.database not in (None, "", ":memory:"):
            return parsed
    raise SpecError(f"--to asks for {parsed.drivername}, which is not written here. Write it as {_EXAMPLES}.")


@contextmanager
def _writing(url: URL) -> Iterator[Connection]:
    """One transaction of somebody's database. Raises TryAgain or JobError for what the database says."""
    is_file = url.get_backend_name() == "sqlite"
    usual = {name: value for name, value in CONNECTION.items() if name not in url.query}
    arguments = {"timeout": _WAIT_S} if is_file else usual
    # Of columns of JSON, texts are bound: they are JSON already.
    engine = create_engine(
        url, connect_args=arguments, poolclass=NullPool, hide_parameters=True, json_serializer=lambda text: text
    )
    if is_file:
        # By itself the driver begins one with the first row, behind the making of the table.
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    try:
        with engine.begin() as connection:
            yield connection
    except DBAPIError as error:
        raise _told(error, url) from error


def _told(error: DBAPIError, url: URL) -> PipelineError:
    detail = next(iter(str(error.orig).strip().splitlines()), "").rstrip(".")
    if url.password:
        detail = detail.replace(str(url.password), "***")
    name = without_password(url.render_as_string(hide_password=False), "--to").replace("+psycopg", "")
    if is_of_the_moment(error):
        return TryAgain(f"{name} did not take the rows: {detail}. Nothing was written; try again when it is up.")
    return JobError(
        f"{name} did not take the rows: {detail}. Nothing was written. Correct --to, PIPELINE_TARGET_URL, or what the "
        "database allows."
    )


def _table(connection: Connection, name: str, layout: _Layout) -> Table:
    place = _place(name, connection.dialect.name)
    require_names(connection.dialect.name, (place["table_name"], place["schema"] or ""), layout.schema.names)
    table = Table(quoted_name(place["table_name"], quote=True), MetaData(), *layout.columns(), schema=place["schema"])
    found = inspect(connection)
    if not found.has_table(**place):
        table.create(connection)
        return table
    there = {column["name"] for column in found.get_columns(**place)}
    missing = [column.name for column in table.c if column.name not in there]
    if missing:
        raise RefusedError(
            f"The table {name} has no columns {', '.join(missing)}. Add them (ALTER TABLE), choose --columns that it "
            "has, or name another table."
        )
    keys = [found.get_pk_constraint(**place)["constrained_columns"]]
    keys += [unique["column_names"] for unique in found.get_unique_constraints(**place)]
    if not any(set(key) == set(layout.key) for key in keys):
        raise RefusedError(
            f"The table {name} has no key of {' and '.join(layout.key)}, without which rows could be in it twice. Make "
            "them its primary key, or name another table."
        )
    return table


def _place(name: str, dialect: str) -> _Place:
    *schemas, table = name.split(".")
    if table == "" or len(schemas) > 1 or "" in schemas:
        raise SpecError(f"--table {name} names no table. Write it as TABLE, or as SCHEMA.TABLE.")
    if schemas and dialect == "sqlite":
        raise SpecError(f"--table {name} names a schema, and SQLite has none. Give a name without a dot.")
    return {"table_name": table, "schema": quoted_name(schemas[0], quote=True) if schemas else None}


def _type(kind: pa.DataType) -> TypeEngine[Any]:
    if pa.types.is_dictionary(kind):
        return _type(kind.value_type)
    if pa.types.is_timestamp(kind):
        return DateTime(timezone=kind.tz is not None)
    return next((type_ for is_so, type_ in _TYPES if is_so(kind)), Text())


def _rows(piece: pa.Table, layout: _Layout, job: JobRecord, connection: Connection) -> list[dict[str, Any]]:
    ours, row_ids = {layout.job: job.name, layout.key[0]: job.id}, piece[layout.key[1]].to_pylist()
    bindable, json_bindable = _BINDABLE[connection.dialect.name], _JSON_BINDABLE[connection.dialect.name]
    columns = [
        bindable_values(name, column, row_ids)
        if _is_plain(column.type)
        else list(map(json_bindable, json_cells(column).to_pylist()))
        if pa.types.is_nested(column.type)
        else list(map(bindable, bindable_values(name, column, row_ids)))
        for name, column in zip(piece.column_names, (column.combine_chunks() for column in piece.columns), strict=True)
    ]
    return [ours | dict(zip(piece.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _is_plain(kind: pa.DataType) -> bool:
    return any(is_so(kind) for is_so in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean))


def _for_sqlite(value: object) -> object:
    """It has neither fixed points nor zones."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return str(value) if isinstance(value, Decimal | datetime.timedelta) else value


def _for_postgresql(value: object) -> object:
    """It has no NUL."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    return str(value) if isinstance(value, datetime.timedelta) else value


def _json_for_sqlite(text: str | None) -> str | None:
    return text


def _json_for_postgresql(text: str | None) -> str | None:
    return text and _NUL_IN_JSON.sub(r"\1\\ufffd", text)


_BINDABLE: dict[str, Callable[[object], object]] = {"sqlite": _for_sqlite, "postgresql": _for_postgresql}
_JSON_BINDABLE: dict[str, Callable[[str | None], str | None]] = {
    "sqlite": _json_for_sqlite,
    "postgresql": _json_for_postgresql,
}
