import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, inspect, text

from pipeline.errors import InputError, JobError, RefusedError, SpecError, TryAgain
from pipeline.store.export import Wanted
from pipeline.store.target_table import export_to_table
from tests.postgres_server import new_database


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request, tmp_path, postgres_server):
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/target.db"
    else:
        with new_database(postgres_server) as url:
            yield url.replace("+psycopg", "")


@pytest.fixture
def database_url(ready_sqlite_url):
    """Of the jobs; what is written to is what varies."""
    return ready_sqlite_url


def rows(target: str, statement: str) -> list[dict[str, object]]:
    engine = create_engine(target.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        found = [dict(row._mapping) for row in connection.execute(text(statement))]
    engine.dispose()
    return found


def test_a_table_is_made_and_appended_to_and_no_row_is_there_twice(engine, exported_job, target):
    first, second = (exported_job(pa.table({"id": ["a", "b", "c"], "stars": [5, None, n]})) for n in (1, 2))
    for job in (first, second, first):
        assert export_to_table(engine, job, Wanted(), target, None, "answers") == 2
    found = rows(
        target, "SELECT job, row_id, id, stars, status, output, prompt_tokens FROM answers ORDER BY job, row_id"
    )
    assert [(row["job"], row["row_id"]) for row in found] == [
        (job.name, row_id) for job in sorted((first, second), key=lambda job: job.name) for row_id in (0, 1)
    ]
    assert found[0] | {"job": ""} == {
        "job": "", "row_id": 0, "id": "a", "stars": 5, "status": "ok", "output": "answer 0", "prompt_tokens": 7,
    }  # fmt: skip


def test_a_table_may_lie_in_a_schema(engine, reviews, target):
    few = Wanted(columns=("status",), with_input=False)
    if target.startswith("sqlite"):
        with pytest.raises(SpecError, match=r"--table marts\.answers names a schema, and SQLite has none"):
            export_to_table(engine, reviews, few, target, None, "marts.answers")
        return
    with pytest.raises(JobError, match='schema "Marts" does not exist'):
        export_to_table(engine, reviews, few, target, None, "Marts.answers")
    made = create_engine(target.replace("postgresql:", "postgresql+psycopg:"))
    with made.begin() as connection:
        connection.execute(text('CREATE SCHEMA "Marts"'))
    made.dispose()
    for _ in range(2):
        assert export_to_table(engine, reviews, few, target, None, "Marts.answers") == 5
    assert rows(target, 'SELECT count(*) FROM "Marts".answers') == [{"count": 5}]
    for name in ("", "a.", ".a", "a.b.c"):
        with pytest.raises(SpecError, match="names no table"):
            export_to_table(engine, reviews, few, target, None, name)


def test_what_was_answered_again_is_written_over(engine, ledger, road, reviews, target):
    export_to_table(engine, reviews, Wanted(columns=("status",)), target, None, "answers")
    ledger.retry_errors(reviews.id, 4)
    road.answer(reviews)
    assert export_to_table(engine, reviews, Wanted(columns=("status",), with_input=False), target, None, "answers") == 6
    found = rows(target, "SELECT row_id, status, text FROM answers ORDER BY row_id")
    assert [row["status"] for row in found] == ["ok"] * 6
    assert found[0]["text"] == "plain"


def test_the_types_are_those_of_the_input(engine, exported_job, target):
    at = datetime.datetime(2026, 11, 29, 1, 2, 3, tzinfo=datetime.UTC)
    table = pa.table(
        {
            "job": ["mine"] * 3,
            "price": [Decimal("1.50")] * 3,
            "at": [at] * 3,
            "day": [at.date()] * 3,
            "yes": [True] * 3,
            "bytes": [b"\0\xff"] * 3,
            "list": [[1, None]] * 3,
            "struct": [{"a\\u0000": "b\0\\\0c\\u0000é"}] * 3,
            "nothing": pa.array([None] * 3, pa.list_(pa.int64())),
            "text": ["a\0b"] * 3,
            "word": pa.array(["w"] * 3).dictionary_encode(),
        }
    )
    export_to_table(engine, exported_job(table), Wanted(), target, None, "answers")
    [row] = rows(target, "SELECT * FROM answers WHERE row_id = 0")
    told = {"job": "mine", "yes": True, "nothing": None, "bytes": b"\0\xff", "word": "w"} | (
        {
            "price": Decimal("1.5"),
            "at": at,
            "day": at.date(),
            "list": [1, None],
            "text": "a\ufffdb",
            "struct": {"a\\u0000": "b\ufffd\\\ufffdc\\u0000é"},
        }
        if target.startswith("postgresql")
        else {"price": "1.50", "at": "2026-11-29 01:02:03.000000", "list": "[1, null]", "text": "a\0b"}
    )
    assert {name: row[name] for name in told} == told
    assert "result_job" in row


def test_an_interrupted_export_leaves_nothing(engine, reviews, target, tmp_path):
    (tmp_path / "00001.parquet").unlink()
    with pytest.raises(InputError):
        export_to_table(engine, reviews, Wanted(), target, None, "answers")
    found = create_engine(target.replace("postgresql:", "postgresql+psycopg:"))
    assert inspect(found).get_table_names() == []
    found.dispose()


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (
            pa.uint64(),
            2**64 - 1,
            "holds 18446744073709551615 in row 2, and a table takes whole numbers up to 9223372036",
        ),
        (pa.timestamp("ms", "UTC"), 10**15, "holds .* in row 2, and a table takes times of the years 1 to 9999"),
    ],
)
def test_a_value_beyond_what_a_table_holds_is_told(engine, exported_job, target, kind, value, told):
    job = exported_job(pa.table({"a": pa.array([1, None, value, 4], kind)}), answered=3)
    with pytest.raises(JobError, match=f'The column "a" {told}'):
        export_to_table(engine, job, Wanted(), target, None, "answers")


