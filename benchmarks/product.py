"""This engine's side of a comparison: rows planned into batches, and answered, as the runner of a job does it."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from workloads import Workload

from pipeline.buckets import plan
from pipeline.costs import Costs
from pipeline.inference.checkpoint import resolve_checkpoint
from pipeline.inference.engine import Engine
from pipeline.inference.loading import load_model
from pipeline.inference.model import LanguageModel
from pipeline.inference.prefix_store import PrefixStore
from pipeline.prefix_tree import additions, with_cuts
from pipeline.rows import Batch, Choose, Generate, Prompt, Task
from pipeline.settings import Settings

#: Token ids, or the label.
Answer = list[int] | str


class Run(NamedTuple):
    """An answer a row, in the order of the rows."""

    answers: list[Answer]
    seconds: float
    computed_tokens: int  #: of the prompts, shared ones once


def load(directory: Path) -> LanguageModel:
    """The model without stop tokens: all contestants generate the same number of tokens."""
    return replace(load_model(resolve_checkpoint(str(directory)), "cpu"), stop_ids=frozenset())


def engine(model: LanguageModel, settings: Settings) -> Engine:
    """One that has answered nothing yet. Its text is the token ids."""
    return Engine(model, PrefixStore(settings.prefix_bytes), lambda ids: " ".join(map(str, ids)))


def task(workload: Workload) -> Task:
    return Choose(workload.labels, workload.label_ids) if workload.labels else Generate(workload.new_tokens)


def batches(workload: Workload, settings: Settings, costs: Costs | None) -> list[Batch]:
    """Without costs, nothing is shared but the workload's prefix."""
    prompts = [Prompt(place, str(place), row) for place, row in enumerate(workload.rows)]
    if costs is not None:
        prompts = with_cuts(prompts, costs, task(workload), settings.batch_rows)
    planned = plan(
        [(prompt.row_id, len(prompt.own_ids)) for prompt in prompts],
        max_rows=settings.batch_rows,
        max_tokens=settings.batch_tokens,
        together=additions(prompts),
    )
    by_id = {prompt.row_id: prompt for prompt in prompts}
    return [
        Batch("bench", number, 1, 1, workload.prefix, tuple(by_id[row_id] for row_id in batch.row_ids))
        for number, batch in enumerate(planned)
    ]


def answer(model: LanguageModel, workload: Workload, settings: Settings, costs: Costs | None) -> Run:
    """From rows as token ids, with nothing computed before."""
    started = time.perf_counter()
    run = answer_batches(engine(model, settings), task(workload), batches(workload, settings, costs))
    return run._replace(seconds=time.perf_counter() - started)


def answer_batches(ours: Engine, asked: Task, planned: Sequence[Batch]) -> Run:
    """By an engine that may have answered before."""
    started, computed = time.perf_counter(), 0
    answers: dict[int, Answer] = {}
    for batch in planned:
        completions, timing = ours.answer(batch, asked)
        computed += timing.computed_tokens
        answers |= {row.row_id: row.label or [*map(int, str(row.output).split())] for row in completions}
    return Run([answers[row_id] for row_id in sorted(answers)], time.perf_counter() - started, computed)
