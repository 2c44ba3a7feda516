"""How much of what the machine's matrix multiplication can do a run has used: its arithmetic over measured rates."""

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import small_model
import torch
from torch import Tensor
from torch.nn.functional import linear
from workloads import Workload

BODY_TOKENS, HEAD_TOKENS = 1024, 256
_ROUNDS = 3


class Work(NamedTuple):
    """Operations that a workload cannot do without: each prefix token once, logits where a token is drawn."""

    body: int
    attention: int
    head: int


class Rates(NamedTuple):
    """Operations a second over the model's own shapes."""

    body: float
    head: float


def ideal_seconds(work: Work, rates: Rates) -> float:
    """Attention is counted at the body's rate."""
    return (work.body + work.attention) / rates.body + work.head / rates.head


def count(directory: Path, workload: Workload) -> Work:
    """The last token that is drawn is never read."""
    body, head = _matrices(directory)
    config = json.loads((directory / "config.json").read_text())
    prefix, drawn = len(workload.prefix), workload.new_tokens
    ends = [prefix + len(row) + drawn - 1 for row in workload.rows]
    tokens = prefix + sum(end - prefix for end in ends)
    # A token at position p reads p + 1 keys and as many values.
    reads = _triangle(prefix) + sum(_triangle(end) - _triangle(prefix) for end in ends)
    heads = config["num_hidden_layers"] * config["num_attention_heads"] * config["head_dim"]
    return Work(
        body=2 * tokens * sum(out * width for out, width in body),
        attention=4 * reads * heads,
        head=2 * len(workload.rows) * drawn * head[0] * head[1],
    )


@torch.inference_mode()
def measure(directory: Path) -> Rates:
    """The faster of torch's own multiplication and of weights laid out for oneDNN beforehand."""
    body, head = _matrices(directory)
    return Rates(_rate(body, BODY_TOKENS), _rate([head], HEAD_TOKENS))


def _matrices(directory: Path) -> tuple[list[tuple[int, int]], tuple[int, int]]:
    """Of the layers, and of the head, which is the embedding where the two are tied."""
    shapes = small_model.matrices(directory)
    embedding = shapes.pop("model.embed_tokens.weight")
    head = shapes.pop("lm_head.weight", embedding)
    return list(shapes.values()), head


def _triangle(n: int) -> int:
    return n * (n + 1) // 2


def _rate(shapes: Iterable[tuple[int, int]], tokens: int) -> float:
    pairs = [(torch.randn(tokens, width), torch.randn(out, width)) for out, width in shapes]
    operations = sum(2 * tokens * weight.numel() for _, weight in pairs)
    ways = [_plain(pairs), _laid_out(pairs)] if torch._C._has_mkldnn else [_plain(pairs)]
    return operations / min(_seconds(way) for way in ways for _ in range(_ROUNDS))


def _plain(pairs: list[tuple[Tensor, Tensor]]) -> Callable[[], None]:
    def run() -> None:
        for x, weight in pairs:
            linear(x, weight)

    return run


def _laid_out(pairs: list[tuple[Tensor, Tensor]]) -> Callable[[], None]:
    ready = [(x, torch.ops.mkldnn._reorder_linear_weight(weight, None)) for x, weight in pairs]

    def run() -> None:
        for x, weight in ready:
            torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")

    return run


def _seconds(run: Callable[[], None]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
