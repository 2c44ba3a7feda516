"""`pipeline dispatcher`: hands out a fleet's work and takes back what got lost. Two of them do no harm."""

import click

from pipeline.settings import Settings


@click.command(short_help="Run a fleet's dispatcher.")
def dispatcher() -> None:
    """Run a fleet's dispatcher: it hands out work by priority, and takes back what a dead worker held or Redis lost.

    Where it is down, workers end what they have and nothing more happens until one is up again. A second one does no
    harm, and takes over at once.

    \b
    Example:
      pipeline dispatcher
    """
    # Celery takes long to import, and no other command needs it.
    from workers.dispatcher import run_dispatcher
    from workers.logs import log_to_stderr

    log_to_stderr("dispatcher")
    click.echo("A dispatcher is starting; `pipeline status` shows it once it lives.", err=True)
    click.get_current_context().exit(run_dispatcher(Settings.from_environment()))
