"""Inside stage 5: the attention function that transformers calls in every layer, over rows packed end to end.

A forward carries one `Packed` plan through the model's keyword arguments, the same for all layers. Queries, keys and
values of a forward are [1, heads, tokens, dim], where the tokens of all rows lie one after the other:

    rows      |  row 0  | row 1 |   row 2    |      tokens of a row: its own ones, after
    tokens    0         a       b            T      the shared prefix that is stored once
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

from pipeline.inference.kernels import Kernel, merge
from pipeline.inference.lanes import Lanes
from pipeline.inference.padding import Padding

NAME = "pipeline_packed"


class Packed(Protocol):
    """How the tokens of one forward attend: to what came before them, and to each other."""

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        """q, k, v [1, heads, tokens, dim] -> [1, heads, tokens, dim]; keeps k and v where they are needed later."""
        ...


@dataclass(frozen=True, slots=True)
class Prefill:
    """Whole rows at once. `lanes` keeps their keys and values from lane `first_lane` on; None keeps nothing."""

    kernel: Kernel
    padding: Padding
    prefix: Lanes | None
    lanes: Lanes | None
    first_lane: int = 0

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        keys, values = self.padding.pad(k), self.padding.pad(v)
        if self.lanes is not None:
            self.lanes.write(layer, self.first_lane, keys, values)
        own, own_lse = self.kernel(self.padding.pad(q), keys, values, scale=scale, causal=True)
        return _after_prefix(self, layer, q, self.padding.unpad(own), self.padding.unpad(own_lse), scale)


@dataclass(frozen=True, slots=True)
class Decode:
    """One new token for each of the first `len(lengths)` lanes. `mask` [rows, 1, 1, longest] hides unused room."""

    kernel: Kernel
    prefix: Lanes | None
    lanes: Lanes
    lengths: Tensor  #: [rows], tokens in each lane before this one
    mask: Tensor

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        self.lanes.append(layer, self.lengths, k[0].transpose(0, 1), v[0].transpose(0, 1))
        keys, values = self.lanes.read(layer, len(self.lengths), self.mask.shape[-1])
        own, own_lse = self.kernel(q.transpose(0, 2), keys, values, scale=scale, mask=self.mask)
        return _after_prefix(self, layer, q, own.transpose(0, 2), own_lse.transpose(0, 2), scale)


@dataclass(frozen=True, slots=True)
class Branch:
    """Several continuations of each row, all reading the row's keys and values in `lanes`, none copying them."""

    kernel: Kernel
    by_row: Padding  #: all continuations of a row are one stretch of queries
    by_branch: Padding
    prefix: Lanes | None
    lanes: Lanes
    first_lane: int
    mask: Tensor  #: [rows, 1, 1, longest], hides what is beyond a row's end

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        own, own_lse = self.kernel(
            self.by_branch.pad(q), self.by_branch.pad(k), self.by_branch.pad(v), scale=scale, causal=True
        )
        keys, values = self.lanes.read(layer, self.mask.shape[0], self.mask.shape[-1], self.first_lane)
        row, row_lse = self.kernel(self.by_row.pad(q), keys, values, scale=scale, mask=self.mask)
        out, lse = merge(
            (self.by_row.unpad(row), self.by_row.unpad(row_lse)),
            (self.by_branch.unpad(own), self.by_branch.unpad(own_lse)),
        )
        return _after_prefix(self, layer, q, out, lse, scale)


def _after_prefix(
    packed: Prefill | Decode | Branch, layer: int, q: Tensor, out: Tensor, lse: Tensor, scale: float
) -> Tensor:
    if packed.prefix is None:
        return out
    keys, values = packed.prefix.read(layer, 1, packed.prefix.capacity)
    return merge(packed.kernel(q, keys, values, scale=scale), (out, lse))[0]


def attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    *,
    packed: Packed,
    **_: Any,
) -> tuple[Tensor, None]:
    """The signature that transformers' AttentionInterface asks for; returns [1, tokens, heads, dim]."""
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer = module.layer_idx
    assert isinstance(layer, int)
    return packed.attend(layer, query, key, value, scale).transpose(1, 2), None


def _no_mask(*_: Any, **__: Any) -> None:
    """A packed forward needs no mask of the model's making."""


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, _no_mask)
