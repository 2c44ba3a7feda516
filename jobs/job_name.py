"""The argument JOB of a command: a name, an id or the start of one, or `last`; a shell completes names."""

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

_Command = TypeVar("_Command", bound=Callable[..., Any])


def job_argument(**options: Any) -> Callable[[_Command], _Command]:
    """For a command that takes it as `job`."""
    return click.argument("job", shell_complete=_begin_with, **options)


def _begin_with(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    # What a shell asks for in the midst of a line must be quick, and the database's library takes a while to import.
    from pipeline.errors import PipelineError
    from pipeline.settings import Settings
    from pipeline.store.glance import states_by_name

    try:
        found = states_by_name(Settings.from_environment())
    except PipelineError:
        return []
    return [CompletionItem(name, help=state) for name, state in found.items() if name.startswith(incomplete)]
