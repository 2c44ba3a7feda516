"""Stage 7: names of jobs for a shell that completes them. The database is neither made nor brought up to date."""

from sqlalchemy import inspect, select

from pipeline.settings import Settings
from pipeline.store.database import BUSY_TIMEOUT_S, connect, file_of, is_there
from pipeline.store.schema import jobs
from pipeline.store.transactions import reading


def states_by_name(settings: Settings) -> dict[str, str]:
    """The newest first. Raises what `open_database` does."""
    engine = connect(settings.database_url, BUSY_TIMEOUT_S)
    if (file := file_of(engine)) is not None and not is_there(file):
        return {}
    with reading(engine) as connection:
        if not inspect(connection).has_table(jobs.name):
            return {}
        query = select(jobs.c.name, jobs.c.state).order_by(jobs.c.submitted_at.desc())
        return {row.name: row.state for row in connection.execute(query)}
