"""The argument JOB of a command: a name, an id or the start of one, or `last`; and NAME, of a schedule. A shell
completes names."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from pipeline.settings import Settings

_Command = TypeVar("_Command", bound=Callable[..., Any])


def job_argument(**options: Any) -> Callable[[_Command], _Command]:
    """For a command that takes it as `job`."""
    return click.argument("job", shell_complete=_jobs, **options)


def schedule_argument(command: _Command) -> _Command:
    """For a command that takes it as `name`."""
    return click.argument("name", shell_complete=_schedules)(command)


# What a shell asks for in the midst of a line must be quick, and the database's library takes a while to import.


def _jobs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from pipeline.store.glance import states_by_name

    return _begin_with(incomplete, states_by_name)


def _schedules(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from pipeline.store.glance import schedules_by_name

    return _begin_with(incomplete, schedules_by_name)


def _begin_with(incomplete: str, look: Callable[["Settings"], dict[str, str]]) -> list[CompletionItem]:
    from pipeline.errors import PipelineError
    from pipeline.settings import Settings

    try:
        found = look(Settings.from_environment())
    except PipelineError:
        return []
    return [CompletionItem(name, help=told) for name, told in found.items() if name.startswith(incomplete)]
