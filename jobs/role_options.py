"""Options that all long-running processes of a fleet have."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from pipeline.settings import LOG_FORMATS, Settings

_Command = TypeVar("_Command", bound=Callable[..., Any])


def log_format_option(command: _Command) -> _Command:
    """`--log-format`, as `log_format`."""
    option = click.option(
        "--log-format",
        type=click.Choice(LOG_FORMATS),
        help="How lines are written to standard error.  [default: PIPELINE_LOG_FORMAT, or text]",
    )
    return option(command)


def logging_settings(role: str, log_format: str | None) -> Settings:
    """The process's settings, once its log is set up by them."""
    # Only these processes have need of it.
    from workers.logs import log_to_stderr

    settings = Settings.from_environment()
    settings = replace(settings, log_format=log_format or settings.log_format)
    log_to_stderr(role, settings.log_format)
    return settings
