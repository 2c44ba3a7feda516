"""`pipeline resume`: a job that was stopped, killed, paused or cancelled goes on; nothing recorded is done again."""

from typing import Any

import click

from jobs.job_name import job_argument
from jobs.manner import Manner, manner_flags
from pipeline.settings import Settings


@click.command(short_help="Go on with a job that was stopped, killed or paused.")
@job_argument(default="last")
@manner_flags
def resume(job: str, **manner: Any) -> None:
    """Go on with JOB, a name, an id or `last`, that was stopped, killed, paused or cancelled. What is recorded stays;
    only what is missing is answered.

    Where there is a fleet, the job goes on there, also if it began in one process; with --here, in this one.

    \b
    Example:
      pipeline resume demo
    """
    from jobs.continued import go_on
    from jobs.session import Session
    from pipeline.store.queries import find_job

    session = Session.open(Settings.from_environment())
    status = go_on(session, find_job(session.database, job), Manner(**manner))
    click.get_current_context().exit(status)
