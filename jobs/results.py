"""`pipeline results`: answers beside the rows they answer, to look at, to pipe on, or as a file."""

import sys
from pathlib import Path

import click

from jobs.answers import print_answers, rows_to_show
from jobs.job_name import job_argument
from jobs.tables import counted
from pipeline.errors import SpecError
from pipeline.ingest.inputs import is_input
from pipeline.rows import Status
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.answers import count_rows
from pipeline.store.database import Database, open_database
from pipeline.store.export import Format, export
from pipeline.store.queries import find_job, progress
from pipeline.store.records import JobRecord

_TABLE = "table"
_FORMATS: tuple[Format, ...] = ("csv", "jsonl", "parquet")
_SUFFIXES: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}

#: Answers in a table where no --limit is given.
_TABLE_LINES = 20


@click.command(short_help="Show a job's answers, or write them to a file.")
@job_argument()
@click.option(
    "--format",
    "wanted",
    type=click.Choice([_TABLE, *_FORMATS]),
    help="[default: by the name of FILE; table on a terminal, jsonl in a pipe]",
)
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write there: .csv, .jsonl or .parquet."
)
@click.option(
    "--status",
    type=click.Choice([status.value for status in Status]),
    help="Only rows that ended so, or one of whose answers did.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Only the first N rows.  [default: those of {_TABLE_LINES} answers in a table, otherwise all]",
)
def results(job: str, wanted: str | None, output: Path | None, status: str | None, limit: int | None) -> None:
    """Show the answers of JOB (a name, an id or the start of one, or `last`) in the order of its input.

    A table is for looking at: long cells are cut. All other formats hold every column of the input and of the result;
    in a pipe they go to standard output. Rows without a result yet are left out.

    \b
    Examples:
      pipeline results moods --status error
      pipeline results moods --output moods.parquet
      pipeline results last | jq .output
    """
    file_format = _choose_format(wanted, output, on_terminal=sys.stdout.isatty())
    database = open_database(Settings.from_environment())
    found = find_job(database, job)
    if output is not None and is_input(JobSpec.model_validate_json(found.spec_json).inputs, output):
        raise SpecError(f"{output} is an input of {found.name}, which would be lost. Give another file.")
    only = None if status is None else Status(status)
    if file_format is None:
        _show(database, found, only, limit or rows_to_show(found, _TABLE_LINES))
    elif output is None:
        export(database, found, file_format, sys.stdout.buffer, status=only, limit=limit)
    else:
        n_rows = export(database, found, file_format, output, status=only, limit=limit)
        click.echo(f"{counted(n_rows, 'row')} written to {output}")


def _choose_format(wanted: str | None, output: Path | None, *, on_terminal: bool) -> Format | None:
    """None: a table. Raises SpecError for what makes no sense together."""
    if wanted == _TABLE and output is not None:
        raise SpecError("A table is for looking at; for --output choose --format csv, jsonl or parquet.")
    if wanted == "parquet" and output is None and on_terminal:
        raise SpecError(
            "Parquet is not text to be read on a terminal. Give --output FILE.parquet, or send it to a pipe."
        )
    if wanted is not None:
        return next((name for name in _FORMATS if name == wanted), None)
    if output is not None:
        return _by_suffix(output)
    return None if on_terminal else "jsonl"


def _by_suffix(output: Path) -> Format:
    found = _SUFFIXES.get(output.suffix.lower())
    if found is None:
        raise SpecError(
            f"The name {output} does not tell its format. Let it end in .csv, .jsonl or .parquet, or give --format."
        )
    return found


def _show(database: Database, job: JobRecord, status: Status | None, limit: int) -> None:
    figures = progress(database, job.id)
    available = figures.finished if status is None else int(getattr(figures, status, 0))
    if job.questions and available:
        available = count_rows(database, job, status)
    if not available:
        which = "no results yet" if status is None else f"no rows that ended as {status}"
        click.echo(f"{job.name} has {which}.", err=True)
        return
    print_answers(database, job, status, limit)
    if available > limit:
        click.echo(
            f"{available - limit:,} more; --limit N shows more of them, --output FILE writes them all to a file.",
            err=True,
        )
