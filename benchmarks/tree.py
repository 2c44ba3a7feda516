"""Prefixes of prefixes: one instruction over 40 documents of 300 tokens, 16 questions each, rows shuffled.

Prints the prompt tokens that were computed against the fewest that any order of the rows could need, and rows a second
with the tree, with the instruction alone shared, and for several values of the least that a node must save.
"""

import argparse
import random
import time
from dataclasses import replace

import torch

from pipeline.buckets import plan
from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.inference.engine import Engine
from pipeline.inference.loading import load_model
from pipeline.inference.prefix_store import PrefixStore
from pipeline.prefix_tree import MIN_SAVED, additions, depth_first, find_cuts
from pipeline.rows import Batch, Generate, Prompt

INSTRUCTION_TOKENS, DOCUMENT_TOKENS = 200, 300
NEW_TOKENS = 8
GOAL = 1.05


def main() -> None:
    arguments = _arguments()
    model = load_model(resolve_checkpoint("smollm2-135m"), "cpu")
    prefix, rows = _workload(model.vocab_size, arguments.documents, arguments.questions)
    fewest = _fewest(prefix, rows)
    print(f"{len(rows)} rows, {sum(map(len, rows)):,} own tokens after {len(prefix)} shared, {NEW_TOKENS} tokens out")
    engine = Engine(replace(model, stop_ids=frozenset()), PrefixStore(4 << 30), str)
    for name, least in (("instruction alone", None), *((f"node saves {n} or more", n) for n in arguments.least)):
        seconds, computed = _run(engine, prefix, rows, least)
        ratio = f"{computed / fewest:.3f} of the fewest possible (goal {GOAL})"
        print(f"{name:24} {len(rows) / seconds:7.2f} rows/s, {computed:,} prompt tokens computed, {ratio}")
        engine = Engine(replace(model, stop_ids=frozenset()), PrefixStore(4 << 30), str)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=40)
    parser.add_argument("--questions", type=int, default=16)
    parser.add_argument("--least", type=int, nargs="*", default=[MIN_SAVED])
    return parser.parse_args()


def _workload(vocab_size: int, documents: int, questions: int) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    numbers = random.Random(3)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(numbers.randrange(100, vocab_size) for _ in range(count))

    asked = [ids(numbers.randrange(8, 24)) for _ in range(questions)]
    rows = [document + question for document in (ids(DOCUMENT_TOKENS) for _ in range(documents)) for question in asked]
    numbers.shuffle(rows)
    return ids(INSTRUCTION_TOKENS), rows


def _fewest(prefix: tuple[int, ...], rows: list[tuple[int, ...]]) -> int:
    """Every token once for all rows that share everything before it: the size of the trie."""
    ordered = [rows[place] for place in depth_first(rows)]
    fresh = [len(row) - _common(row, before) for before, row in zip([(), *ordered], ordered, strict=False)]
    return len(prefix) + sum(fresh)


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _run(engine: Engine, prefix: tuple[int, ...], rows: list[tuple[int, ...]], least: int | None) -> tuple[float, int]:
    started = time.perf_counter()
    cuts = find_cuts(rows, least) if least is not None else [()] * len(rows)
    prompts = [Prompt(place, str(place), row, found) for place, (row, found) in enumerate(zip(rows, cuts, strict=True))]
    together = additions([prompts[place] for place in depth_first(rows)])
    lengths = [(prompt.row_id, len(prompt.own_ids)) for prompt in prompts]
    computed = 0
    for planned in plan(lengths, max_rows=128, max_tokens=8192, together=together):
        batch = Batch("bench", 0, 1, 1, prefix, tuple(prompts[row_id] for row_id in planned.row_ids))
        computed += engine.answer(batch, Generate(NEW_TOKENS))[1].computed_tokens
    return time.perf_counter() - started, computed


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
