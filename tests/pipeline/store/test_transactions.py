import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from pipeline.errors import JobError, TryAgain
from pipeline.store.transactions import database_name, moment, reading, writing

FILL = text(
    "INSERT INTO jobs (id, name, spec_json, fingerprint, model_digest, input_digest, state, submitted_at)"
    " VALUES (:id, :id, :text, '', '', '', 'done', 0)"
)
COUNT = text("SELECT count(*) FROM jobs")
TOUCH = text("UPDATE jobs SET error = 'touched' WHERE id = :id")

on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
on_postgresql = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


def fill(engine: Engine, *ids: str, content: str = "x") -> None:
    with writing(engine) as connection:
        for job_id in ids:
            connection.execute(FILL, {"id": job_id, "text": content})


def touch(connection: Connection, job_id: str) -> None:
    connection.execute(TOUCH, {"id": job_id})


def test_a_row_that_another_process_holds_says_so(engine: Engine, open_engine: Callable[[float], Engine]):
    fill(engine, "a")
    hasty = open_engine(0.01)
    with writing(engine) as holder:
        touch(holder, "a")
        with pytest.raises(TryAgain, match=r"is locked by another process.*try again"), writing(hasty) as connection:
            touch(connection, "a")


def test_reading_waits_for_no_writer(engine: Engine, open_engine: Callable[[float], Engine]):
    hasty = open_engine(0.01)
    with writing(engine) as writer:
        writer.execute(FILL, {"id": "a", "text": "b"})
        with reading(hasty) as reader:
            assert reader.scalar(COUNT) == 0


def test_a_reader_sees_one_moment(engine: Engine):
    with reading(engine) as reader:
        assert reader.scalar(COUNT) == 0
        fill(engine, "a")
        assert reader.scalar(COUNT) == 0
    with reading(engine) as reader:
        assert reader.scalar(COUNT) == 1


def test_a_failed_transaction_leaves_nothing(engine: Engine):
    def fail() -> None:
        with writing(engine) as writer:
            writer.execute(FILL, {"id": "a", "text": "b"})
            raise RuntimeError("after the insert")

    with pytest.raises(RuntimeError, match="after the insert"):
        fail()
    with reading(engine) as reader:
        assert reader.scalar(COUNT) == 0


def test_a_mistake_of_ours_stays_an_exception(engine: Engine):
    with pytest.raises(DBAPIError, match=r"no such table|does not exist"), reading(engine) as connection:
        connection.execute(text("SELECT * FROM nowhere"))
    fill(engine, "a")
    with pytest.raises(IntegrityError):
        fill(engine, "a")


def test_the_moment_goes_on_within_a_transaction(engine: Engine):
    with reading(engine) as connection:
        first = moment(connection)
        assert moment(connection) > first
        assert abs(first - time.time()) < 60


@on_postgresql
def test_the_moment_is_the_servers(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(time, "time", lambda: 0.0)
    with reading(engine) as connection:
        assert moment(connection) > 1_700_000_000


@on_postgresql
def test_readers_and_writers_are_isolated_as_promised_whatever_the_database_is_set_to(
    engine: Engine, open_engine: Callable[[float], Engine]
):
    with writing(engine) as connection:
        strict = f"ALTER DATABASE {engine.url.database} SET default_transaction_isolation = 'serializable'"
        connection.execute(text(strict))
    other = open_engine(30.0)

    def isolation(connection: Connection) -> tuple[str, str]:
        shown = [connection.scalar(text(f"SHOW transaction_{what}")) for what in ("isolation", "read_only")]
        return tuple(shown)

    for _ in range(2):
        with reading(other) as connection:
            assert isolation(connection) == ("repeatable read", "on")
        with writing(other) as connection:
            assert isolation(connection) == ("read committed", "off")


@on_postgresql
def test_a_writer_sees_what_others_commit(engine: Engine):
    with writing(engine) as writer:
        assert writer.scalar(COUNT) == 0
        fill(engine, "a")
        assert writer.scalar(COUNT) == 1


@on_postgresql
def test_two_that_wait_for_each_other_are_told_so(engine: Engine):
    fill(engine, "a", "b")
    told: list[TryAgain] = []
    both_hold = threading.Barrier(2)

    def hold(first: str, second: str) -> None:
        try:
            with writing(engine) as connection:
                connection.execute(text("SET LOCAL deadlock_timeout = '10ms'"))
                touch(connection, first)
                both_hold.wait(timeout=10)
                touch(connection, second)
        except TryAgain as error:
            told.append(error)

    threads = [threading.Thread(target=hold, args=order) for order in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [str(error).partition(" of the database ")[0] for error in told] == [
        "Another process changed the same entries"
    ]


@on_postgresql
def test_one_that_stands_still_in_its_changes_keeps_nobody_waiting(engine: Engine):
    fill(engine, "a")

    def stand_still() -> None:
        with writing(engine) as still:
            assert still.scalar(text("SHOW idle_in_transaction_session_timeout")) == "30s"
            still.execute(text("SET LOCAL idle_in_transaction_session_timeout = '20ms'"))
            touch(still, "a")
            with writing(engine) as other:
                touch(other, "a")
            touch(still, "a")

    with pytest.raises(TryAgain, match=r"stood still\. Nothing was changed"):
        stand_still()


@on_postgresql
def test_a_reader_may_take_its_time(engine: Engine):
    with reading(engine) as connection:
        assert connection.scalar(text("SHOW idle_in_transaction_session_timeout")) == "0"


@on_sqlite
def test_a_full_disk_says_so(engine: Engine):
    limit(engine, "PRAGMA max_page_count = 1")  # which SQLite takes to be the number of pages there are
    with pytest.raises(TryAgain, match=r"The disk that holds the database .*pipeline\.db is full"):
        fill(engine, "a", content="x" * 100_000)


@on_sqlite
def test_a_database_that_cannot_be_written_says_so(engine: Engine):
    limit(engine, "PRAGMA query_only = ON")
    with pytest.raises(JobError, match=r"pipeline\.db cannot be written to"):
        fill(engine, "a")


@on_sqlite
def test_a_damaged_database_says_so(engine: Engine):
    fill(engine, *map(str, range(50)), content="x" * 1000)
    engine.dispose()
    with Path(database_name(engine)).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * 40_000)
    with pytest.raises(JobError, match=r"pipeline\.db is damaged"), reading(engine) as connection:
        connection.execute(text("SELECT * FROM jobs")).all()


def limit(engine: Engine, pragma: str) -> None:
    """The engine's one connection in use keeps it."""
    with reading(engine) as connection:
        connection.execute(text(pragma))
