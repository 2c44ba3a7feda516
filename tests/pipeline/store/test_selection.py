import datetime
import sqlite3
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from pipeline.errors import JobError, SpecError, TryAgain
from pipeline.ingest.inputs import resolve_selected
from pipeline.ingest.rows import peek
from pipeline.store import selection
from pipeline.store.selection import Selection, with_password, without_password


@pytest.fixture
def lite(tmp_path: Path) -> str:
    """A table of three rows, and one of what SQLite allows."""
    path = tmp_path / "a b?.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (id INTEGER, text, n)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [(1, "a", None), (2, None, 2**62), (3, "ü%:x", -1)])
    connection.close()
    return f"sqlite:///{str(path).replace('?', '%3F')}"


@pytest.fixture
def rows_of() -> Callable[[str, str], list[dict[str, Any]]]:
    def rows(url: str, sql: str) -> list[dict[str, Any]]:
        source = resolve_selected(Selection(url, sql))
        return [row for _, batch in source.batches() for row in batch.to_pylist()]

    return rows


def fault(url: str, sql: str) -> str:
    with pytest.raises(JobError) as caught:
        list(resolve_selected(Selection(url, sql)).batches())
    return str(caught.value)


def test_rows_of_sqlite(lite: str, rows_of: Any) -> None:
    assert rows_of(lite, "SELECT * FROM t WHERE text LIKE '%:x' OR text IS NOT NULL ORDER BY id;\n") == [
        {"id": 1, "text": "a", "n": None},
        {"id": 3, "text": "ü%:x", "n": -1},
    ]
    assert rows_of(lite, "SELECT n FROM t ORDER BY id") == [{"n": None}, {"n": 2**62}, {"n": -1}]


def test_blocks_are_of_one_table(lite: str, rows_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "_BLOCK_ROWS", 2)
    assert [len(block.rows) for block in Selection(lite, "SELECT * FROM t").blocks()] == [2, 1]
    assert [row["id"] for row in rows_of(lite, "SELECT id FROM t ORDER BY id")] == [1, 2, 3]
    assert fault(lite, "SELECT CASE WHEN id < 3 THEN id ELSE 'x' END AS a FROM t ORDER BY id").startswith(
        'Row 3 of the SELECT on sqlite:////'
    )  # fmt: skip
    told = fault(lite, "SELECT CASE WHEN id < 3 THEN NULL ELSE 7 END AS a FROM t ORDER BY id")
    assert 'holds 7 in the column "a", which the rows before it make string. Give it one type in the SELECT' in told
    assert "Row 2 of " in fault(lite, "SELECT CASE WHEN id = 1 THEN 1 ELSE 'x' END AS a FROM t ORDER BY id")


def test_an_empty_table_has_columns(lite: str) -> None:
    source = resolve_selected(Selection(lite, "SELECT id, text FROM t WHERE id > 9"))
    assert source.columns() == ["id", "text"]
    assert [batch.num_rows for _, batch in source.batches()] == [0]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT * FROM tt", "--sql cannot be run on {}: no such table: tt. Correct the statement, or --from."),
        ("DELETE FROM t", "--sql cannot be run on {}: attempt to write a readonly database."),
        ("SELECT 1; SELECT 2", "--sql cannot be run on {}: You can only execute one statement at a time."),
        ("BEGIN", "--sql gives no table. Write one SELECT."),
        ("SELECT id, text AS id FROM t", 'There are 2 columns named "id" in the SELECT on {}. Rename all but one.'),
        ('SELECT "txet" FROM t', "--sql cannot be run on {}: no such column: txet."),
    ],
)
def test_what_sqlite_refuses(lite: str, sql: str, told: str) -> None:
    assert fault(lite, sql).startswith(told.format(lite))


@pytest.mark.parametrize("sql", ["VACUUM INTO '{}'", "ATTACH '{}' AS other", "ATTACH 'file:{}?mode=rwc' AS other"])
def test_nothing_is_written_beside_a_sqlite(lite: str, tmp_path: Path, sql: str) -> None:
    path = tmp_path / "made.db"
    assert fault(lite, sql.format(path)).startswith(f"--sql cannot be run on {lite}: ")
    assert not path.exists()


def test_functions_that_are_tables_are_read(lite: str, rows_of: Any) -> None:
    assert rows_of(lite, "SELECT value AS v FROM t, json_each('[7]') WHERE t.id = 1") == [{"v": 7}]


@pytest.mark.parametrize("bad", [1, 3])
def test_text_of_sqlite_that_is_not_utf8_is_left_to_its_row(lite: str, bad: int) -> None:
    text = f"CAST(CASE WHEN id = {bad} THEN x'61ff' ELSE 'é' END AS TEXT) AS b"
    source = resolve_selected(Selection(lite, f"SELECT {text}, id FROM t ORDER BY id"))
    assert [row["b"] for row in peek(source, 9)] == ["a\udcff" if row == bad else "é" for row in (1, 2, 3)]


def test_a_locked_sqlite_is_the_moments_fault(lite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "_WAIT_S", 0.1)
    with sqlite3.connect(tmp_path / "a b?.db") as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        found = Selection(lite, "SELECT * FROM t")
        with pytest.raises(TryAgain, match="database is locked"):
            next(iter(found.blocks()))
    other.close()


def test_a_sqlite_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "no.db"
    assert fault(f"sqlite:///{path}", "SELECT 1").startswith(f"There is no database {path}.")
    assert not path.exists()


