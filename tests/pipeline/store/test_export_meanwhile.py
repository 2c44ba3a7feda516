"""Answers that go while they are exported."""

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, event, inspect

from pipeline.errors import RefusedError, TryAgain
from pipeline.store.export import Wanted, export, preview
from pipeline.store.lookup import read_job
from pipeline.store.purge import purge
from pipeline.store.target_table import export_to_table


@pytest.fixture
def done(engine, ledger, exported_job):
    job = exported_job(pa.table({"id": [f"r{n}" for n in range(12)]}), answered=11)
    ledger.complete(job.id)
    return read_job(engine, job.id)


@pytest.fixture
def meanwhile(engine):
    """Does so once, behind the first reading of results."""

    waiting = []

    @event.listens_for(engine, "after_cursor_execute")
    def look(connection, cursor, statement, *rest):
        if waiting and "FROM results" in statement:
            waiting.pop()()

    return waiting.append


def test_a_purge_is_told_and_no_short_file_is_left(engine, done, meanwhile, tmp_path):
    meanwhile(lambda: purge(engine, done, "results"))
    with pytest.raises(RefusedError, match=r"The answers of .* were purged on "):
        export(engine, done, "csv", tmp_path / "out.csv")
    assert not list(tmp_path.glob("*out.csv*"))


def test_a_table_gets_nothing(engine, done, meanwhile, tmp_path):
    meanwhile(lambda: purge(engine, done, "results"))
    with pytest.raises(RefusedError, match="were purged"):
        export_to_table(engine, done, Wanted(), f"sqlite:///{tmp_path}/target.db", None, "answers")
    assert not inspect(create_engine(f"sqlite:///{tmp_path}/target.db")).has_table("answers")


def test_a_purge_of_the_input_is_told_as_one(engine, done, meanwhile):
    meanwhile(lambda: purge(engine, done, "shards"))
    with pytest.raises(RefusedError, match=r"The input of .* was purged on "):
        preview(engine, done, Wanted())


@pytest.mark.parametrize("where", [None, "id like 'r%'"])
def test_a_job_that_goes_on_is_told(engine, ledger, done, meanwhile, where):
    meanwhile(lambda: ledger.retry_errors(done.id, 1))
    with pytest.raises(TryAgain, match=r"was done and went on .* Give the same command again when it is done"):
        preview(engine, done, Wanted(where=where))
