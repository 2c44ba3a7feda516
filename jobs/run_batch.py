"""`pipeline run-batch`: a batch file as OpenAI's service takes it, answered as that service would do it."""

from pathlib import Path
from typing import Any

import click

from jobs import exit_codes
from jobs.batch_files import BatchFiles
from jobs.manner import Manner
from pipeline.openai.endpoints import Usual
from pipeline.settings import Settings


@click.command(short_help="Answer a batch file in OpenAI's format.")
@click.option("-i", "--input-file", "batch", type=click.Path(path_type=Path), required=True, metavar="FILE")
@click.option("-o", "--output-file", "output", type=click.Path(path_type=Path), required=True, metavar="FILE")
@click.option(
    "--error-file",
    "errors",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Lines that could not be answered.  [default: OUTPUT.errors.jsonl]",
)
@click.option("--model", required=True, help="As for submit; what the lines name is not looked at.")
@click.option("--name", help="Name of the jobs, with -1, -2 ... behind it.  [default: one made from the file]")
@click.option(
    "--max-tokens", type=click.IntRange(min=1), default=256, show_default=True, help="Of a chat without limit."
)
@click.option(
    "--embed",
    "pooling",
    type=click.Choice(["last", "mean"]),
    default="last",
    show_default=True,
    help="Of an embedding: the state of the last token, or the mean of all, as encoders such as MiniLM want it.",
)
@click.option("--here", is_flag=True, help="Answer in this process, also where there is a fleet.")
def run_batch(
    batch: Path, output: Path, errors: Path | None, max_tokens: int, pooling: Any, here: bool, **asked: Any
) -> None:
    """Answer each line of FILE, a JSON object of custom_id, url and body. The url is /v1/chat/completions,
    /v1/completions or /v1/embeddings.

    Lines that agree on url and parameters are one job. A line that cannot be answered is a line of the error file, and
    hurts no other. The same command again goes on where it stopped.

    \b
    Example:
      pipeline run-batch -i examples/batch.jsonl -o answers.jsonl --model smollm2-135m
    """
    files = BatchFiles.of(batch, output, errors)
    # torch takes seconds to import; what makes no sense is told before.
    from jobs.batch_jobs import answer_batch

    usual = Usual(max_tokens, pooling)
    manner = Manner(wait=True, here=here, alone=False)
    try:
        status = answer_batch(Settings.from_environment(), files, manner, usual=usual, **asked)
    except KeyboardInterrupt:
        status = exit_codes.STOPPED
    if status in (exit_codes.STOPPED, exit_codes.FAILED):
        click.echo(f"The same run-batch command goes on where it stopped, and writes {output} at its end.", err=True)
    click.get_current_context().exit(status)
