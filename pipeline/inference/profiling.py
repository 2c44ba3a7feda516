"""Where an engine's time goes: batches answered once as they are, for the rates, and once under torch's profiler."""

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch.profiler import ProfilerActivity

from pipeline.constraints import Constraints
from pipeline.inference.engine import Engine
from pipeline.inference.matrix_rate import Product, finish, large_rate, matrix_rate
from pipeline.inference.model import LanguageModel
from pipeline.inference.parts import Part, marked
from pipeline.inference.prefix_store import PrefixStore
from pipeline.inference.stopping import Decoder
from pipeline.rows import Asked, Batch, Choose, Completion, Task, task_of

_BY_NAME = {part.value: part for part in Part}


@dataclass(frozen=True, slots=True)
class Profile:
    """Shares are of the pass under the profiler, which slows it; all else is of the pass without."""

    shares: Mapping[str, float]  #: of the time, by part; together 1
    profiled_s: float
    seconds: float
    computed_tokens: int  #: of prompts
    output_tokens: int
    operations: int  #: of matrix products and attention
    model_rate: float  #: operations a second in matrix products of the model's own sizes, measured here and now
    large_rate: float  #: in one large square product

    @property
    def tokens(self) -> int:
        return self.computed_tokens + self.output_tokens

    @property
    def rate(self) -> float:
        return self.operations / self.seconds


def profile(
    model: LanguageModel,
    batches: Sequence[Batch],
    task: Asked,
    decode: Decoder,
    prefix_bytes: int,
    constraints: Constraints | None = None,
) -> Profile:
    """Takes two passes over the batches and a bit; each computes the shared prefixes anew."""

    def fresh(of: LanguageModel) -> Engine:
        return Engine(of, PrefixStore(prefix_bytes), decode, constraints=constraints)

    _answer(fresh(model), model.device, batches[:1], task)
    seconds, completions, computed = _answer(fresh(model), model.device, batches, task)
    with marked(model) as (named, products), _recorder(model.device) as recorder:
        profiled_s, *_ = _answer(fresh(named), model.device, batches, task)
    by_part = _seconds_by_part(recorder.events(), model)
    whole = max(profiled_s, sum(by_part.values()))
    shares = {part.value: by_part[part] / whole for part in Part if part in by_part}
    return Profile(
        shares=shares | {Part.OVERHEAD.value: 1 - sum(shares.values())},
        profiled_s=profiled_s,
        seconds=seconds,
        computed_tokens=computed,
        output_tokens=sum(completion.output_tokens for completion in completions),
        operations=_matrix_operations(products) + attention_operations(model, batches, task, completions),
        model_rate=matrix_rate(products, model.device, model.shape.dtype),
        large_rate=large_rate(model.device, model.shape.dtype),
    )


def attention_operations(
    model: LanguageModel, batches: Sequence[Batch], task: Asked, completions: Sequence[Completion]
) -> int:
    """Of every token with every key up to its own; what is shared counts once, and windows are not subtracted."""
    seen: set[tuple[int, ...]] = set()
    pairs = 0
    for batch in batches:
        for prompt in batch.prompts:
            token_ids = batch.prefix + prompt.own_ids
            ends = [0, *(len(batch.prefix) + cut for cut in (0, *prompt.cuts))]
            nodes = {token_ids[:end]: _pairs(start, end) for start, end in pairwise(ends)}
            pairs += sum(n for node, n in nodes.items() if node not in seen) + _pairs(ends[-1], len(token_ids))
            seen |= nodes.keys()
    for completion in completions:
        for tokens in _answer_tokens(task_of(task, completion.row_id), completion):
            pairs += _pairs(completion.prompt_tokens, completion.prompt_tokens + tokens - 1)
    heads: int = model.network.config.num_attention_heads
    return 4 * heads * model.shape.dim * model.shape.layers * pairs


def _pairs(start: int, end: int) -> int:
    """Of the tokens at these positions with the keys that each sees."""
    return (end * (end + 1) - start * (start + 1)) // 2 if end > start else 0


def _answer_tokens(task: Task, completion: Completion) -> list[int]:
    """Of each of its answers, or of each label. The last one is never computed."""
    if isinstance(task, Choose):
        return [len(label) for label in task.label_ids]
    return [sample.output_tokens for sample in completion.samples] or [completion.output_tokens]


def _matrix_operations(products: Counter[Product]) -> int:
    return sum(product.operations * times for product, times in products.items())


def _answer(
    engine: Engine, device: torch.device, batches: Sequence[Batch], task: Asked
) -> tuple[float, list[Completion], int]:
    """Seconds, the completions, and how many prompt tokens were computed, by an engine that has seen no prefix yet."""
    finish(device)
    started = time.perf_counter()
    outcomes = [engine.answer(batch, task) for batch in batches]
    finish(device)
    seconds = time.perf_counter() - started
    completions = [completion for answered, _ in outcomes for completion in answered]
    return seconds, completions, sum(timing.computed_tokens for _, timing in outcomes)


def _recorder(device: torch.device) -> Any:
    # Otherwise the profiler's library writes two lines to standard error, whoever reads that.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    return torch.profiler.profile(activities=activities, record_shapes=True)


def _seconds_by_part(events: Sequence[Any], model: LanguageModel) -> dict[Part, float]:
    """Of the operations themselves, on the device that computes them; what lies between them is nobody's."""
    seconds: dict[Part, float] = {}
    for event in events:
        if event.device_type.name == "CPU" and not event.is_user_annotation:
            on_cpu = model.device.type == "cpu"
            spent = event.self_cpu_time_total if on_cpu else event.self_device_time_total
            part = _part(event, model.vocab_size)
            seconds[part] = seconds.get(part, 0.0) + spent / 1e6
    return seconds


def _part(event: Any, vocab_size: int) -> Part:
    """Outside of the model whatever touches logits is sampling, and the rest prepares forwards."""
    chain = list(_chain(event))
    for link in chain:
        if link.is_user_annotation and link.name in _BY_NAME:
            return _BY_NAME[link.name]
    touches = any(shape[-1:] == [vocab_size] for link in chain for shape in link.input_shapes)
    return Part.SAMPLING if touches else Part.PREPARING


def _chain(event: Any) -> Iterator[Any]:
    while event is not None:
        yield event
        event = event.cpu_parent
