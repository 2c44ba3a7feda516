from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import IntegrityError, OperationalError

from pipeline.errors import JobError, TryAgain
from pipeline.store.transactions import database_name, faults_told, reading, writing

FILL = text("INSERT INTO jobs SELECT :id, :id, :text, '', '', '', 'done', 0, 0, 0, NULL")


def test_a_locked_database_says_so(engine: Engine, open_engine: Callable[[float], Engine]):
    hasty = open_engine(0.01)
    with writing(engine), pytest.raises(TryAgain, match=r"is locked by another process.*try again"), writing(hasty):
        pass


def test_reading_waits_for_no_writer(engine: Engine, open_engine: Callable[[float], Engine]):
    hasty = open_engine(0.01)
    with writing(engine) as writer:
        writer.execute(FILL, {"id": "a", "text": "b"})
        with reading(hasty) as reader:
            assert reader.scalar(text("SELECT count(*) FROM jobs")) == 0


def test_a_reader_sees_one_moment(engine: Engine):
    with reading(engine) as reader:
        assert reader.scalar(text("SELECT count(*) FROM jobs")) == 0
        with writing(engine) as writer:
            writer.execute(FILL, {"id": "a", "text": "b"})
        assert reader.scalar(text("SELECT count(*) FROM jobs")) == 0


def test_a_failed_transaction_leaves_nothing(engine: Engine):
    def fail() -> None:
        with writing(engine) as writer:
            writer.execute(FILL, {"id": "a", "text": "b"})
            raise RuntimeError("after the insert")

    with pytest.raises(RuntimeError, match="after the insert"):
        fail()
    with reading(engine) as reader:
        assert reader.scalar(text("SELECT count(*) FROM jobs")) == 0


def test_a_full_disk_says_so(engine: Engine):
    limit(engine, "PRAGMA max_page_count = 1")  # which SQLite takes to be the number of pages there are
    with pytest.raises(TryAgain, match=r"The disk that holds the database .*pipeline\.db is full"):
        fill(engine, "x" * 100_000)


def test_a_database_that_cannot_be_written_says_so(engine: Engine):
    limit(engine, "PRAGMA query_only = ON")
    with pytest.raises(JobError, match=r"pipeline\.db cannot be written to"):
        fill(engine, "x")


def test_a_damaged_database_says_so(engine: Engine):
    with writing(engine) as connection:
        for number in range(50):
            connection.execute(FILL, {"id": str(number), "text": "x" * 1000})
    engine.dispose()
    with Path(database_name(engine)).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * 40_000)
    with pytest.raises(JobError, match=r"pipeline\.db is damaged"), reading(engine) as connection:
        connection.execute(text("SELECT * FROM jobs")).all()


def test_a_mistake_of_ours_stays_an_exception(engine: Engine):
    with pytest.raises(OperationalError, match="no such table"), reading(engine) as connection:
        connection.execute(text("SELECT * FROM nowhere"))
    with pytest.raises(IntegrityError), writing(engine) as connection:
        connection.execute(text("INSERT INTO shards VALUES ('no job', 0, '', 0, 1, 'pending', 0, 0)"))


def test_a_server_that_is_down_is_named_without_its_password():
    """Any driver's OperationalError that is not sqlite3's stands for a server's."""
    engine = create_engine("sqlite:///x.db")
    engine.dialect.name = "elsewhere"
    engine.url = engine.url.set(drivername="postgresql", username="me", password="secret", host="h")
    with pytest.raises(TryAgain) as caught, faults_told(engine):
        raise OperationalError("SELECT 1", {}, ConnectionError("connection refused"))
    assert str(caught.value) == (
        "The database postgresql://me:***@h/x.db did not answer as it should: connection refused. "
        "Try again when it is up."
    )


def limit(engine: Engine, pragma: str) -> None:
    """The engine's one connection in use keeps it."""
    with reading(engine) as connection:
        connection.execute(text(pragma))


def fill(engine: Engine, content: str) -> None:
    with writing(engine) as connection:
        connection.execute(FILL, {"id": "a", "text": content})
