"""`pipeline results`: answers beside the rows they answer, to look at, to pipe on, or as a file."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from jobs.answers import print_answers, print_columns, rows_to_show
from jobs.choosing import choosing_flags, wanted_rows
from jobs.job_name import job_argument
from jobs.output_format import choose_format, output_flags, tell_written
from pipeline.errors import SpecError
from pipeline.ingest.inputs import is_input
from pipeline.rows import Status
from pipeline.settings import Settings
from pipeline.spec import JobSpec
from pipeline.store.database import Database, existing_database
from pipeline.store.export import Wanted, export_wanted, preview
from pipeline.store.purged import require_results
from pipeline.store.queries import find_job, progress
from pipeline.store.records import JobRecord
from pipeline.store.result_rows import count_rows

#: Answers in a table where no --limit is given.
_TABLE_LINES = 20


@click.command(short_help="Show a job's answers, or write them to a file.")
@job_argument()
@output_flags
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
@choosing_flags
def results(
    job: str, wanted: str | None, output: Path | None, status: str | None, limit: int | None, **chosen: Any
) -> None:
    """Show the answers of JOB (a name, an id or the start of one, or `last`) in the order of its input.

    A table is for looking at: long cells are cut. All other formats hold every column of the input and of the result;
    in a pipe they go to standard output. Rows without a result yet are left out. --where asks of the results' columns
    what `submit --where` asks of an input's, in a part of SQL without functions (docs/inputs.md), and of the input's
    where those stand beside them: a name that both have is the result's, and input.NAME the input's. With --columns,
    the input is left out unless --join-input asks for it.

    \b
    Examples:
      pipeline results moods --status error
      pipeline results moods --output moods.parquet
      pipeline results moods --where "label = 'good' and score > 0.9" --columns key,label,score
      pipeline results moods --where "label = 'good' and stars < 3"
      pipeline results moods --where "answered_at >= '2026-12-01' and score between 0.4 and 0.6"
      pipeline results last | jq .output
    """
    file_format = choose_format(wanted, output)
    database = existing_database(Settings.from_environment())
    found = find_job(database, job)
    require_results(found)
    asked = wanted_rows(database, status, limit, **chosen)
    if output is not None and is_input(JobSpec.model_validate_json(found.spec_json).inputs, output):
        raise SpecError(f"{output} is an input of {found.name}, which would be lost. Give another file.")
    if file_format is None:
        _show(database, found, asked)
    elif output is None:
        if not export_wanted(database, found, file_format, sys.stdout.buffer, asked):
            _tell_none(found, asked)
    else:
        tell_written(export_wanted(database, found, file_format, output, asked), output)


def _show(database: Database, job: JobRecord, asked: Wanted) -> None:
    limit = asked.limit or rows_to_show(job, _TABLE_LINES)
    available = _available(database, job, asked, limit)
    if not available:
        _tell_none(job, asked)
        return
    if asked.columns is None:
        print_answers(database, job, replace(asked, limit=limit))
    else:
        print_columns(database, job, replace(asked, limit=limit))
    if available > limit:
        more = f"{available - limit:,}" if asked.where is None else "There are"
        click.echo(f"{more} more; --limit N shows more of them, --output FILE writes them all to a file.", err=True)


def _tell_none(job: JobRecord, asked: Wanted) -> None:
    which = "no results yet" if asked.status is None else f"no rows that ended as {asked.status}"
    chosen = asked.condition is not None or asked.where is not None
    click.echo(f"{job.name} has {'no such rows' if chosen else which}.", err=True)


def _available(database: Database, job: JobRecord, asked: Wanted, limit: int) -> int:
    """Where rows are looked at one by one, no more than one beyond the limit."""
    if asked.where is not None:
        return len(preview(database, job, replace(asked, columns=("row_id",), limit=limit + 1)))
    if asked.condition is not None or job.questions:
        return count_rows(database, job, asked.status, asked.condition)
    figures = progress(database, job.id)
    return figures.finished if asked.status is None else int(getattr(figures, asked.status, 0))
