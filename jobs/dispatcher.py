"""`pipeline dispatcher`: hands out a fleet's work and takes back what got lost. Two of them do no harm."""

import click

from jobs.role_options import role_options, role_settings, tell_start


@click.command(short_help="Run a fleet's dispatcher.")
@role_options
def dispatcher(log_format: str | None, metrics_port: int | None) -> None:
    """Run a fleet's dispatcher: it hands out work by priority, and takes back what a dead worker held or Redis lost.

    Where it is down, workers end what they have and nothing more happens until one is up again. A second one does no
    harm, and takes over at once.

    \b
    Example:
      pipeline dispatcher
    """
    # Celery takes long to import, and no other command needs it.
    from workers.dispatcher import run_dispatcher

    settings = role_settings("dispatcher", log_format, metrics_port)
    tell_start(settings, "A dispatcher")
    click.get_current_context().exit(run_dispatcher(settings))
