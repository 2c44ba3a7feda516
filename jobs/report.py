"""`pipeline report`: how a job went, as one page that can be opened, printed and sent."""

from pathlib import Path

import click

from jobs.job_name import job_argument
from jobs.pages.texts import texts_of
from pipeline.errors import SpecError
from pipeline.ingest.inputs import is_input
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.course import course
from pipeline.store.database import existing_database
from pipeline.store.entries import NEWEST
from pipeline.store.target_file import opened_target


@click.command(short_help="Write a page with plots of how a job went.")
@job_argument(default=NEWEST)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default="report.html",
    show_default=True,
    metavar="FILE",
)
@click.option("--with-text", is_flag=True, help="Show the texts of rows that failed, not only their keys.")
def report(job: str, output: Path, with_text: bool) -> None:
    """Write one HTML page on JOB (a name, an id or the start of one, or `last`, which is the default): its speed over
    time, lengths, stages, reuse, slowest batches, errors, and what limited it. The page needs no network and no script.

    \b
    Example:
      pipeline report moods --output moods.html
    """
    # The templates take a while to import, and no other command needs them.
    from jobs.pages.page import report_page
    from jobs.standing import standing

    settings = Settings.from_environment()
    database = existing_database(settings)
    found = standing(database, settings, job)
    if is_input(JobSpec.model_validate_json(found.job.spec_json).inputs, output):
        raise SpecError(f"{output} is an input of {found.job.name}, which would be lost. Give another file.")
    went = course(database, found.job.id)
    texts = texts_of(database, found.job, went) if with_text else None
    page = report_page(found, went, texts=texts)
    with opened_target(output) as file:
        file.write(page.encode())
    click.echo(f"The report on {found.job.name} is in {output}")
