import io
import json

import pyarrow.parquet as pq
import pytest
from sqlalchemy import text

from pipeline.errors import InputError, PipelineError, RefusedError, SpecError, TryAgain
from pipeline.store.row_files import write_rows
from pipeline.store.statement import Statement
from pipeline.store.transactions import reading, writing

ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"
NUMBERS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 2500) SELECT n FROM c ORDER BY n"
#: Of each, what it would leave behind is looked for afterwards.
WRITES = [
    "DELETE FROM jobs",
    "INSERT INTO workers SELECT * FROM workers",
    "DROP VIEW v_jobs",
    "UPDATE jobs SET name = 'x'",
    "CREATE TABLE t (a int)",
    "SELECT 1; DELETE FROM jobs",
    "WITH d AS (SELECT 1) DELETE FROM jobs",
]


def test_blocks_are_streamed(engine):
    blocks = list(Statement(engine, f"{NUMBERS};").blocks())
    assert [len(block.rows) for block in blocks] == [1000, 1000, 500]
    assert blocks[2].rows[-1] == (2500,)


@pytest.mark.parametrize("sql", WRITES)
def test_nothing_is_written(engine, road, sql):
    road.job(name="night")
    with pytest.raises((RefusedError, SpecError)):
        list(Statement(engine, sql).blocks())
    with reading(engine) as connection:
        assert connection.execute(text("SELECT job FROM v_jobs")).scalars().all() == ["night"]
        assert connection.scalar(text("SELECT count(*) FROM workers")) == 0


def test_what_writes_behind_a_select_is_refused(engine):
    write = "DELETE FROM jobs RETURNING id"
    if engine.dialect.name == "postgresql":
        write = "SELECT wipe()"
        with writing(engine) as connection:
            connection.execute(text("CREATE FUNCTION wipe() RETURNS int LANGUAGE sql AS 'DELETE FROM jobs; SELECT 1'"))
    with pytest.raises(RefusedError, match=r"`pipeline sql` only reads, and this would do more: .*\. Nothing was"):
        list(Statement(engine, write).blocks())


def test_no_other_file_is_opened_or_made_beside_a_sqlite(tmp_path, open_engine, database_url):
    if not database_url.startswith("sqlite"):
        pytest.skip("A server has no files to attach.")
    engine = open_engine(5.0)
    for sql in (f"ATTACH '{tmp_path}/made.db' AS other", f"VACUUM INTO '{tmp_path}/made.db'"):
        with pytest.raises(PipelineError):
            list(Statement(engine, sql).blocks())
    assert not (tmp_path / "made.db").exists()
    assert next(Statement(engine, "SELECT value FROM json_each('[7]')").blocks()).rows == [(7,)]


@pytest.mark.parametrize("sql", ["PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA Journal_Mode = DELETE"])
def test_a_pragma_that_would_write_is_refused_as_such(tmp_path, open_engine, database_url, sql):
    if not database_url.startswith("sqlite"):
        pytest.skip("PostgreSQL has none.")
    engine = open_engine(5.0)
    with pytest.raises(RefusedError, match="`pipeline sql` only reads"):
        list(Statement(engine, sql).blocks())
    assert next(Statement(engine, "PRAGMA journal_mode").blocks()).rows == [("wal",)]


def test_how_it_is_answered_can_be_asked(engine):
    sql = "/* how? */ -- this\n EXPLAIN SELECT 1"
    assert next(Statement(engine, sql).blocks()).rows
    if engine.dialect.name == "postgresql":
        assert next(Statement(engine, "SHOW TimeZone").blocks()).rows == [("UTC",)]


def test_a_name_that_is_not_there_is_no_text(engine, road):
    road.job(name="night")
    with pytest.raises(SpecError, match=r"lable.*A text stands in single quotes\."):
        list(Statement(engine, 'SELECT "lable" FROM v_results').blocks())
    found = next(Statement(engine, """SELECT "job" AS "a ""b", '"job"' AS c FROM v_jobs -- "d" """).blocks())
    assert (found.names, found.rows) == (('a "b', "c"), [("night", '"job"')])
    if engine.dialect.name == "sqlite":
        assert next(Statement(engine, 'SELECT max("job") FROM v_jobs').blocks()).names == ('max("job")',)


def test_a_mistake_is_told_in_the_databases_words(engine):
    with pytest.raises(SpecError, match=r"The database cannot answer this: .*nowhere.*Write one SELECT"):
        list(Statement(engine, "SELECT * FROM nowhere").blocks())


def test_a_statement_has_so_long(engine):
    with pytest.raises(TryAgain, match=r"The statement was ended after 0\.1 s, as --timeout asks\."):
        list(Statement(engine, ENDLESS, 0.1).blocks())


def test_rows_become_files(engine):
    sql = "SELECT n, CASE WHEN n > 1 THEN 'é,' END AS word FROM (SELECT 1 AS n UNION ALL SELECT 2) AS two ORDER BY n"

    def written(file_format: str) -> bytes:
        stream = io.BytesIO()
        assert write_rows(Statement(engine, sql), file_format, stream) == 2
        return stream.getvalue()

    assert written("csv").decode() == 'n,word\n1,\n2,"é,"\n'
    assert [json.loads(line) for line in written("jsonl").splitlines()] == [
        {"n": 1, "word": None},
        {"n": 2, "word": "é,"},
    ]
    assert pq.read_table(io.BytesIO(written("parquet"))).to_pylist() == [
        {"n": 1, "word": None},
        {"n": 2, "word": "é,"},
    ]


def test_columns_of_one_name_are_refused(engine):
    with pytest.raises(SpecError, match='The answer has 2 columns named "a"'):
        write_rows(Statement(engine, "SELECT 1 AS a, 2 AS a"), "csv", io.BytesIO())


def test_a_later_row_of_another_type_is_named(tmp_path, open_engine, database_url):
    if not database_url.startswith("sqlite"):
        pytest.skip("PostgreSQL gives each column one type.")
    sql = NUMBERS.replace("SELECT n FROM", "SELECT CASE WHEN n < 2000 THEN n ELSE 'x' END AS n FROM")
    with pytest.raises(InputError, match="Row 2000 of the answer holds 'x' in the column \"n\""):
        write_rows(Statement(open_engine(5.0), sql), "parquet", tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()
