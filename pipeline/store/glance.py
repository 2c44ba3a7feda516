"""Stage 7: names of jobs and schedules for a shell that completes them. The database is neither made nor changed."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, Select, Table, inspect, select

from pipeline.settings import Settings
from pipeline.store.database import BUSY_TIMEOUT_S, connect, file_of, is_there
from pipeline.store.schema import jobs, schedules
from pipeline.store.transactions import reading


def states_by_name(settings: Settings) -> dict[str, str]:
    """The newest first. Raises what `open_database` does."""
    query = select(jobs.c.name, jobs.c.state).order_by(jobs.c.submitted_at.desc())
    return {row.name: row.state for row in _seen(settings, jobs, query)}


def schedules_by_name(settings: Settings) -> dict[str, str]:
    """With their cron lines. Raises what `open_database` does."""
    query = select(schedules.c.name, schedules.c.cron).order_by(schedules.c.name)
    return {row.name: row.cron for row in _seen(settings, schedules, query)}


def _seen(settings: Settings, table: Table, query: Select[Any]) -> Sequence[Row[Any]]:
    engine = connect(settings.database_url, BUSY_TIMEOUT_S)
    if (file := file_of(engine)) is not None and not is_there(file):
        return []
    with reading(engine) as connection:
        return connection.execute(query).all() if inspect(connection).has_table(table.name) else []
