"""Inside stage 5: the attention function that transformers calls in every layer, over rows packed end to end.

A forward carries one `Packed` plan through the model's keyword arguments, the same for all layers. Queries, keys and
values of a forward are [1, heads, tokens, dim], where the tokens of all rows lie one after the other:

    rows      |  row 0  | row 1 |   row 2    |      tokens of a row: its own ones, behind
    tokens    0         a       b            T      what is stored of it and shared, in levels
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, Protocol

import torch
from torch import Tensor

from pipeline.inference.kernels.kernel import DecodeKernel, Kernel, Part
from pipeline.inference.kernels.merge import merge, with_sink
from pipeline.inference.lanes import Lanes
from pipeline.inference.masks import window_mask
from pipeline.inference.padding import Padding


@dataclass(frozen=True, slots=True)
class LayerRule:
    """What one layer of one family asks of attention."""

    scale: float
    window: int | None = None  #: a token sees itself and so many less one before it
    softcap: float | None = None
    sinks: Tensor | None = None  #: [heads], a score that takes part and has no value


class Own(Protocol):
    """Some rows' own tokens: how they see each other, and where their keys and values are kept."""

    @property
    def tokens(self) -> int:
        """How many of the forward's."""

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, rule: LayerRule) -> Part: ...


@dataclass(frozen=True, slots=True)
class Level:
    """Keys and values computed before. Each lane is read by some of the forward's tokens."""

    lanes: Lanes
    first_lane: int
    starts: Tensor  #: [lanes], position of each lane's first key
    longest: int  #: keys in a lane at most
    readers: Padding | None  #: of the tokens that read, lane by lane; None: all read the one lane
    tokens: Tensor | None  #: [readers], those tokens' places in the forward, ascending
    mask: Tensor | None  #: [lanes, 1, 1, longest], hides what is beyond a lane's end

    def attend(self, kernel: Kernel, layer: int, q: Tensor, positions: Tensor, rule: LayerRule) -> Part:
        """`positions` [tokens] are those of the queries."""
        keys, values = self.lanes.read(layer, len(self.starts), self.longest, self.first_lane)
        if self.readers is None or self.tokens is None:
            mask = self._mask(positions[None], rule.window)
            return kernel(q, keys, values, scale=rule.scale, mask=mask, softcap=rule.softcap)
        mask = self._mask(self.readers.pad(positions[None, None, :, None])[:, 0, :, 0], rule.window)
        out, lse = kernel(self.readers.pad(q), keys, values, scale=rule.scale, mask=mask, softcap=rule.softcap)
        return _spread((self.readers.unpad(out), self.readers.unpad(lse)), self.tokens, q)

    def _mask(self, queries: Tensor, window: int | None) -> Tensor | None:
        """queries [lanes, longest stretch]"""
        if window is None:
            return self.mask
        place = torch.arange(self.longest, device=queries.device)
        within = window_mask(queries, self.starts[:, None] + place, window)
        return within if self.mask is None else within + self.mask


@dataclass(frozen=True, slots=True)
class Prefill:
    """Rows at once. `lanes` keeps their keys and values from lane `first_lane` on; None keeps nothing."""

    kernel: Kernel
    padding: Padding
    lanes: Lanes | None = None
    first_lane: int = 0
    start: int = 0  #: where in its lane each row's first token goes

    @property
    def tokens(self) -> int:
        return self.padding.tokens

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, rule: LayerRule) -> Part:
        keys, values = self.padding.pad(k), self.padding.pad(v)
        if self.lanes is not None:
            self.lanes.write(layer, self.first_lane, keys, values, self.start)
        mask = None
        if rule.window is not None and rule.window < self.padding.longest:
            place = torch.arange(self.padding.longest, device=q.device)[None]
            mask = window_mask(place, place, rule.window)
        out, lse = self.kernel(
            self.padding.pad(q), keys, values, scale=rule.scale, causal=True, mask=mask, softcap=rule.softcap
        )
        return self.padding.unpad(out), self.padding.unpad(lse)


@dataclass(frozen=True, slots=True)
class Decode:
    """One new token for each of the first `len(lengths)` lanes."""

    kernel: DecodeKernel
    lanes: Lanes
    places: Tensor  #: [rows], where in its lane each row's new token goes
    lengths: Tensor  #: [rows], tokens in each lane then
    longest: int  #: at least the largest of the lengths

    @property
    def tokens(self) -> int:
        return len(self.lengths)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, rule: LayerRule) -> Part:
        self.lanes.append(layer, self.places, k[0].transpose(0, 1), v[0].transpose(0, 1))
        keys, values = self.lanes.read(layer, self.tokens, self.lanes.capacity)
        out, lse = self.kernel(
            q.transpose(0, 2),
            keys,
            values,
            self.lengths,
            scale=rule.scale,
            longest=self.longest,
            window=rule.window,
            softcap=rule.softcap,
        )
        return out.transpose(0, 2), lse.transpose(0, 2)


@dataclass(frozen=True, slots=True)
class Packed:
    """How the tokens of one forward attend: to what came before them, level by level, and to each other."""

    kernel: Kernel
    positions: Tensor  #: [tokens]
    levels: Sequence[Level]
    own: Sequence[Own]  #: of all tokens, in their order

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, rule: LayerRule) -> Tensor:
        """q, k, v [1, heads, tokens, dim] -> [1, heads, tokens, dim]"""
        parts = [level.attend(self.kernel, layer, q, self.positions, rule) for level in self.levels]
        whole = reduce(merge, parts, self._own(layer, q, k, v, rule))
        return whole[0] if rule.sinks is None else with_sink(whole, rule.sinks)

    def _own(self, layer: int, q: Tensor, k: Tensor, v: Tensor, rule: LayerRule) -> Part:
        sizes = [own.tokens for own in self.own]
        pieces = zip(self.own, *(torch.split(tensor, sizes, 2) for tensor in (q, k, v)), strict=True)
        outs, lses = zip(*(own.attend(layer, *qkv, rule) for own, *qkv in pieces), strict=True)
        return torch.cat(outs, 2), torch.cat(lses, 2)


def _spread(part: Part, tokens: Tensor, q: Tensor) -> Part:
    """What some tokens see, among all queries of a forward, of which the others see nothing."""
    if len(tokens) == q.shape[2]:
        return part
    out, lse = part
    blind = lse.new_full(q.shape[:3], float("-inf"))
    return torch.zeros_like(q).index_copy_(2, tokens, out), blind.index_copy_(2, tokens, lse)


def attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    *,
    packed: Packed,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """The signature that transformers' AttentionInterface asks for; returns [1, tokens, heads, dim]."""
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer = module.layer_idx
    assert isinstance(layer, int)
    rule = LayerRule(scale, sliding_window, softcap, s_aux)
    return packed.attend(layer, query, key, value, rule).transpose(1, 2), None


@cache
def registered() -> str:
    """The name by which transformers' models find `attend`. To import them takes long, so the first one does it."""
    from transformers import AttentionInterface

    # No mask function beside it tells transformers to make no mask, and to look for no packed rows.
    name = "pipeline_packed"
    AttentionInterface.register(name, attend)
    return name
