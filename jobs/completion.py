"""`pipeline completion`: the script by which a shell completes commands, flags and the names of jobs."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print what lets a shell complete commands.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which SHELL completes commands, flags and names of jobs, for its start-up file.

    \b
    Example:
      pipeline completion bash >> ~/.bashrc
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "pipeline", "_PIPELINE_COMPLETE").source())
