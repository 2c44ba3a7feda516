import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from pipeline.rows import Completion, Status
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.database import connect, current_version, open_database
from pipeline.store.export import export
from pipeline.store.migrate import configuration, upgrade
from pipeline.store.queries import find_job, stream_results
from pipeline.store.records import JobRecord, JobState
from pipeline.store.schema import SCHEMA_VERSION, metadata
from pipeline.store.transactions import reading, writing

#: With their conditions, which an inspector does not tell of.
INDICES = {
    "sqlite": text("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql <> ''"),
    "postgresql": text("SELECT indexname, indexdef FROM pg_indexes WHERE tablename <> 'alembic_version'"),
}


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Of a database without tables."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def empty(database_url: str) -> Iterator[Engine]:
    engine = connect(database_url, 5.0)
    yield engine
    engine.dispose()


def test_the_constant_is_the_newest_migration(engine: Engine):
    with reading(engine) as connection:
        script = ScriptDirectory.from_config(configuration(connection))
    assert script.get_heads() == [SCHEMA_VERSION]
    assert sorted(revision.revision for revision in script.walk_revisions())[-1] == SCHEMA_VERSION
    assert all(len(revision.revision) == 4 for revision in script.walk_revisions())


def test_migrations_lead_to_the_tables_of_the_schema(engine: Engine):
    with reading(engine) as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_the_tables_of_the_schema_are_those_of_the_migrations(empty: Engine):
    """Both made and looked at in a transaction that is undone."""
    found = []
    for make in (metadata.create_all, upgrade):
        with empty.connect() as connection:
            make(connection)
            found.append(described(connection))
    assert found[0] == found[1]


@pytest.fixture
def oldest(empty: Engine, tmp_path: Path) -> JobRecord:
    """A job of two rows, of which one is answered, in a database of the first version."""
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "0.parquet")
    with writing(empty) as connection:
        command.upgrade(configuration(connection), "0001")
        spec = {"inputs": ["a"], "model": "m", "prompt": "{text}", "max_tokens": 9}
        for name, more in {"texts": {}, "labels": {"choices": ["yes", "no"]}}.items():
            job = {"id": name, "name": name, "spec": json.dumps(spec | more)}
            connection.execute(
                text("INSERT INTO jobs VALUES (:id, :name, :spec, 'f', 'm', 'i', 'running', 2, 1.0, NULL, NULL)"), job
            )
        shard = {"path": str(tmp_path / "0.parquet")}
        connection.execute(text("INSERT INTO shards VALUES ('texts', 0, :path, 0, 2, 'encoded', 0.5, 0)"), shard)
        connection.execute(
            text(
                "INSERT INTO results VALUES ('texts', 0, 'k0', 'ok', 'said', NULL, NULL, NULL, 'stop', NULL, NULL,"
                " 7, 3, 2, 1, 0, 1.5)"
            )
        )
        assert current_version(connection) == "0001"
    return JobRecord("texts", "texts", json.dumps(spec), "f", "m", "i", JobState.RUNNING, 2, 1.0, None, None)


def test_a_database_of_the_first_version_is_upgraded_and_read(oldest: JobRecord, database_url: str, tmp_path: Path):
    engine = open_database(Settings(database_url=database_url))
    assert find_job(engine, "texts") == oldest
    with reading(engine) as connection:
        assert connection.execute(text("SELECT job, key, output FROM v_results")).all() == [("texts", "k0", "said")]
    said = Completion(
        0, "k0", Status.OK, "said", finish_reason="stop", prompt_tokens=7, reused_tokens=3, output_tokens=2
    )
    assert list(stream_results(engine, "texts")) == [said]
    assert export(engine, oldest, "jsonl", tmp_path / "out.jsonl") == 1
    row = json.loads((tmp_path / "out.jsonl").read_text())
    assert (row["text"], row["output"], "samples" in row) == ("a", "said", False)
    with reading(engine) as connection:
        assert current_version(connection) == SCHEMA_VERSION
    engine.dispose()


def test_old_jobs_that_choose_lose_the_limit_that_meant_nothing(oldest: JobRecord, database_url: str):
    engine = open_database(Settings(database_url=database_url))
    assert JobSpec.model_validate_json(find_job(engine, "labels").spec_json).choices == ("yes", "no")
    assert JobSpec.model_validate_json(find_job(engine, "texts").spec_json).max_tokens == 9
    engine.dispose()


def test_the_way_back_leaves_nothing(empty: Engine):
    with writing(empty) as connection:
        upgrade(connection)
        command.downgrade(configuration(connection), "base")
    with reading(empty) as connection:
        assert inspect(connection).get_table_names() == ["alembic_version"]
        assert inspect(connection).get_view_names() == []


def test_a_migration_that_fails_leaves_nothing(empty: Engine):
    def fail() -> None:
        with writing(empty) as connection:
            upgrade(connection)
            raise RuntimeError("after the migration")

    with pytest.raises(RuntimeError, match="after the migration"):
        fail()
    with reading(empty) as connection:
        assert inspect(connection).get_table_names() == []


def described(connection: Connection) -> dict[str, object]:
    inspector = inspect(connection)
    tables = set(inspector.get_table_names()) - {"alembic_version"}
    assert len(tables) >= 5
    return {
        table: (
            [{**column, "type": str(column["type"])} for column in inspector.get_columns(table)],
            inspector.get_pk_constraint(table)["constrained_columns"],
            sorted(map(str, inspector.get_foreign_keys(table))),
            sorted(map(str, inspector.get_unique_constraints(table))),
        )
        for table in sorted(tables)
    } | dict(connection.execute(INDICES[connection.dialect.name]).all())
