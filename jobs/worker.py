"""`pipeline worker`: one role of a fleet in this process and those that it starts, until it is asked to stop."""

import socket

import click

from jobs.role_options import role_options, role_settings, tell_start
from pipeline.errors import JobError
from pipeline.settings import Settings

_MOST_PROCESSES = 1 << 10


@click.group(short_help="Run a worker of a fleet: tokenizer or gpu.")
def worker() -> None:
    """Run a worker of a fleet. PIPELINE_BROKER_URL and PIPELINE_DATABASE_URL say which fleet; Ctrl-C or SIGTERM ends
    it once the batch in hand is recorded, a second Ctrl-C at once. Nothing is lost either way."""


@worker.command()
@click.option(
    "--concurrency",
    type=click.IntRange(1, _MOST_PROCESSES),
    default=1,
    show_default=True,
    help="Processes that encode.",
)
@role_options
def tokenizer(concurrency: int, log_format: str | None, metrics_port: int | None) -> None:
    """Turn texts into tokens and batches, on CPUs. Needs no model, but the place where the shards are.

    \b
    Example:
      pipeline worker tokenizer --concurrency 4
    """
    # Celery takes long to import, and no other command needs it.
    from workers.tokenizer import run_tokenizer

    settings = role_settings("tokenizer", log_format, metrics_port)
    tell_start(settings, "A tokenizer")
    click.get_current_context().exit(run_tokenizer(settings, concurrency))


@worker.command()
@click.option("--device", help="cpu, cuda, cuda:1, ... One worker has one device.  [default: PIPELINE_DEVICE]")
@role_options
def gpu(device: str | None, log_format: str | None, metrics_port: int | None) -> None:
    """Answer batches on one device; the model is that of the batches' job, and stays loaded.

    \b
    Example:
      pipeline worker gpu --device cuda:0
    """
    from workers.guard import run_guarded

    settings = role_settings("gpu", log_format, metrics_port)
    chosen = device or settings.device
    tell_start(settings, f"A GPU worker on {chosen}")
    click.get_current_context().exit(run_guarded(settings, chosen))


@worker.command()
def alive() -> None:
    """Exit with 0 where a process of the fleet on this host gave a sign of life in the last 30 seconds, otherwise 1.

    For health checks of containers.
    """
    from pipeline.store.database import open_database
    from pipeline.store.registry import SILENT_AFTER_S, Registry, is_near

    here = [record for record in Registry(open_database(Settings.from_environment())).alive() if is_near(record)]
    for record in here:
        click.echo(f"{record.role} {record.pid} is {record.state}")
    if not here:
        raise JobError(
            f"No process of the fleet on {socket.gethostname()} gave a sign of life in the last "
            f"{SILENT_AFTER_S:.0f} seconds."
        )