@pytest.mark.parametrize(
    ("column", "table", "told"),
    [("", "t", "has no name"), ("é" * 32, "t", "longer than PostgreSQL's 63 bytes"), ("a", "t" * 64, "Shorten it")],
)
def test_a_name_that_no_table_can_have_is_told(engine, exported_job, target, column, table, told):
    job = exported_job(pa.table({column: [1, 2]}), answered=1)
    if column and target.startswith("sqlite"):
        assert export_to_table(engine, job, Wanted(), target, None, table) == 2
        return
    with pytest.raises(SpecError, match=told):
        export_to_table(engine, job, Wanted(), target, None, table)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ("job TEXT", "The table answers has no columns job_id, row_id, status. Add them"),
        (
            "job TEXT, job_id TEXT, row_id INT, status TEXT",
            "The table answers has no key of job_id and row_id, without",
        ),
    ],
)
def test_another_table_is_not_written_to(engine, reviews, target, columns, told):
    made = create_engine(target.replace("postgresql:", "postgresql+psycopg:"))
    with made.begin() as connection:
        connection.execute(text(f"CREATE TABLE answers ({columns})"))
    made.dispose()
    with pytest.raises(RefusedError, match=told):
        export_to_table(engine, reviews, Wanted(columns=("status",), with_input=False), target, None, "answers")


def test_a_password_comes_from_the_environment_alone(engine, reviews):
    with pytest.raises(SpecError, match="--to holds a password") as caught:
        export_to_table(engine, reviews, Wanted(), "postgresql://me:hunter2@127.0.0.1:1/db", None, "t")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(TryAgain, match=r"postgresql://me@127\.0\.0\.1:1/db did not take the rows: ") as caught:
        export_to_table(
            engine, reviews, Wanted(), "postgresql://me@127.0.0.1:1/db", "postgresql://me:hunter2@127.0.0.1:1/db", "t"
        )
    assert "hunter2" not in str(caught.value)
    with pytest.raises(SpecError, match="--to asks for mysql, which is not written here"):
        export_to_table(engine, reviews, Wanted(), "mysql://me@host/db", None, "t")
    with pytest.raises(SpecError, match="an SQLite file takes none"):
        export_to_table(engine, reviews, Wanted(), "sqlite:///a.db?mode=ro", None, "t")
