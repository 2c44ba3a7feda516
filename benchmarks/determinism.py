"""Whether answers depend on the rows beside them: one job in batches of 1, 7 and 64 rows, and in three other orders.

Workload: review sentences after a few-shot instruction of about 900 tokens, 16 greedy tokens each, SmolLM2-135M in
fp32 on the CPU, with every token's log-probability. Printed are the rows whose tokens, or whose log-probabilities to
the last bit, differ from those of batches of 64, by default and with --deterministic, and what the latter costs.
"""

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import replace

import product
import report
import small_model
from workloads import Workload, few_shot

from pipeline.inference.determinism import deterministic
from pipeline.inference.model import LanguageModel
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Batch, Completion, Generate, Prompt
from pipeline.settings import Settings

#: Rows of a batch, and the order of the rows.
RUNS = ((64, None), (64, None), (7, None), (1, None), (64, 1), (64, 2), (64, 3))


def main() -> None:
    arguments = _arguments()
    print(report.machine(), flush=True)
    directory = small_model.directory()
    workload = few_shot(Vocabulary(directory), arguments.rows)
    print(workload, flush=True)
    model = product.load(directory)
    lines = []
    for name, contestant in (("default", model), ("--deterministic", deterministic(model))):
        lines += _compare(name, contestant, workload)
    print(report.table(("", "batch rows", "order", "rows/s", "other tokens", "other logprobs"), lines))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200)
    return parser.parse_args()


def _compare(name: str, model: LanguageModel, workload: Workload) -> list[tuple[object, ...]]:
    lines: list[tuple[object, ...]] = []
    expected: Sequence[Completion] = ()
    for batch_rows, seed in RUNS:
        found, rate = _answer(model, workload, batch_rows, seed)
        expected = expected or found
        tokens = sum(one.output != other.output for one, other in zip(found, expected, strict=True))
        numbers = sum(one.logprobs != other.logprobs for one, other in zip(found, expected, strict=True))
        order = "as given" if seed is None else f"shuffled, {seed}"
        lines.append((name, batch_rows, order, rate, tokens, numbers))
        print(*lines[-1], flush=True)
    return lines


def _answer(
    model: LanguageModel, workload: Workload, batch_rows: int, seed: int | None
) -> tuple[Sequence[Completion], float]:
    prompts = [Prompt(place, str(place), row) for place, row in enumerate(workload.rows)]
    if seed is not None:
        random.Random(seed).shuffle(prompts)
    engine = product.engine(model, replace(Settings(), batch_rows=batch_rows))
    started, found = time.perf_counter(), []
    for first in range(0, len(prompts), batch_rows):
        batch = Batch("bench", first, 1, 1, workload.prefix, tuple(prompts[first : first + batch_rows]))
        found += engine.answer(batch, Generate(workload.new_tokens, logprobs=0))[0]
    seconds = time.perf_counter() - started
    return sorted(found, key=lambda completion: completion.row_id), len(prompts) / seconds


if __name__ == "__main__":
    main()
