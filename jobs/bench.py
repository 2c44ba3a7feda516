"""`pipeline bench`: how fast this machine is with a model; with --calibrate, when sharing a prefix pays on it."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from jobs.progress import waiting
from jobs.tables import Column, print_table
from pipeline.inference.checkpoint import SMALL_MODEL
from pipeline.settings import Settings

if TYPE_CHECKING:
    from pipeline.costs import Costs
    from pipeline.inference.model import LanguageModel

_COLUMNS = (
    Column("rows", "number"),
    Column("prompt tokens each", "number"),
    Column("prefill tokens/s", "number"),
    Column("decode tokens/s", "number"),
)


@click.command(short_help="Measure this machine's speed with a model.")
@click.option("--model", default=SMALL_MODEL, show_default=True, help="Hub id, directory or FILE.gguf.")
@click.option("--adapter", metavar="DIR", help="LoRA weights for it: directory or hub id.")
@click.option("--dtype", type=click.Choice(["auto", "float32", "bfloat16", "float16"]), default="auto")
@click.option("--trust-remote-code", is_flag=True, help="Run Python code that comes with the model.")
@click.option("--calibrate", is_flag=True, help="Measure what sharing costs, and go by it from now on.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def bench(model: str, adapter: str | None, dtype: str, trust_remote_code: bool, calibrate: bool, as_json: bool) -> None:
    """Measure how fast this machine is with a model, on random tokens: half a minute with a small one.

    With --calibrate: measure what it costs here to share the beginnings of prompts. Jobs with this model on this
    device then share what pays, and no more; without, they go by estimates.

    \b
    Example:
      pipeline bench --calibrate --model smollm2-135m
    """
    # torch takes seconds to import; a flag that makes no sense is told before.
    from jobs.checkpoint import find_checkpoint
    from pipeline.inference.loading import load_model

    settings = Settings.from_environment()
    settings.make_home()
    notes = Console(stderr=True, highlight=False)
    checkpoint = find_checkpoint(settings.home, model, adapter)
    with waiting(notes, f"Loading {model} ..."):
        loaded = load_model(checkpoint, settings.device, dtype, trust_remote_code=trust_remote_code)
    with waiting(notes, "Measuring; leave the machine to it for a minute ..."):
        figures, lines = _calibrate(settings, loaded, model) if calibrate else _speed(loaded)
    if as_json:
        click.echo(json.dumps(figures, indent=2))
        return
    if not calibrate:
        print_table(_COLUMNS, [[f"{number:,.0f}" for number in size.values()] for size in figures["sizes"]])
    for line in lines:
        click.echo(line)


def _speed(model: "LanguageModel") -> tuple[dict[str, Any], list[str]]:
    from pipeline.inference.speed import measure_speed

    found = measure_speed(model)
    rates = (
        f"Matrix products: {found.model_rate / 1e9:,.1f} GFLOP/s at the sizes of these prompts, "
        f"{found.large_rate / 1e9:,.1f} GFLOP/s for a large square one."
    )
    return asdict(found), [rates]


def _calibrate(settings: Settings, model: "LanguageModel", name: str) -> tuple[dict[str, Any], list[str]]:
    from pipeline.calibration import Calibration, keep
    from pipeline.inference.calibration import measure_costs

    day = datetime.now(UTC).date().isoformat()
    calibration = Calibration.of(model, measure_costs(model), name=name, day=day)
    path = keep(settings.home, calibration)
    return asdict(calibration), [_told(calibration.costs), f"Kept in {path}; jobs with {name} go by it."]


def _told(costs: "Costs") -> str:
    return (
        f"A prompt token takes {costs.token_s * 1e3:.2f} ms. A level of shared prefixes takes "
        f"{costs.level_s * 1e3:.2f} ms in each forward, and {costs.reader_s * 1e6:,.0f} us for each token below it. It "
        f"saves {costs.key_s * 1e6:,.1f} us for each token that a row shares, at every step of an answer."
    )
