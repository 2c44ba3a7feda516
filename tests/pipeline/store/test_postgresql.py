"""What a server does to those who use it: it stops, dies, comes back, is full, or lets nobody in."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, make_url, text

from pipeline.errors import JobError, SpecError, TryAgain
from pipeline.settings import Settings
from pipeline.store.database import connect, open_database
from pipeline.store.transactions import database_name, reading, writing
from tests.postgres_server import PostgresServer, new_database

ONE = text("SELECT 1")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def connected(server: PostgresServer) -> Iterator[Callable[[str], Engine]]:
    engines: list[Engine] = []

    def make(url: str) -> Engine:
        engines.append(connect(url, 5.0))
        return engines[-1]

    yield make
    for engine in engines:
        engine.dispose()


@pytest.mark.parametrize("end", [PostgresServer.stop, PostgresServer.kill])
def test_a_server_that_went_away_and_is_back_is_used_again(server, connected, end):
    engine = connected(server.url)

    def lose_it() -> None:
        with writing(engine) as connection:
            connection.execute(ONE)
            end(server)
            connection.execute(ONE)

    try:
        with pytest.raises(TryAgain, match=r"did not answer as it should: .*Try again"):
            lose_it()
        with pytest.raises(TryAgain, match=r"did not answer as it should: connection .* failed: "), reading(engine):
            pass
    finally:
        server.start()
    with reading(engine) as connection:
        assert connection.scalar(ONE) == 1


def test_a_server_that_dies_under_a_reader_is_told(server, connected):
    engine = connected(server.url)

    def read_on() -> None:
        with reading(engine) as connection:
            connection.execute(ONE)
            server.restart()
            connection.execute(ONE)

    with pytest.raises(TryAgain, match="did not answer as it should: "):
        read_on()
    with reading(engine) as connection:
        assert connection.scalar(ONE) == 1


def test_a_server_that_restarted_between_two_transactions_is_not_missed(server, connected):
    engine = connected(server.url)
    with writing(engine) as connection:
        connection.execute(ONE)
    server.restart()
    with writing(engine) as connection:
        assert connection.scalar(ONE) == 1


def test_what_was_committed_outlives_a_kill(server):
    with new_database(server.url) as url:
        engine = open_database(Settings(database_url=url))
        with writing(engine) as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        engine.dispose()
        server.kill()
        server.start()
        with pytest.raises(JobError, match="at 9999"):
            open_database(Settings(database_url=url))


def test_who_is_not_let_in_is_told_why(server, connected):
    with writing(connected(server.url)) as connection:
        connection.execute(text("CREATE ROLE guarded LOGIN PASSWORD 'right'"))
        connection.execute(text("CREATE ROLE few LOGIN CONNECTION LIMIT 0"))
        connection.execute(text("CREATE ROLE asleep NOLOGIN"))
    url = make_url(server.url)
    guarded = url.set(username="guarded", password="right")
    for asked, kind, sentence in [
        (url.set(database="none"), JobError, r'There is no database postgresql://pipeline@/none\?host=.*\. Create it'),
        (url.set(username="nobody"), JobError, r'does not let this program in: .*role "nobody" does not exist'),
        (url.set(username="asleep"), JobError, r'does not let this program in: .*"asleep" is not permitted to log in'),
        (guarded.set(password="secret"), JobError, r'let this program in: .*password authentication failed for user'),
        (url.set(username="guarded"), JobError, r"does not let this program in: .*no password supplied"),
        (url.set(username="few"), TryAgain, r'has no connection left \(.*too many connections for role "few"\)'),
        (guarded.update_query_dict({"nonsense": "1"}), SpecError, r'not know: invalid connection option "nonsense"\.'),
        (guarded.update_query_dict({"sslmode": "nonsense"}), SpecError, r'invalid sslmode value: "nonsense"\. Correct'),
        (guarded.set(query={"host": "/nowhere"}), TryAgain, r"not answer as it should: .*No such file or directory"),
        (guarded.set(query={}, host="localhost", port=1), TryAgain, r"postgresql://guarded:\*\*\*@localhost:1/postgres"),
    ]:  # fmt: skip
        with pytest.raises(kind, match=sentence) as caught, reading(connected(str_of(asked))):
            pass
        assert "right" not in str(caught.value)
        assert "secret" not in str(caught.value)
        assert "\n" not in str(caught.value)
    with reading(connected(str_of(guarded))) as connection:
        assert connection.scalar(ONE) == 1
    with pytest.raises(JobError, match=r"lets this user do too little: permission denied for schema public\. Grant"):
        open_database(Settings(database_url=str_of(guarded)))


def test_a_host_that_nobody_knows_is_told_as_the_urls_fault(connected):
    engine = connected("postgresql://nowhere.invalid/db")
    why = r"nowhere.invalid/db is not known here: .* Correct PIPELINE_DATABASE_URL"
    with pytest.raises(TryAgain, match=why), reading(engine):
        pass


def test_a_server_that_takes_no_changes_says_so(server, connected):
    with writing(connected(server.url)) as connection:
        connection.execute(text("CREATE ROLE reader LOGIN SUPERUSER"))
        connection.execute(text("ALTER ROLE reader SET default_transaction_read_only = on"))
    url = str_of(make_url(server.url).set(username="reader"))
    with pytest.raises(JobError, match="takes no changes, as a server that only copies another"):
        open_database(Settings(database_url=url))


def test_a_database_that_cannot_keep_every_letter_is_refused(server, connected):
    with connected(server.url).connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("CREATE DATABASE western ENCODING 'LATIN1' TEMPLATE template0"))
    url = str_of(make_url(server.url).set(database="western"))
    with pytest.raises(JobError, match=r"keeps text as LATIN1, which has not every letter\. Create another one"):
        open_database(Settings(database_url=url))


def test_a_database_without_an_encoding_keeps_ours(server, connected):
    with connected(server.url).connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("CREATE DATABASE plain ENCODING 'SQL_ASCII' TEMPLATE template0"))
    engine = open_database(Settings(database_url=str_of(make_url(server.url).set(database="plain"))))
    with reading(engine) as connection:
        assert connection.scalar(text("SELECT 'é🎉'")) == "é🎉"
    engine.dispose()


def test_urls_of_every_spelling_mean_the_one_driver(server, connected):
    for name in ("postgres", "postgresql", "postgresql+psycopg", "postgresql+psycopg2", "postgresql+asyncpg"):
        engine = connected(server.url.replace("postgresql+psycopg", name, 1))
        with reading(engine) as connection:
            assert connection.scalar(text("SHOW application_name")) == "pipeline"


def test_what_the_url_says_of_the_connection_counts(server, connected):
    with reading(connected(server.url + "&application_name=mine")) as connection:
        assert connection.scalar(text("SHOW application_name")) == "mine"


def test_a_process_keeps_one_connection(server, connected):
    engine = connected(server.url)
    with reading(engine), reading(engine), reading(engine) as connection:
        mine = text("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pipeline'")
        assert connection.scalar(mine) >= 3
    assert engine.pool.checkedin() == 1


def test_no_name_of_a_database_holds_a_secret(connected):
    engine = connected("postgresql://me:secret@h:5433/d?password=secret&sslpassword=secret&sslmode=require&host=/run")
    assert database_name(engine) == "postgresql://me:***@h:5433/d?host=%2Frun"


def str_of(url) -> str:
    return url.render_as_string(hide_password=False)
