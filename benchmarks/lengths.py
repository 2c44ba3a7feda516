"""How rows a second and memory go with the batch's rows, the shared prefix's tokens and the rows' own tokens.

Each point runs in a process of its own, so that one's memory is not another's. Bytes are those above the loaded model:
at their peak while the prefix was computed, and while a batch was answered behind it. SmolLM2-135M, random token ids.
"""

import argparse
import csv
import ctypes
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import product
import report
import small_model
from line_plot import Panel, draw
from workloads import Workload

from pipeline.inference.memory import predicted_bytes
from pipeline.rows import Generate
from pipeline.settings import Settings

NEW_TOKENS = 8
MIB = 1 << 20


class Point(NamedTuple):
    batch_rows: int
    prefix_tokens: int
    own_tokens: int


BATCHES = [Point(rows, 1024, 32) for rows in (1, 2, 4, 8, 16, 32, 64, 128, 256)]
PREFIXES = [Point(16, tokens, 32) for tokens in (0, 512, 1024, 2048, 4096, 8000)]
OWN = [Point(8, 1024, tokens) for tokens in (8, 32, 128, 512, 1024)]
SERIES = {"batch_rows": BATCHES, "prefix_tokens": PREFIXES, "own_tokens": OWN}
QUICK = {"batch_rows": BATCHES[:2], "prefix_tokens": PREFIXES[:2], "own_tokens": OWN[:1]}
MEASURED = ("rows_s", "prefix_s", "model_bytes", "prefix_peak_bytes", "peak_bytes", "predicted_bytes")


def main() -> None:
    arguments = _arguments()
    if arguments.point:
        print(json.dumps(measure(small_model.directory(), Point(*arguments.point))))
        return
    print(report.machine(), flush=True)
    small_model.directory()
    series = QUICK if arguments.quick else SERIES
    found = {point: _run(point) for point in dict.fromkeys(point for points in series.values() for point in points)}
    print(f"{NEW_TOKENS} tokens out; MiB above the loaded model")
    print(report.table((*Point._fields, *MEASURED[:2], *(name[:-5] + "MiB" for name in MEASURED[2:])), _lines(found)))
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with arguments.output.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow((*Point._fields, *MEASURED))
        writer.writerows((*point, *facts.values()) for point, facts in found.items())
    plot = arguments.output.with_suffix(".svg")
    plot.write_text(draw(_panels(series, found), columns=len(series)))
    print(f"written: {arguments.output}, {plot}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    default = Settings.from_environment().home / "benchmarks/lengths.csv"
    parser.add_argument("--output", type=Path, default=default, help="CSV; the plot lies beside it, as .svg")
    parser.add_argument("--quick", action="store_true", help="a few points: does it run?")
    parser.add_argument("--point", type=int, nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(directory: Path, point: Point) -> dict[str, float]:
    """A first row brings the prefix into the store, and is not counted among those that are answered."""
    model = product.load(directory)
    settings = replace(Settings.from_environment(), batch_rows=point.batch_rows, batch_tokens=1 << 30)
    engine = product.engine(model, settings)
    first, workload = (_workload(point, rows, model.vocab_size) for rows in (1, point.batch_rows))
    _forget_peak()
    loaded = _memory("VmRSS")
    _, timing = engine.answer(product.batches(first, settings, None)[0], Generate(1))
    prefix_peak = _memory("VmHWM") - loaded
    _forget_peak()
    batches = product.batches(workload, settings, None)
    run = product.answer_batches(engine, product.task(workload), batches)
    peak = max(prefix_peak, _memory("VmHWM") - loaded)
    predicted = predicted_bytes(model, point.prefix_tokens, batches[0].prompts, Generate(NEW_TOKENS))
    facts = (point.batch_rows / run.seconds, timing.prefix_s, loaded, prefix_peak, peak, predicted)
    return dict(zip(MEASURED, facts, strict=True))


def _workload(point: Point, rows: int, vocab_size: int) -> Workload:
    numbers = random.Random(7)
    prefix, *own = (
        tuple(numbers.randrange(100, vocab_size) for _ in range(tokens))
        for tokens in (point.prefix_tokens, *[point.own_tokens] * rows)
    )
    return Workload("lengths", prefix, tuple(own), NEW_TOKENS)


def _forget_peak() -> None:
    """What is free goes back to Linux first, which then counts the peak from here on."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def _memory(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    (kilobytes,) = re.findall(rf"{field}:\s+(\d+) kB", status)
    return int(kilobytes) << 10


def _run(point: Point) -> dict[str, float]:
    command = [sys.executable, __file__, "--point", *map(str, point)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    facts: dict[str, float] = json.loads(answer.stdout)
    return facts


def _lines(found: dict[Point, dict[str, float]]) -> list[tuple[object, ...]]:
    def shown(name: str, value: float) -> float | int:
        return round(value / MIB) if name.endswith("bytes") else value

    return [(*point, *(shown(name, value) for name, value in facts.items())) for point, facts in found.items()]


def _panels(series: dict[str, list[Point]], found: dict[Point, dict[str, float]]) -> Iterable[Panel]:
    for title, name, unit in (("rows a second", "rows_s", 1), ("MiB above the model", "peak_bytes", MIB)):
        for varied, points in series.items():
            fixed = ", ".join(
                f"{field.replace('_', ' ')} {value}" for field, value in points[0]._asdict().items() if field != varied
            )
            values = [found[point][name] / unit for point in points]
            xs = [getattr(point, varied) for point in points]
            yield Panel(f"{title} ({fixed})", varied.replace("_", " "), xs, values)


if __name__ == "__main__":
    main()
