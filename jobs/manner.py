"""How a command that runs a job was asked to do it: here or in the fleet, with a wait or without, told to whom."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Manner:
    """`wait` and `here` matter only where there is a fleet."""

    wait: bool = False
    here: bool = False
    as_json: bool = False


def manner_flags(command: _Command) -> _Command:
    """The flags of submit, resume and retry, which take them as `wait`, `here` and `as_json`."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


_FLAGS = (
    click.option("--wait", is_flag=True, help="With a fleet: follow the job to its end; Ctrl-C leaves it running."),
    click.option("--here", is_flag=True, help="Answer in this process, also where there is a fleet."),
    click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON."),
)
