"""Prefixes of prefixes: one instruction over 40 documents of 300 tokens, 16 questions each, rows shuffled.

Prints the prompt tokens that were computed against the fewest that any order of the rows could need, and rows a second:
with the nodes that pay by the usual costs, with every node that there is, and with the instruction alone shared.
"""

import argparse
from collections.abc import Iterator

import product
import report
import small_model
import torch
import workloads
from workloads import Ids, Workload

from pipeline.costs import Costs, usual_costs
from pipeline.inference.model import LanguageModel
from pipeline.settings import Settings

GOAL = 1.05
HEAD = ("shared", "rows/s", "ratio", "tokens computed", "of the fewest possible", "goal", "same answers")
#: Sharing that costs nothing: every token that two rows share is in a node.
FREE = Costs(token_s=1.0, key_s=0.0, level_s=0.0, reader_s=0.0)


def main() -> None:
    arguments = _arguments()
    torch.set_grad_enabled(False)
    print(report.machine())
    model = product.load(small_model.directory())
    workload = workloads.documents(model.vocab_size, arguments.documents, arguments.questions)
    print(workload, flush=True)
    print(report.table(HEAD, list(_lines(model, workload))))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=40)
    parser.add_argument("--questions", type=int, default=16)
    parser.add_argument("--quick", action="store_true", help="two documents, two questions: does it run?")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.documents = arguments.questions = 2
    return arguments


def _lines(model: LanguageModel, workload: Workload) -> Iterator[tuple[object, ...]]:
    settings, fewest = Settings.from_environment(), _fewest(workload.prefix, workload.rows)
    ways = {"nodes that pay": usual_costs("cpu"), "every node": FREE, "the instruction alone": None}
    rate, expected = None, None
    for name, costs in ways.items():
        run = product.answer(model, workload, settings, costs)
        rows_s = len(workload.rows) / run.seconds
        rate, expected = rate or rows_s, expected or run.answers
        same = sum(one == other for one, other in zip(expected, run.answers, strict=True))
        ratio = f"{run.computed_tokens / fewest:.3f}"
        yield name, rows_s, rate / rows_s, run.computed_tokens, ratio, GOAL, f"{same} of {len(expected)}"


def _fewest(prefix: Ids, rows: tuple[Ids, ...]) -> int:
    """Every token once for all rows that share everything before it: the size of the trie."""
    ordered = sorted(rows)
    fresh = [len(row) - _common(row, before) for before, row in zip([(), *ordered], ordered, strict=False)]
    return len(prefix) + sum(fresh)


def _common(one: Ids, other: Ids) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


if __name__ == "__main__":
    main()
