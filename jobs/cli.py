"""The `pipeline` command: a list of commands, each imported only when it is run; and the place where errors speak."""

import importlib
import os
import signal
import sys
import traceback
from typing import Any

import click

from jobs import exit_codes
from pipeline.errors import NotFoundError, PipelineError, RefusedError, SpecError, TryAgain

#: In the order of a job's life. `jobs/NAME.py` defines the click command NAME, whose short help this repeats, so that
#: `pipeline --help` need not import it; a - in the name is a _ there.
COMMANDS = {
    "submit": "Answer every row of a table.",
    "run-batch": "Answer a batch file in OpenAI's format.",
    "jobs": "List all jobs, the newest first.",
    "status": "Tell how far a job is, and how fast.",
    "results": "Show a job's answers, or write them to a file.",
    "report": "Write a page with plots of how a job went.",
    "ui": "Show all jobs in a browser.",
    "export": "Write a job's answers to a file or a database.",
    "compare": "Compare two jobs' answers to the same keys.",
    "sql": "Ask the database in SQL; nothing is changed.",
    "pause": "Hold a job of the fleet; resume goes on with it.",
    "resume": "Go on with a job that was stopped, killed or paused.",
    "cancel": "Stop a job; what is answered stays.",
    "retry": "Answer a job's error rows again.",
    "schedule": "Submit a job night after night.",
    "scale-hint": "Tell how many workers a fleet's work would need.",
    "profile": "Show where the time of a job goes.",
    "bench": "Measure this machine's speed with a model.",
    "up": "Run a whole fleet on this machine.",
    "worker": "Run a worker of a fleet: tokenizer or gpu.",
    "dispatcher": "Run a fleet's dispatcher.",
    "purge": "Delete what jobs that ended long ago take up.",
    "migrate": "Bring the database up to date.",
    "doctor": "Check this machine, and tell how to mend it.",
    "completion": "Print what lets a shell complete commands.",
}

EXAMPLES = """
\b
Examples:
  pipeline submit reviews.parquet --model smollm2-135m --prompt "Summarise: {review}"
  pipeline submit reviews.csv --name moods --model smollm2-135m --raw \\
      --prompt "{review} This is" --choices good,bad
  pipeline status moods
  pipeline results moods --output moods.parquet
  pipeline retry moods
"""

#: The first class that an error is an instance of says how the command ends.
_STATUSES: tuple[tuple[type[PipelineError], int], ...] = (
    (SpecError, exit_codes.USAGE),
    (NotFoundError, exit_codes.NOT_FOUND),
    (RefusedError, exit_codes.REFUSED),
    (TryAgain, exit_codes.TRY_AGAIN),
    (PipelineError, exit_codes.FAILED),
)


class LazyCommand(click.Command):
    """Stands in the list for a command whose module is imported when the command is run."""

    def load(self) -> click.Command:
        module = str(self.name).replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"jobs.{module}"), module)
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        return self.load().make_context(info_name, args, parent, **extra)


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PipelineError as error:
            click.echo(f"Error: {error}", err=True)
            raise click.exceptions.Exit(_exit_status(error)) from error
        except BrokenPipeError:
            # Whoever read has seen enough. What is still buffered must go somewhere when Python exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(exit_codes.OK) from None
        except KeyboardInterrupt:
            raise click.exceptions.Exit(exit_codes.STOPPED) from None


def _exit_status(error: PipelineError) -> int:
    return next(status for kind, status in _STATUSES if isinstance(error, kind))


@click.group(
    cls=_Commands,
    commands={name: LazyCommand(name, short_help=text) for name, text in COMMANDS.items()},
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="pipeline", message="%(prog)s %(version)s")
def cli() -> None:
    """An answer from a language model for every row of a table. Nothing recorded is ever lost."""


def main() -> None:
    """What reaches the end of it is a fault of the program, so the traceback is shown."""
    sys.unraisablehook = _tell_faults
    try:
        cli(prog_name="pipeline")
    except Exception:
        traceback.print_exc()
        click.echo("This is a fault of pipeline itself, not yours. Please report it with the lines above.", err=True)
        sys.exit(exit_codes.FAILED)
    except KeyboardInterrupt:
        sys.exit(exit_codes.STOPPED)
    finally:
        # All is said; another Ctrl-C ends what libraries still do at exit, without their tracebacks.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _tell_faults(unraisable: "sys.UnraisableHookArgs") -> None:
    """Ctrl-C that comes amid a destructor cannot end anything there, and is no fault."""
    if issubclass(unraisable.exc_type, Exception):
        sys.__unraisablehook__(unraisable)
