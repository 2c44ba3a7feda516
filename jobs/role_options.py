"""Options that all long-running processes of a fleet have."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from pipeline.settings import LOG_FORMATS, Settings

_Command = TypeVar("_Command", bound=Callable[..., Any])


def role_options(command: _Command) -> _Command:
    """As `log_format` and `metrics_port`."""
    log_format = click.option(
        "--log-format",
        type=click.Choice(LOG_FORMATS),
        help="How lines are written to standard error.  [default: PIPELINE_LOG_FORMAT, or text]",
    )
    metrics_port = click.option(
        "--metrics-port",
        type=click.IntRange(1, 65_535),
        metavar="PORT",
        help="Serve metrics for Prometheus there, at /metrics.  [default: PIPELINE_METRICS_PORT, or nowhere]",
    )
    return log_format(metrics_port(command))


def role_settings(role: str, log_format: str | None, metrics_port: int | None) -> Settings:
    """The process's settings, once its log is set up by them."""
    # Only these processes have need of it.
    from workers.logs import log_to_stderr

    settings = Settings.from_environment()
    settings = replace(
        settings,
        log_format=log_format or settings.log_format,
        metrics_port=metrics_port or settings.metrics_port,
    )
    log_to_stderr(role, settings.log_format)
    return settings


def tell_start(settings: Settings, what: str) -> None:
    """To a person; who reads objects hears of it from the database."""
    if settings.log_format == "text":
        click.echo(f"{what} is starting; `pipeline status` shows it once it lives.", err=True)
