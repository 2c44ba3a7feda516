"""`pipeline jobs`: every job in one line."""

import json
from datetime import datetime

import click

from jobs.standing import Standing, all_standings
from jobs.tables import Column, print_table
from pipeline.errors import NotFoundError
from pipeline.settings import Settings
from pipeline.store.database import existing_database, none_yet

_COLUMNS = (
    Column("NAME"),
    Column("STATE"),
    Column("ROWS", "number"),
    Column("ERRORS", "number"),
    Column("SUBMITTED"),
    Column("ID"),
)


@click.command(short_help="List all jobs, the newest first.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def jobs(as_json: bool) -> None:
    """List all jobs, the newest first: a table on a terminal, tab-separated lines in a pipe.

    ROWS are those with an answer or an error, and all, or ? while the input is still being read; of
    several questions each answer to a row counts. A job is `interrupted`
    where nothing on this machine works on it; `pipeline resume` goes on with it.

    \b
    Example:
      pipeline jobs
    """
    try:
        standings = _all(Settings.from_environment())
    except NotFoundError as none:
        click.echo("[]" if as_json else none, err=not as_json)
        return
    if as_json:
        click.echo(json.dumps([standing.as_json() for standing in standings], indent=2, ensure_ascii=False))
    else:
        print_table(_COLUMNS, map(_cells, standings))


def _all(settings: Settings) -> list[Standing]:
    """Raises NotFoundError where there are none."""
    database = existing_database(settings)
    standings = all_standings(database, settings)
    if not standings:
        raise NotFoundError(none_yet(database))
    return standings


def _cells(standing: Standing) -> list[str]:
    figures = standing.figures
    total = "?" if figures.total is None else str(figures.total)
    submitted = datetime.fromtimestamp(standing.job.submitted_at)
    return [
        standing.job.name,
        standing.state,
        f"{figures.recorded}/{total}",
        str(figures.error),
        f"{submitted:%Y-%m-%d %H:%M}",
        standing.job.id[:8],
    ]
