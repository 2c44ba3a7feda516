"""How fast this device reads and writes with this model, at a few sizes, and multiplies matrices beside it."""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.inference.engine import Engine
from pipeline.inference.matrix_rate import finish, large_rate, matrix_rate
from pipeline.inference.model import LanguageModel
from pipeline.inference.parts import marked
from pipeline.inference.prefix_store import PrefixStore
from pipeline.rows import Batch, Generate, Prompt

#: Rows, and prompt tokens of each: one long text, a few paragraphs, many short lines.
SIZES = ((1, 512), (16, 64), (64, 16))
#: Tokens are decoded behind short prompts, beside which their own time is plain to see.
_SHORT, _NEW_TOKENS = 4, 8
_RUNS = 2


@dataclass(frozen=True, slots=True)
class SpeedAt:
    """Tokens a second over all rows of one batch that share nothing."""

    rows: int
    prompt_tokens: int  #: of each row
    prefill: float
    decode: float  #: behind short prompts


@dataclass(frozen=True, slots=True)
class Speed:
    sizes: tuple[SpeedAt, ...]
    model_rate: float  #: operations a second in the matrix products of these prompts
    large_rate: float  #: in one large square product


def measure_speed(model: LanguageModel, sizes: Sequence[tuple[int, int]] = SIZES) -> Speed:
    """The best of a few runs at each size; half a minute with a small model on two cores."""
    endless = replace(model, stop_ids=frozenset())
    longest = model.context - 1
    sizes = [(rows, min(tokens, longest)) for rows, tokens in sizes]
    with marked(endless) as (counted, products):
        for rows, tokens in sizes:
            _seconds(counted, rows, tokens, 1)
    device, dtype = model.device, model.shape.dtype
    measured = tuple(_measure(endless, rows, tokens) for rows, tokens in sizes)
    return Speed(measured, matrix_rate(products, device, dtype), large_rate(device, dtype))


def _measure(model: LanguageModel, rows: int, tokens: int) -> SpeedAt:
    prefill = min(_seconds(model, rows, tokens, 1) for _ in range(_RUNS))
    runs = [(_seconds(model, rows, _SHORT, 1), _seconds(model, rows, _SHORT, 1 + _NEW_TOKENS)) for _ in range(_RUNS)]
    first, whole = (min(run[place] for run in runs) for place in (0, 1))
    # Where the machine was too busy to tell them apart, all of it counts: rather too slow than too fast.
    decode = whole - first if whole > first else whole
    return SpeedAt(rows, tokens, rows * tokens / prefill, rows * _NEW_TOKENS / decode)


def _seconds(model: LanguageModel, rows: int, tokens: int, new_tokens: int) -> float:
    numbers = random.Random(0)  # noqa: S311 - nothing secret
    ids = [tuple(numbers.randrange(model.vocab_size) for _ in range(tokens)) for _ in range(rows)]
    batch = Batch("", 0, 0, 1, (), tuple(Prompt(place, "", row) for place, row in enumerate(ids)))
    engine = Engine(model, PrefixStore(0), str)
    started = time.perf_counter()
    engine.answer(batch, Generate(new_tokens))
    finish(model.device)
    return time.perf_counter() - started
