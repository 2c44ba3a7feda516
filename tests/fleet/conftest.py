"""A fleet on each database, the table that it answers, and the answers of a calm run of one process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fleet.fleet import Fleet, running
from tests.fleet.sight import Answers
from tests.fleet.table import write_table
from tests.otlp_collector import Collector, collecting
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer


@pytest.fixture(scope="session")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fleet") / "rows.parquet"
    write_table(path)
    return path


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    """Of the traces of all fleets."""
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="session")
def make_fleet(
    tiny_model: Path, tmp_path_factory: pytest.TempPathFactory, collector: Collector
) -> Callable[..., Fleet]:
    traced = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "200"}

    def make(database_url: str, redis: RedisServer, postgres: PostgresServer | None = None, **variables: str) -> Fleet:
        variables = traced | variables
        return Fleet(tmp_path_factory.mktemp("home"), redis, database_url, tiny_model, postgres, variables)

    return make


@pytest.fixture(scope="package")
def sqlite_fleet(make_fleet: Callable[..., Fleet], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    database = tmp_path_factory.mktemp("database") / "pipeline.db"
    with a_redis(tmp_path_factory) as redis, running(make_fleet(f"sqlite:///{database}", redis)) as fleet:
        fleet.start_all(gpus=2)
        yield fleet


@pytest.fixture(scope="package")
def postgresql_fleet(make_fleet: Callable[..., Fleet], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Its shards lie at a URL, as those of several machines do."""
    places = tmp_path_factory.mktemp("places").as_uri()
    with (
        a_redis(tmp_path_factory) as redis,
        a_postgres() as server,
        running(make_fleet(server.url, redis, server, PIPELINE_SHARDS=places)) as fleet,
    ):
        fleet.start_all(gpus=2)
        yield fleet


@pytest.fixture(params=["sqlite", "postgresql"])
def fleet(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """Two workers, started once for all tests; what a test breaks is mended after it."""
    fleet: Fleet = request.getfixturevalue(f"{request.param}_fleet")
    yield fleet
    fleet.mend()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A job's."""
    return request.node.name.partition("[")[0].removeprefix("test_")[:50]


@pytest.fixture
def job(fleet: Fleet, rows: Path, name: str) -> str:
    """Submitted, well under way, and far from done."""
    fleet.submit(rows, name)
    fleet.until_recorded(name, 8)
    return name


@pytest.fixture(scope="session")
def calm(make_fleet: Callable[..., Fleet], rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """By one process, without a broker."""
    home = tmp_path_factory.mktemp("calm")
    alone = make_fleet(f"sqlite:///{home / 'calm.db'}", RedisServer(home))
    alone.submit(rows, "calm")
    return alone.seen.answers("calm")


@contextmanager
def a_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def a_postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.start()
    try:
        yield server
    finally:
        server.remove()
