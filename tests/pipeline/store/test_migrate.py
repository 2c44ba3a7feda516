from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, inspect, text

from pipeline.store.database import connect
from pipeline.store.migrate import configuration, upgrade
from pipeline.store.schema import SCHEMA_VERSION, metadata
from pipeline.store.transactions import reading, writing


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Engine]:
    engine = connect(f"sqlite:///{tmp_path / 'empty.db'}", 5.0)
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


def test_the_tables_of_the_schema_are_those_of_the_migrations(engine: Engine, tmp_path: Path):
    made = create_engine(f"sqlite:///{tmp_path / 'made.db'}")
    metadata.create_all(made)
    with reading(engine) as migrated, made.connect() as created:
        assert described(migrated) == described(created)
    made.dispose()


def test_the_way_back_leaves_nothing(empty: Engine):
    with writing(empty) as connection:
        upgrade(connection)
        command.downgrade(configuration(connection), "base")
    with reading(empty) as connection:
        assert inspect(connection).get_table_names() == ["alembic_version"]


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
    assert len(tables) >= 4
    predicates = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE sql LIKE '%WHERE%'")).all()
    return {
        table: (
            [{**column, "type": str(column["type"])} for column in inspector.get_columns(table)],
            inspector.get_pk_constraint(table)["constrained_columns"],
            sorted(map(str, inspector.get_foreign_keys(table))),
            sorted(map(str, inspector.get_unique_constraints(table))),
            [(index["name"], index["column_names"], index["unique"]) for index in inspector.get_indexes(table)],
        )
        for table in sorted(tables)
    } | {name: sql.partition("WHERE")[2].strip() for name, sql in predicates}
