"""`pipeline profile`: where the time of a job goes, and how near its speed is to that of plain matrix products."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from jobs.progress import waiting
from jobs.submit import asked_spec, submit
from jobs.tables import Column, counted, duration, print_table
from pipeline.ingest.inputs import Source
from pipeline.ingest.paths import require_columns
from pipeline.prompts.shapes import columns_of
from pipeline.settings import Settings
from pipeline.source import source_of
from pipeline.spec import JobSpec

if TYPE_CHECKING:
    from pipeline.inference.profiling import Profile

#: What submit asks for and has no meaning where nothing is recorded.
_ELSEWHERE = {
    "name",
    "limit",
    "key",
    "output",
    "priority",
    "dedupe",
    "reuse_results",
    "wait",
    "here",
    "only_dry_run",
    "as_json",
}
_ASKED = [option for option in submit.params if option.name not in _ELSEWHERE]
_ROWS = 64
_COLUMNS = (Column("part"), Column("share", "number"), Column("us/token", "number"))


@click.command(params=_ASKED, short_help="Show where the time of a job goes.")
@click.option("--rows", type=click.IntRange(min=1), default=_ROWS, show_default=True, help="Rows that are answered.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def profile(inputs: tuple[str, ...], job_file: Path | None, rows: int, as_json: bool, **flags: Any) -> None:
    """Answer the first rows of INPUT as `submit` would, record nothing, and show where the time goes.

    Takes what `submit` takes. Answers end after 32 tokens at most.

    \b
    Example:
      pipeline profile examples/reviews.parquet --model smollm2-135m --raw \\
          --prompt @examples/sentiment.txt --choices positive,negative --rows 16
    """
    spec, source_url = asked_spec(inputs, job_file, flags)
    source = source_of(spec, source_url or Settings.from_environment().source_url)
    require_columns(source.schema, columns_of(spec))
    found = _profile(spec, source, rows)
    if as_json:
        figures = asdict(found) | {"rate": found.rate}
        click.echo(json.dumps(figures, indent=2))
        return
    _show(found)


def _profile(spec: JobSpec, source: Source, n_rows: int) -> "Profile":
    # torch takes seconds to import; a mistyped column is told before.
    from jobs.checkpoint import find_checkpoint
    from pipeline.ingest.rows import peek
    from pipeline.means import load_means
    from pipeline.profile import profile_job
    from pipeline.rows import Row

    settings = Settings.from_environment()
    settings.make_home()
    n_rows = n_rows if spec.limit is None else min(n_rows, spec.limit)
    rows = [Row(place, str(place), values) for place, values in enumerate(peek(source, n_rows, columns_of(spec)))]
    if not rows:
        raise source.without_rows()
    notes = Console(stderr=True, highlight=False)
    checkpoint = find_checkpoint(settings.home, spec.model, spec.adapter)
    with waiting(notes, f"Loading {spec.model} ..."):
        means = load_means(spec, checkpoint, settings)
    with waiting(notes, f"Answering {counted(len(rows), 'row')} twice ..."):
        return profile_job(spec, means, rows, settings)


def _show(found: "Profile") -> None:
    token_s = found.seconds / found.tokens
    print_table(_COLUMNS, [(part, f"{share:.1%}", f"{share * token_s * 1e6:,.1f}") for part, share in _largest(found)])
    for line in _sentences(found):
        click.echo(line)


def _largest(found: "Profile") -> list[tuple[str, float]]:
    return sorted(found.shares.items(), key=lambda part: -part[1])


def _sentences(found: "Profile") -> Iterator[str]:
    answers = f" and {found.output_tokens:,} of answers" if found.output_tokens else ""
    yield (
        f"\n{found.computed_tokens:,} prompt tokens{answers} in {duration(found.seconds)}: "
        f"{found.tokens / found.seconds:,.0f} tokens/s."
    )
    yield (
        f"{_rate(found.rate)}, which is {found.rate / found.model_rate:.0%} of what matrix products of the model's own "
        f"sizes reach here ({_rate(found.model_rate)}), and {found.rate / found.large_rate:.0%} of one large product "
        f"({_rate(found.large_rate)})."
    )
    yield (
        f"Shares were taken under a profiler, which slows all that is small ({duration(found.profiled_s)}); "
        "rates without it. Nothing was recorded."
    )


def _rate(per_second: float) -> str:
    return f"{per_second / 1e12:,.1f} TFLOP/s" if per_second >= 1e12 else f"{per_second / 1e9:,.1f} GFLOP/s"
