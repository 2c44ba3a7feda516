"""`pipeline sql`: whatever SQL can tell of jobs and results; it reads, and changes nothing."""

import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

import click

from jobs.output_format import choose_format, output_flags, tell_written
from jobs.tables import Column, print_table
from jobs.time_span import TimeSpan
from pipeline.settings import Settings
from pipeline.store.database import existing_database
from pipeline.store.plain import cell
from pipeline.store.row_files import write_rows
from pipeline.store.statement import Statement
from pipeline.store.views import columns

#: In a table.
_ROWS_SHOWN = 200


@click.command(short_help="Ask the database in SQL; nothing is changed.")
@click.argument("statement", metavar="[SELECT]", required=False)
@output_flags
@click.option("--timeout", type=TimeSpan(), metavar="TIME", help="Give up after so many SECONDS, or 30m, 2h.")
def sql(statement: str | None, wanted: str | None, output: Path | None, timeout: float | None) -> None:
    """Run SELECT on the database, which it can only read. Without one, list the views that are made for this, and their
    columns; docs/sql.md tells what each holds.

    \b
    Examples:
      pipeline sql
      pipeline sql "SELECT label, count(*) FROM v_results WHERE job = 'demo' GROUP BY label"
      pipeline sql "SELECT * FROM v_failed" --output failed.csv
    """
    if statement is None:
        _list_views()
        return
    file_format = choose_format(wanted, output)
    asked = Statement(existing_database(Settings.from_environment()), statement, timeout)
    if file_format is None:
        _show(asked)
    elif output is None:
        write_rows(asked, file_format, sys.stdout.buffer)
    else:
        tell_written(write_rows(asked, file_format, output), output)


def _list_views() -> None:
    for name, its in columns().items():
        click.echo(f"{name}\n{click.wrap_text(', '.join(its), 100, '    ', '    ')}\n")


def _show(asked: Statement) -> None:
    blocks = asked.blocks()
    first = next(blocks)
    rows = [*first.rows, *(row for block in islice(blocks, 1) for row in block.rows)]
    shown = rows[:_ROWS_SHOWN]
    print_table(
        [Column(name, _kind([row[at] for row in shown])) for at, name in enumerate(first.names)],
        [[cell(value) or "" for value in row] for row in shown],
    )
    if len(rows) > _ROWS_SHOWN:
        click.echo(f"Only the first {_ROWS_SHOWN} rows are shown; --output FILE writes them all to a file.", err=True)


def _kind(values: Sequence[object]) -> Literal["number", "text"]:
    return "number" if all(isinstance(value, int | float | None) for value in values) else "text"
