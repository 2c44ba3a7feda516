"""`pipeline up`: a whole fleet on one machine, as children of this process, until Ctrl-C."""

import click

from jobs.role_options import role_options, role_settings
from jobs.tables import counted


@click.command(short_help="Run a whole fleet on this machine.")
@click.option("--tokenizers", type=click.IntRange(1), default=1, show_default=True, help="Processes that encode.")
@click.option(
    "--device",
    "devices",
    multiple=True,
    help="A GPU worker's device, such as cuda:0; once for each worker.  [default: PIPELINE_DEVICE]",
)
@role_options
def up(tokenizers: int, devices: tuple[str, ...], log_format: str | None, metrics_port: int | None) -> None:
    """Run dispatcher, tokenizers and GPU workers on this machine, and a private Redis where PIPELINE_BROKER_URL is not
    set. `pipeline submit` in another terminal then hands its jobs to them.

    One Ctrl-C ends all in order, once the batches in hand are recorded; a second one at once.

    \b
    Example:
      pipeline up --device cuda:0 --device cuda:1
    """
    from workers.up import run_all

    settings = role_settings("up", log_format, metrics_port)
    chosen = devices or (settings.device,)

    def ready() -> None:
        on = f" on {', '.join(devices)}" if devices else ""
        started = f"a dispatcher, {counted(tokenizers, 'tokenizer')} and {counted(len(chosen), 'GPU worker')}{on}"
        click.echo(
            f"The fleet is ready: {started}. Submit jobs in another terminal, in this directory or with the same "
            "PIPELINE_HOME, by `pipeline submit`; Ctrl-C ends it.",
            err=True,
        )

    def stopping() -> None:
        click.echo("Stopping once the batches in hand are recorded. Ctrl-C again stops at once.", err=True)

    click.echo("A fleet is starting; this says when it is ready.", err=True)
    click.get_current_context().exit(run_all(settings, tokenizers, chosen, ready, stopping))
