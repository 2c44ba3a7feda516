"""What sharing costs on this device with this model: the same rows timed with nodes above them and without."""

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from pipeline.costs import Costs
from pipeline.inference.engine import Engine
from pipeline.inference.model import LanguageModel
from pipeline.inference.prefix_store import PrefixStore
from pipeline.rows import Batch, Generate, Prompt


class Experiment(NamedTuple):
    """Rows below two nodes, as most levels have several."""

    rows: int
    shared: int  #: tokens of a node
    own: int  #: tokens of a row, below its node
    steps: int  #: tokens decoded behind the first

    @property
    def terms(self) -> tuple[float, float, float, float]:
        """What the nodes save, as so many times each of the costs, in their order."""
        once = (self.rows - _NODES) * self.shared
        return once, once * self.steps, -(1 + self.steps), -self.rows * (self.own + self.steps)


_NODES = 2
#: Each cost weighs in some of them more than in the others; none has more tokens than fit in one forward.
EXPERIMENTS = (
    Experiment(rows=16, shared=64, own=4, steps=0),
    Experiment(rows=16, shared=16, own=64, steps=0),
    Experiment(rows=4, shared=16, own=4, steps=0),
    Experiment(rows=4, shared=16, own=4, steps=16),
    Experiment(rows=32, shared=16, own=4, steps=8),
    Experiment(rows=8, shared=128, own=4, steps=12),
)
#: The fastest of so many runs counts: whatever else the machine does only ever slows it down.
_RUNS = 3


def measure_costs(model: LanguageModel, experiments: Sequence[Experiment] = EXPERIMENTS) -> Costs:
    """Takes under a minute with a small model on two cores."""
    endless = replace(model, stop_ids=frozenset())
    timed = [(experiment, *_seconds(endless, experiment)) for experiment in experiments]
    return fit_costs([(experiment.terms, plain - shared, 1 / plain) for experiment, plain, shared in timed])


def fit_costs(observed: Sequence[tuple[Sequence[float], float, float]]) -> Costs:
    """(terms, seconds saved, weight) of each experiment -> costs that explain them best, none below zero."""
    weights = torch.tensor([weight for _, _, weight in observed], dtype=torch.float64)
    terms = torch.tensor([terms for terms, _, _ in observed], dtype=torch.float64) * weights[:, None]
    saved = torch.tensor([saved for _, saved, _ in observed], dtype=torch.float64) * weights
    used = list(range(terms.shape[1]))
    while True:
        found = torch.linalg.lstsq(terms[:, used], saved[:, None]).solution.flatten().tolist()
        if min(found) >= 0 or len(used) == 1:
            break
        used.pop(found.index(min(found)))
    costs = [0.0] * terms.shape[1]
    for place, seconds in zip(used, found, strict=True):
        costs[place] = max(seconds, 0.0)
    return Costs(*costs)


def _seconds(model: LanguageModel, experiment: Experiment) -> tuple[float, float]:
    """Without nodes, and with them; in turns, so that a slow moment of the machine meets both."""
    shared, plain = _batches(model.vocab_size, experiment)
    _answer(model, shared, experiment.steps)
    runs = [(_answer(model, plain, experiment.steps), _answer(model, shared, experiment.steps)) for _ in range(_RUNS)]
    return min(run[0] for run in runs), min(run[1] for run in runs)


def _batches(vocab_size: int, experiment: Experiment) -> tuple[Batch, Batch]:
    numbers = random.Random(0)  # noqa: S311 - nothing secret

    def ids(count: int) -> tuple[int, ...]:
        return tuple(numbers.randrange(vocab_size) for _ in range(count))

    nodes = [ids(experiment.shared) for _ in range(_NODES)]
    rows = [nodes[place * _NODES // experiment.rows] + ids(experiment.own) for place in range(experiment.rows)]
    shared = tuple(Prompt(place, "", row, (experiment.shared,)) for place, row in enumerate(rows))
    plain = tuple(replace(prompt, cuts=()) for prompt in shared)
    return Batch("", 0, 0, 1, (), shared), Batch("", 0, 0, 1, (), plain)


def _answer(model: LanguageModel, batch: Batch, steps: int) -> float:
    """By an engine that remembers nothing, so that nodes are computed each time."""
    engine = Engine(model, PrefixStore(0), str)
    started = time.perf_counter()
    engine.answer(batch, Generate(1 + steps))
    return time.perf_counter() - started
