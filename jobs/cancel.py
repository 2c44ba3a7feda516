"""`pipeline cancel`: a job stops until it is resumed; every row without a result is recorded as cancelled."""

import shlex
from functools import partial

import click

from jobs.job_name import job_argument
from jobs.notices import send_notices
from jobs.tables import counted, unit
from pipeline.settings import Settings
from pipeline.store.database import existing_database
from pipeline.store.ledger import Ledger
from pipeline.store.queries import find_job, progress
from workers.keys import keys_of


@click.command(short_help="Stop a job; what is answered stays.")
@job_argument()
def cancel(job: str) -> None:
    """Stop JOB, a name, an id or the start of one, or `last`, wherever it is running; what is answered stays.

    `pipeline resume` takes it up again.

    \b
    Example:
      pipeline cancel moods
    """
    database = existing_database(Settings.from_environment())
    found = find_job(database, job)
    Ledger(database).cancel(found.id, partial(keys_of, database))
    figures = progress(database, found.id)
    recorded = figures.recorded
    if found.questions:
        stay = "stays" if recorded == 1 else "stay"
    else:
        stay = "has its result and keeps it" if recorded == 1 else "have their results and keep them"
    click.echo(
        f"{found.name} is cancelled: {counted(recorded, unit(found))} {stay}, "
        f"{counted(figures.cancelled, unit(found))} "
        f"{'is' if figures.cancelled == 1 else 'are'} cancelled."
    )
    if figures.total is None:
        click.echo("Its input had not been read to the end.")
    click.echo(f"`pipeline resume {shlex.quote(found.name)}` goes on where it stopped.")
    if not found.fleet:  # the dispatcher tells of its own jobs
        send_notices(database, found.id)
