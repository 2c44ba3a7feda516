"""Which rows of a job's results a command takes, and which columns: the flags of `results` and `export`."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from pipeline.rows import Status
from pipeline.store.database import Database
from pipeline.store.export import Wanted
from pipeline.store.result_condition import asks_results_alone, result_condition

_Command = TypeVar("_Command", bound=Callable[..., Any])


def choosing_flags(command: _Command) -> _Command:
    """Which the command takes as `where`, `columns` and `join_input`."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def wanted_rows(
    database: Database,
    status: str | None,
    limit: int | None,
    *,
    where: str | None,
    columns: str | None,
    join_input: bool,
) -> Wanted:
    """Raises SpecError for a condition that makes no sense."""
    names = None if columns is None else tuple(dict.fromkeys(name.strip() for name in columns.split(",")))
    by_database = where is not None and asks_results_alone(where)
    return Wanted(
        status=None if status is None else Status(status),
        condition=result_condition(where, database) if where is not None and by_database else None,
        where=None if by_database else where,
        limit=limit,
        columns=names,
        with_input=join_input or names is None,
    )


_FLAGS = (
    click.option("--where", metavar="EXPR", help="Only rows of which this is true: score > 0.9 and stars < 3"),
    click.option("--columns", metavar="A,B,...", help="Only these columns of the results, such as key,label,score."),
    click.option("--join-input", is_flag=True, help="With --columns: the input's columns before them."),
)
