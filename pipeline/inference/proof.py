"""Before a model's first batch: its packed logits against its plain ones, so that a family unforeseen is found out."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pipeline.errors import ModelError
from pipeline.inference import attention
from pipeline.inference.attention import Decode
from pipeline.inference.forward import forward, prefill
from pipeline.inference.lanes import Lanes
from pipeline.inference.long_rope import every_row_long
from pipeline.inference.model import LanguageModel
from pipeline.inference.padded import padded_states
from pipeline.inference.stem import Node, Stem

#: Largest difference, as a share of the largest logit.
_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float16: 1e-2}
_TOKENS = 5
#: Shorter than prefix and row together, longer than the row.
_WINDOW = 7
#: Places in a lane that no row fills, which must not be seen.
_ROOM = 3


@torch.inference_mode()
def prove(model: LanguageModel) -> None:
    """Two short rows after a shared prefix, packed, against each alone through transformers' own attention.

    Their last tokens are decoded, those before them prefilled. Raises ModelError where the logits differ.
    """
    kind, bound, windows = model.network.config.model_type, _TOLERANCE[model.shape.dtype], _windows(model)
    with _narrowed(windows):
        difference = _largest_difference(model)
    if difference <= bound:
        return
    if windows and _largest_difference(model) <= bound:
        raise ModelError(
            f"Models of type {kind} cannot be answered exactly where layers see a window of tokens only, "
            f"{min(window for _, window in windows)} in this one: beyond it packed logits would differ from the plain "
            f"model's by {difference:.1%}. Llama, Qwen 3 and Gemma models work."
        )
    raise ModelError(
        f"Models of type {kind} cannot be answered exactly with shared prefixes: "
        f"packed logits differ from the plain model's by {difference:.1%}. Llama, Qwen and GPT-2 models work"
        f"{'' if model.shape.dtype == torch.float32 else ', and this one may with --dtype float32'}."
    )


@torch.inference_mode()
def prove_padding(model: LanguageModel) -> None:
    """A short row padded beside a long one, against each alone. Raises ModelError where their states differ."""
    numbers = torch.Generator().manual_seed(0)
    long, short = torch.randint(model.vocab_size, (2, 2 * _TOKENS), generator=numbers).tolist()
    rows = [long, short[:_TOKENS]]
    alone = torch.cat([states for row in rows for states in padded_states(model, [row])])
    _require_numbers(model, alone)
    difference = ((torch.cat(padded_states(model, rows)) - alone).abs().max() / alone.abs().max()).item()
    if not difference <= _TOLERANCE[model.shape.dtype]:
        raise ModelError(
            f"Models of type {model.network.config.model_type} cannot embed texts of different lengths together: "
            f"padding changes their states by {difference:.1%}. BERT, RoBERTa and MPNet models work."
        )


def _largest_difference(model: LanguageModel) -> float:
    """Of short rows, and of long ones where they are read otherwise."""
    short = _difference(model)
    if model.short_context == model.context:
        return short
    return float(torch.tensor([short, _difference(replace(model, stretched=True))]).max())


def _difference(model: LanguageModel) -> float:
    """The largest, as a share of the largest logit."""
    numbers = torch.Generator().manual_seed(0)
    prefix, *rows = torch.randint(model.vocab_size, (3, _TOKENS), generator=numbers).tolist()
    ours = _packed(model, prefix, rows)
    model.network.set_attn_implementation("eager")
    whole = torch.tensor([[*prefix, *row] for row in rows], device=model.device)
    with every_row_long(model.network) if model.stretched else contextlib.nullcontext():
        plain = _generated(model.network, whole)
    model.network.set_attn_implementation(attention.registered())
    _require_numbers(model, plain)
    return float((ours - plain).abs().max() / plain.abs().max())


def _generated(network: Any, token_ids: Tensor) -> Tensor:
    """token_ids [rows, tokens] -> fp32 logits [rows, 2, vocab] after the last two, as `generate` computes them: with a
    cache, which holds no more than a window where a configuration names one."""
    before = network(input_ids=token_ids[:, :-1], use_cache=True, logits_to_keep=1)
    cache = getattr(before, "cache", None)
    last = network(input_ids=token_ids if cache is None else token_ids[:, -1:], cache=cache, logits_to_keep=1)
    return torch.cat([before.logits, last.logits], 1).float()


def _require_numbers(model: LanguageModel, plain: Tensor) -> None:
    """Of what the model computes by itself."""
    if not plain.isfinite().all():
        dtype = str(model.shape.dtype).removeprefix("torch.")
        raise ModelError(
            f"What the model computes in {dtype} is not a number: its weights are damaged"
            + (". Get its files anew." if dtype == "float32" else f", or too large for {dtype}. Try --dtype float32.")
        )


def _windows(model: LanguageModel) -> list[tuple[Any, int]]:
    """The layers and configurations that name a window, with it; none where it holds all that the model does."""
    parts = [part for module in model.network.modules() for part in (module, getattr(module, "config", None))]
    distinct = {id(part): part for part in parts}.values()
    windows = [(part, getattr(part, "sliding_window", None) or 0) for part in distinct]
    return [(part, window) for part, window in windows if 0 < window < model.context]


@contextlib.contextmanager
def _narrowed(windows: Sequence[tuple[Any, int]]) -> Iterator[None]:
    """For no row of a proof is as long as windows are, and some families keep theirs in a mask, which is not ours."""
    for part, _ in windows:
        part.sliding_window = _WINDOW
    try:
        yield
    finally:
        for part, window in windows:
            part.sliding_window = window


def _packed(model: LanguageModel, prefix: Sequence[int], rows: Sequence[Sequence[int]]) -> Tensor:
    """Logits [rows, 2, vocab] after the last tokens of each row."""
    kept, lanes = Lanes(model.shape, 1, _TOKENS), Lanes(model.shape, len(rows), _TOKENS + _ROOM)
    prefill(model, Stem([()], model.device), [0], [prefix], kept)
    stem, places = Stem([(Node(0, kept),)] * len(rows), model.device), range(len(rows))
    prefilled = prefill(model, stem, places, [row[:-1] for row in rows], lanes)
    last = torch.full((len(rows),), _TOKENS - 1, device=model.device)
    decoded = forward(
        model,
        token_ids=torch.tensor([row[-1] for row in rows], device=model.device),
        positions=_TOKENS + last,
        keep=0,
        levels=stem.levels(places, [1] * len(rows)),
        own=[Decode(model.decode_kernel, lanes, last, last + 1, _TOKENS)],
    )
    return torch.stack([prefilled, decoded], 1)
