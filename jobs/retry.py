"""`pipeline retry`: only the rows that ended as errors are answered again."""

from typing import Any

import click

from jobs.job_name import job_argument
from jobs.manner import Manner, manner_flags
from pipeline.settings import Settings


@click.command(short_help="Answer a job's error rows again.")
@job_argument(default="last")
@manner_flags
def retry(job: str, **manner: Any) -> None:
    """Answer the error rows of JOB again, a name, an id or `last`. All other rows stay as they are.

    \b
    Example:
      pipeline retry demo
    """
    from jobs.continued import go_on
    from jobs.session import Session
    from pipeline.store.queries import find_job

    session = Session.open(Settings.from_environment())
    found = find_job(session.database, job)
    count = session.ledger.retry_errors(found.id, session.settings.batch_rows)
    what = "Errors" if found.questions else "Error rows"
    session.notes.print(f"{what} of {found.name} to be answered again: {count}", soft_wrap=True)
    if count == 0:
        return
    status = go_on(session, find_job(session.database, found.id), Manner(**manner))
    click.get_current_context().exit(status)
