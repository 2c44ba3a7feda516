"""`pipeline export`: a job's answers, beside the rows that they answer, as a file or as a table of a database."""

from pathlib import Path
from typing import Any

import click

from jobs.choosing import choosing_flags, wanted_rows
from jobs.job_name import job_argument
from jobs.output_format import by_suffix
from jobs.tables import counted
from pipeline.errors import SpecError
from pipeline.ingest.inputs import is_input
from pipeline.rows import Status
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.database import existing_database
from pipeline.store.export import export_wanted
from pipeline.store.purged import require_results
from pipeline.store.queries import find_job


@click.command(short_help="Write a job's answers to a file or a database.")
@job_argument()
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help=".parquet, .csv or .jsonl.")
@click.option("--to", metavar="URL", help="A database: postgresql://user@host/database or sqlite:///FILE.")
@click.option("--table", metavar="T", help="With --to: the table there, or SCHEMA.TABLE; made where there is none.")
@click.option(
    "--status",
    type=click.Choice([status.value for status in Status]),
    help="Only rows that ended so, or one of whose answers did.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N rows.")
@choosing_flags
def export(
    job: str,
    output: Path | None,
    to: str | None,
    table: str | None,
    status: str | None,
    limit: int | None,
    **chosen: Any,
) -> None:
    """Write the answers of JOB beside its input's columns. A table gets all rows or none; given again, the same command
    writes the same rows over, so none is there twice. Several jobs may share a table. Of a row that is there already,
    columns that are not written again, such as those --columns leaves out, keep what they hold.

    A password is no part of --to: write the whole URL into PIPELINE_TARGET_URL.

    \b
    Examples:
      pipeline export moods --output moods.parquet
      pipeline export moods --to sqlite:///answers.db --table moods --columns key,label,score
    """
    if (output is None) is (to is None) or (to is None) is not (table is None):
        raise SpecError("Give either --output FILE, or --to URL and --table T.")
    settings = Settings.from_environment()
    database = existing_database(settings)
    found = find_job(database, job)
    require_results(found)
    asked = wanted_rows(database, status, limit, **chosen)
    if output is not None:
        if is_input(JobSpec.model_validate_json(found.spec_json).inputs, output):
            raise SpecError(f"{output} is an input of {found.name}, which would be lost. Give another file.")
        n_rows = export_wanted(database, found, by_suffix(output), output, asked)
    else:
        from pipeline.store.target_table import export_to_table

        n_rows = export_to_table(database, found, asked, str(to), settings.target_url, str(table))
    click.echo(f"{counted(n_rows, 'row')} written to {output or table}")
