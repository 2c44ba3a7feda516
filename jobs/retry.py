"""`pipeline retry`: only the rows that ended as errors are answered again."""

import click

from pipeline.settings import Settings


@click.command(short_help="Answer a job's error rows again.")
@click.argument("job", default="last")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def retry(job: str, as_json: bool) -> None:
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
    session.notes.print(f"Error rows of {found.name} to be answered again: {count}", soft_wrap=True)
    if count == 0:
        return
    status = go_on(session, find_job(session.database, found.id), as_json=as_json)
    click.get_current_context().exit(status)
