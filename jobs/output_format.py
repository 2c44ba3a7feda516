"""How rows leave a command: as a table to look at, on standard output, or as a file whose name tells its format."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from jobs.tables import counted
from pipeline.errors import SpecError
from pipeline.store.table_files import Format

_Command = TypeVar("_Command", bound=Callable[..., Any])

_TABLE = "table"
_FORMATS: tuple[Format, ...] = ("csv", "jsonl", "parquet")
_SUFFIXES: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


def output_flags(command: _Command) -> _Command:
    """Which the command takes as `wanted` and `output`."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def choose_format(wanted: str | None, output: Path | None) -> Format | None:
    """None: a table. Raises SpecError for what makes no sense together."""
    on_terminal = sys.stdout.isatty()
    if wanted == _TABLE and output is not None:
        raise SpecError("A table is for looking at; for --output choose --format csv, jsonl or parquet.")
    if wanted == "parquet" and output is None and on_terminal:
        raise SpecError(
            "Parquet is not text to be read on a terminal. Give --output FILE.parquet, or send it to a pipe."
        )
    if wanted is not None:
        if output is not None and _SUFFIXES.get(output.suffix.lower(), wanted) != wanted:
            click.echo(f"{output} is written as {wanted}, as --format asks, whatever its name tells.", err=True)
        return next((name for name in _FORMATS if name == wanted), None)
    if output is not None:
        return by_suffix(output, ", or give --format")
    return None if on_terminal else "jsonl"


def by_suffix(output: Path, way_out: str = "") -> Format:
    """Raises SpecError for one that tells nothing, with what else may be done."""
    found = _SUFFIXES.get(output.suffix.lower())
    if found is None:
        raise SpecError(f"The name {output} does not tell its format. Let it end in .csv, .jsonl or .parquet{way_out}.")
    return found


def tell_written(n_rows: int, output: Path) -> None:
    """Not into a stream that has just been written to, such as /dev/stdout."""
    click.echo(f"{counted(n_rows, 'row')} written to {output}", err=not output.is_file())


_FLAGS = (
    click.option(
        "--format",
        "wanted",
        type=click.Choice([_TABLE, *_FORMATS]),
        help="[default: by the name of FILE; table on a terminal, jsonl in a pipe]",
    ),
    click.option(
        "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write there: .csv, .jsonl or .parquet."
    ),
)
