"""`pipeline pause`: nothing more of a fleet's job is begun until it is resumed."""

import shlex

import click

from jobs.job_name import job_argument
from jobs.tables import unit
from pipeline.errors import RefusedError
from pipeline.settings import Settings
from pipeline.store.database import existing_database
from pipeline.store.ledger import Ledger
from pipeline.store.queries import find_job, progress


@click.command(short_help="Hold a job of the fleet; resume goes on with it.")
@job_argument()
def pause(job: str) -> None:
    """Hold JOB, a name, an id or the start of one, or `last`, that a fleet answers. Batches that are begun are ended,
    and no more are begun; other jobs have the workers meanwhile.

    `pipeline resume` goes on with it.

    \b
    Example:
      pipeline pause moods
    """
    database = existing_database(Settings.from_environment())
    found = find_job(database, job)
    if not found.fleet:
        raise RefusedError(
            f"{found.name} is answered by a single process, not by a fleet. Ctrl-C stops it where it runs, and "
            f"`pipeline resume {shlex.quote(found.name)}` goes on."
        )
    Ledger(database).pause(found.id)
    figures = progress(database, found.id)
    total = "all" if figures.total is None else f"{figures.total:,}"
    finished = f"{figures.finished:,} of {total} {unit(found)}s finished"
    click.echo(f"{found.name} is paused: {finished}; what is begun is ended first.")
    click.echo(f"`pipeline resume {shlex.quote(found.name)}` goes on with it.")
