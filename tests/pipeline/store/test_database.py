import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from pipeline.errors import JobError, SpecError
from pipeline.settings import Settings
from pipeline.store.database import connect, migrate, open_database
from pipeline.store.schema import SCHEMA_VERSION
from pipeline.store.transactions import database_name, reading, writing

on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Of a database without tables."""
    return str(request.getfixturevalue(f"{request.param}_url"))


def settings(path: Path) -> Settings:
    return Settings(database_url=f"sqlite:///{path}")


def test_a_new_database_and_its_directory_are_made(tmp_path: Path):
    engine = open_database(settings(tmp_path / "a" / "b" / "new.db"))
    with reading(engine) as connection:
        assert connection.scalar(text("SELECT count(*) FROM jobs")) == 0
    engine.dispose()


@on_sqlite
def test_sqlite_is_set_up(engine):
    with reading(engine) as connection:
        told = {
            name: connection.scalar(text(f"PRAGMA {name}"))
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert told == {"journal_mode": "wal", "synchronous": 1, "foreign_keys": 1, "busy_timeout": 30_000}


def test_migrate_tells_from_where_to_where(database_url: str):
    assert migrate(Settings(database_url=database_url)) == (None, SCHEMA_VERSION)
    assert migrate(Settings(database_url=database_url)) == (SCHEMA_VERSION, SCHEMA_VERSION)


def test_opening_an_up_to_date_database_imports_no_alembic(tmp_path: Path):
    migrate(settings(tmp_path / "new.db"))
    program = (
        "import sys; from pipeline.settings import Settings; from pipeline.store.database import open_database\n"
        f"open_database(Settings(database_url='sqlite:///{tmp_path}/new.db'))\n"
        "import pipeline.store.ledger, pipeline.store.queries\n"
        "print([name for name in ('alembic', 'pyarrow', 'torch', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_several_processes_open_a_new_database_at_once(database_url: str):
    program = (
        "import sys; from pipeline.settings import Settings; from pipeline.store.database import open_database\n"
        "print(flush=True); sys.stdin.readline()\n"
        f"open_database(Settings(database_url={database_url!r}))"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    openers = [subprocess.Popen([sys.executable, "-c", program], **pipes, text=True) for _ in range(4)]
    for opener in openers:
        opener.stdout.readline()
    for opener in openers:
        opener.stdin.write("\n")
        opener.stdin.flush()
    assert [opener.communicate()[1] for opener in openers] == [""] * 4


def test_a_database_of_a_newer_program_is_refused(engine: Engine, database_url: str):
    with writing(engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for use in (open_database, migrate):
        with pytest.raises(JobError, match=r"was written by a newer version.*at 9999.*Upgrade") as caught:
            use(Settings(database_url=database_url))
        assert database_name(engine) in str(caught.value)


def test_a_file_where_the_directory_should_be(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JobError, match=r"The directory .*file/sub for the database cannot be made: Not a directory"):
        open_database(settings(tmp_path / "file" / "sub" / "new.db"))


def test_a_directory_where_the_file_should_be(tmp_path: Path):
    with pytest.raises(JobError, match=rf"The database {tmp_path} cannot be opened"):
        open_database(settings(tmp_path))


def test_a_text_file_is_not_a_database(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("These are my notes on the reviews. " * 100)
    with pytest.raises(JobError, match=rf"{tmp_path}/notes.txt is not a database. Move the file away"):
        open_database(settings(tmp_path / "notes.txt"))


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_without_a_file_is_refused(url: str):
    with pytest.raises(SpecError, match="names no file"):
        open_database(Settings(database_url=url))


@pytest.mark.parametrize("url", ["me:secret@host", "postgresql://me:secret@host:port/db"])
def test_a_broken_url_is_not_repeated(url: str):
    with pytest.raises(SpecError, match="is not a database URL") as caught:
        open_database(Settings(database_url=url))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("driver", ["nonsense", "mysql+pymysql"])
def test_an_unknown_database_is_named_and_no_password(driver: str):
    with pytest.raises(SpecError, match=rf"asks for {driver.replace('+', '.')}\. Write it as") as caught:
        open_database(Settings(database_url=f"{driver}://me:secret@host/db"))
    assert "secret" not in str(caught.value)


class RefusesAtFirst(sqlite3.Connection):
    """As SQLite does, without a wait, where two connections to a new file switch to the write-ahead log at once."""

    refusals = 2

    def execute(self, statement: str, *parameters: object) -> sqlite3.Cursor:
        if "WAL" in statement and self.refusals:
            self.refusals -= 1
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        return super().execute(statement, *parameters)


def test_a_file_that_others_make_at_the_same_time_is_waited_for(tmp_path: Path, monkeypatch):
    connect_to = partial(sqlite3.connect, factory=RefusesAtFirst)
    monkeypatch.setattr(sqlite3.dbapi2, "connect", connect_to)
    with closing(connect(f"sqlite:///{tmp_path / 'new.db'}", 30.0).raw_connection()) as connection:
        assert connection.driver_connection.refusals == 0
        assert connection.driver_connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    with pytest.raises(sqlite3.OperationalError):
        connect(f"sqlite:///{tmp_path / 'other.db'}", 0.0).raw_connection()
