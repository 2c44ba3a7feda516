"""How figures and rows are shown: a table on a terminal, tab-separated lines with the same columns in a pipe."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import click

from pipeline.store.records import JobRecord

if TYPE_CHECKING:
    from rich.table import Table

#: More of a cell is never shown, however wide the terminal; what a script needs whole, it asks for in another format.
_CELL_CHARACTERS = 200

_STYLES = {
    "ok": "green",
    "done": "green",
    "cutting": "cyan",
    "running": "cyan",
    "truncated": "yellow",
    "interrupted": "yellow",
    "paused": "yellow",
    "silent": "yellow",
    "blocked": "yellow",
    "busy": "green",
    "error": "red",
    "failed": "red",
    "cancelled": "bright_black",
}


@dataclass(frozen=True, slots=True)
class Column:
    """`text` gives way where the terminal is narrow, and `prose` goes on in the next line; `word` and `number` are
    always whole."""

    name: str
    kind: Literal["word", "number", "text", "prose"] = "word"


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Each row has a cell for each column. Line breaks, tabs and control characters are shown as spaces."""
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(rich_table(columns, rows))
    else:
        for line in ([column.name for column in columns], *rows):
            click.echo("\t".join(_shown(column, cell) for column, cell in zip(columns, line, strict=True)))


def counted(count: int, noun: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def unit(job: JobRecord) -> str:
    """What its figures count: of several questions, each has an answer of its own to every row."""
    return "answer" if job.questions else "row"


def left_out(left: int, read: int) -> str:
    """`317 of the 367 rows read were left out by --where and --sample.`"""
    were = "was" if left == 1 else "were"
    return f"{left:,} of the {counted(read, 'row')} read {were} left out by --where and --sample."


def strange(rows: int, first: str) -> str:
    """Of rows with something that is no text in a column of text."""
    have, where = ("have", f"; the first is {first}") if rows > 1 else ("has", f": {first}")
    return (
        f"{counted(rows, 'row')} {have} bytes that are no UTF-8, or no text at all, where text should be{where}. "
        "Such a row is an error if the prompt uses that column. If they are many, the file may be in another encoding: "
        "save it as UTF-8, for example with iconv."
    )


def duration(seconds: float) -> str:
    """`12.3 s`, `4:05`, `1:04:05`."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def size(n_bytes: int) -> str:
    """`96 MiB`, `1.4 GiB`."""
    mib = n_bytes / (1 << 20)
    return f"{mib:.0f} MiB" if mib < 1000 else f"{mib / 1024:.1f} GiB"


def rich_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> "Table":
    """For a terminal, each cell on one line."""
    # Only a terminal has need of it, and it takes a tenth of a second to import.
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="")
    for column in columns:
        justify: Literal["left", "right"] = "right" if column.kind == "number" else "left"
        table.add_column(_one_line(column.name), justify=justify, no_wrap=column.kind in ("word", "number"))
    for row in rows:
        table.add_row(
            *(
                # Kept on one line here and not by the column: rich narrows columns that may wrap before others.
                Text(
                    _shown(column, cell),
                    style=_STYLES.get(cell, "") if column.kind == "word" else "",
                    no_wrap=column.kind != "prose",
                )
                for column, cell in zip(columns, row, strict=True)
            )
        )
    return table


def _shown(column: Column, cell: str) -> str:
    return _one_line(cell) if column.kind == "prose" else _cut(_one_line(cell))


def _one_line(cell: str) -> str:
    return " ".join("".join(character if character.isprintable() else " " for character in cell).split())


def _cut(cell: str) -> str:
    return cell if len(cell) <= _CELL_CHARACTERS else f"{cell[: _CELL_CHARACTERS - 1]}…"
