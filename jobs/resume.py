"""`pipeline resume`: a job that was stopped, killed or cancelled goes on; nothing recorded is done again."""

import click

from pipeline.settings import Settings


@click.command(short_help="Go on with a job that was stopped, killed or cancelled.")
@click.argument("job", default="last")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def resume(job: str, as_json: bool) -> None:
    """Go on with JOB, a name, an id or `last`. What is recorded stays; only what is missing is answered.

    \b
    Example:
      pipeline resume demo
    """
    from jobs.continued import go_on
    from jobs.session import Session
    from pipeline.store.queries import find_job

    session = Session.open(Settings.from_environment())
    status = go_on(session, find_job(session.database, job), as_json=as_json)
    click.get_current_context().exit(status)