def test_the_types_of_postgresql(postgresql_url: str, rows_of: Any) -> None:
    sql = """
        SELECT 7::bigint AS n, 1.50::numeric(10,2) AS price, 1.250::numeric AS free,
               ARRAY[1.5::numeric] AS list_of, 0.00000001::numeric AS small, 'a'::text AS text, true AS yes,
               '2024-01-02'::date AS day, '2024-01-02 03:04:05+00'::timestamptz AS at, '\\x00ff'::bytea AS bytes,
               '{"a": [1]}'::jsonb AS json, '"x"'::jsonb AS word, ARRAY['x', NULL] AS list, NULL::int AS none,
               '12345678-1234-1234-1234-123456789abc'::uuid AS id, '1 day'::interval AS long, '10.0.0.1'::inet AS net,
               '5%' AS percent, 'NaN'::float8 AS nan
    """
    [row] = rows_of(postgresql_url, sql)
    assert repr(row.pop("nan")) == "nan"
    assert row == {
        "n": 7, "price": Decimal("1.50"), "free": "1.250", "list_of": ["1.5"], "small": "0.00000001",
        "text": "a", "yes": True,
        "day": datetime.date(2024, 1, 2), "at": datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        "bytes": b"\x00\xff", "json": '{"a": [1]}', "word": '"x"', "list": ["x", None], "none": None,
        "id": "12345678-1234-1234-1234-123456789abc", "long": datetime.timedelta(days=1), "net": "10.0.0.1",
        "percent": "5%",
    }  # fmt: skip
    schema = resolve_selected(Selection(postgresql_url, sql)).schema
    assert schema.field("none").type == pa.int64()
    assert schema.field("price").type == pa.decimal128(38, 2)


def test_postgresql_is_read_in_pieces_and_nothing_is_written(postgresql_url: str, rows_of: Any) -> None:
    plain = postgresql_url.replace("+psycopg", "")
    with psycopg.connect(plain) as connection:
        connection.execute("CREATE TABLE t AS SELECT n FROM generate_series(1, 2500) AS n")
    blocks = Selection(postgresql_url, "SELECT * FROM t ORDER BY n").blocks()
    assert len(next(blocks).rows) == 1000
    with psycopg.connect(plain) as connection:
        connection.execute("DELETE FROM t WHERE n > 2000")
    assert [len(block.rows) for block in blocks] == [1000, 500]  # one view of the table, from its start to its end
    for sql in ("DELETE FROM t", "SELECT 1; DROP TABLE t", "WITH d AS (DELETE FROM t RETURNING n) SELECT * FROM d"):
        assert fault(postgresql_url, sql).startswith("--sql cannot be run on postgresql")
    with psycopg.connect(plain) as connection:
        connection.execute("CREATE FUNCTION wipe() RETURNS int LANGUAGE sql AS 'DELETE FROM t; SELECT 1'")
    assert "read-only transaction" in fault(postgresql_url, "SELECT wipe()")
    assert len(rows_of(postgresql_url, "SELECT * FROM t")) == 2000


def test_a_password_is_nowhere_told(postgresql_url: str) -> None:
    url = "postgresql://someone:hun/ter2@127.0.0.1:1/db"
    found = Selection(url, "SELECT 1")
    assert "ter2" not in f"{found.name}{found.facts()}{vars(found)}"
    with pytest.raises(TryAgain) as caught:
        next(iter(found.blocks()))
    assert "postgresql://someone@127.0.0.1:1/db did not answer as it should: " in str(caught.value)
    assert "ter2" not in str(caught.value)


def test_a_url_is_kept_without_its_password() -> None:
    assert without_password("postgresql://me:pa/ss@host:5/db?sslmode=require") == (
        "postgresql://me@host:5/db?sslmode=require"
    )
    assert without_password("sqlite:////data/a.db") == "sqlite:////data/a.db"
    assert with_password("postgresql://me@host/db", "postgresql://me:x@host/db") == "postgresql://me:x@host/db"
    assert with_password("postgresql://me@host/db", "postgresql://me:x@host/other") == "postgresql://me@host/db"
    assert without_password("postgresql://me%40corp:p%40ss@host/db") == "postgresql://me%40corp@host/db"
    assert without_password("sqlite:////data/a@b@c.db") == "sqlite:////data/a%40b%40c.db"
    assert with_password("postgresql://me@host/db", None) == "postgresql://me@host/db"


@pytest.mark.parametrize(
    "url",
    [
        "hunter2",
        "postgresql://me@host:hunter2/db",
        "postgresql://me@host/db?password=hunter2",
        "postgresql://me@host/db?dsn=hunter2",
        "postgresql://me@host/db?conninfo=hunter2",
        "postgresql://me@host/db?odbc_connect=hunter2",
        "postgresql://me@host/db?options=password%3Dhunter2",
        "postgresql://me@host/db?options=a&options=PASSWORD%20%3D%20hunter2",
        "postgresql://me:p@hunter2@host/db",
        "postgresql://me:p@hunter2/x@host/db",
        "postgresql://me:p@hunter2?x@host/db",
    ],
)
def test_a_url_that_makes_no_sense_is_not_repeated(url: str) -> None:
    with pytest.raises(SpecError) as caught:
        without_password(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("kind", ["nosql", "mysql", "oracle", "duckdb"])
def test_a_database_of_another_kind_is_not_read(kind: str) -> None:
    with pytest.raises(SpecError, match=f"asks for {kind}, which is not read here. Write it as postgresql:"):
        next(iter(Selection(f"{kind}://host/db", "SELECT 1").blocks()))
