"""Where keys and values live: a fixed number of lanes, one row each, all layers alike. A prefix is one full lane."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class LaneShape:
    """What a model's keys and values look like, a layer at a time."""

    layers: int
    kv_heads: int
    dim: int
    dtype: torch.dtype
    device: torch.device

    def bytes_per_token(self) -> int:
        """Keys and values of one token in all layers."""
        return 2 * self.layers * self.kv_heads * self.dim * self.dtype.itemsize


class Lanes:
    """Keys and values [lanes, kv_heads, capacity, dim] a layer. Unused room is zero, never uninitialised."""

    def __init__(self, shape: LaneShape, lanes: int, capacity: int) -> None:
        self._shape = shape
        self.count, self.capacity = lanes, capacity
        self._lane = torch.arange(lanes, device=shape.device)
        self._keys = [self._room() for _ in range(shape.layers)]
        self._values = [self._room() for _ in range(shape.layers)]

    @property
    def device(self) -> torch.device:
        return self._shape.device

    @property
    def nbytes(self) -> int:
        return self.count * self.capacity * self._shape.bytes_per_token()

    def write(self, layer: int, first: int, keys: Tensor, values: Tensor, start: int = 0) -> None:
        """keys, values [rows, kv_heads, tokens, dim] go to lanes first..first+rows, from place `start` on."""
        rows, _, tokens, _ = keys.shape
        self._keys[layer][first : first + rows, :, start : start + tokens] = keys
        self._values[layer][first : first + rows, :, start : start + tokens] = values

    def append(self, layer: int, places: Tensor, keys: Tensor, values: Tensor) -> None:
        """keys, values [rows, kv_heads, dim] go to place places[i] of lane i."""
        lane = self._lane[: len(places)]
        self._keys[layer][lane, :, places] = keys
        self._values[layer][lane, :, places] = values

    def put(self, layer: int, lanes: Tensor, places: Tensor, keys: Tensor, values: Tensor) -> None:
        """keys, values [tokens, kv_heads, dim] go to place places[i] of lane lanes[i]."""
        self._keys[layer][lanes, :, places] = keys
        self._values[layer][lanes, :, places] = values

    def copies(self, layer: int, lanes: Tensor, tokens: int) -> tuple[Tensor, Tensor]:
        """The first `tokens` places of these lanes, as `read` has them, but copied."""
        return self._keys[layer][lanes, :, :tokens], self._values[layer][lanes, :, :tokens]

    def read(self, layer: int, rows: int, tokens: int, first: int = 0) -> tuple[Tensor, Tensor]:
        """Views of the first `tokens` places of lanes first..first+rows."""
        lanes = slice(first, first + rows)
        return self._keys[layer][lanes, :, :tokens], self._values[layer][lanes, :, :tokens]

    def take(self, lane: int, tokens: int) -> "Lanes":
        """The lane's first `tokens` places as one full lane of its own: a copy, or itself where that is all."""
        if (self.count, self.capacity) == (1, tokens):
            return self
        taken = Lanes(self._shape, 1, tokens)
        for layer in range(self._shape.layers):
            keys, values = self.read(layer, 1, tokens, lane)
            taken.write(layer, 0, keys, values)
        return taken

    def move(self, source: int, target: int, tokens: int) -> None:
        """The first `tokens` places of a lane take those of another, whose row has finished."""
        for block in (*self._keys, *self._values):
            block[target, :, :tokens] = block[source, :, :tokens]

    def clear(self, lane: int) -> None:
        """For a row that left numbers behind which are not finite: even unseen they would spoil the next one's."""
        for block in (*self._keys, *self._values):
            block[lane] = 0

    @classmethod
    def stack(cls, parts: Sequence["Lanes"]) -> "Lanes":
        """Several full lanes beside each other, the shorter ones with unused room."""
        shape = parts[0]._shape
        stacked = cls(shape, len(parts), max(part.capacity for part in parts))
        for lane, part in enumerate(parts):
            for layer in range(shape.layers):
                keys, values = part.read(layer, 1, part.capacity)
                stacked.write(layer, lane, keys, values)
        return stacked

    def to(self, device: torch.device) -> "Lanes":
        """Itself where it is there, otherwise a copy."""
        if device == self._shape.device:
            return self
        copy = Lanes(replace(self._shape, device=device), self.count, self.capacity)
        for layer in range(self._shape.layers):
            copy.write(layer, 0, *self.read(layer, self.count, self.capacity))
        return copy

    def _room(self) -> Tensor:
        s = self._shape
        return torch.zeros(self.count, s.kv_heads, self.capacity, s.dim, dtype=s.dtype, device=s.device)
