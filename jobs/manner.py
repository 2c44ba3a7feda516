"""How a command that runs a job was asked to do it: here or in the fleet, with a wait or without, told to whom."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Manner:
    """`wait` and `here` matter only where there is a fleet. A job that is not `alone` is one of several of a command,
    which says by itself how they go on."""

    wait: bool = False
    here: bool = False
    as_json: bool = False
    alone: bool = True

    def way_on(self, name: str) -> str:
        """Behind what is said of a job that was stopped."""
        return f"; go on with: pipeline resume {shlex.quote(name)}" if self.alone else ""


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
