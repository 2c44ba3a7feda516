"""Where keys and values live: a fixed number of lanes, one row each, all layers alike. A prefix is one full lane."""

from collections.abc import Sequence
from dataclasses import dataclass

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
        self._keys = [self._room(capacity) for _ in range(shape.layers)]
        self._values = [self._room(capacity) for _ in range(shape.layers)]

    @property
    def nbytes(self) -> int:
        return self.count * self.capacity * self._shape.bytes_per_token()

    def write(self, layer: int, first: int, keys: Tensor, values: Tensor) -> None:
        """keys, values [rows, kv_heads, tokens, dim] become the beginning of lanes first..first+rows."""
        rows, _, tokens, _ = keys.shape
        self._keys[layer][first : first + rows, :, :tokens] = keys
        self._values[layer][first : first + rows, :, :tokens] = values

    def append(self, layer: int, lengths: Tensor, keys: Tensor, values: Tensor) -> None:
        """keys, values [rows, kv_heads, dim] go to place lengths[i] of lane i."""
        lane = torch.arange(len(lengths), device=lengths.device)
        self._keys[layer][lane, :, lengths] = keys
        self._values[layer][lane, :, lengths] = values

    def read(self, layer: int, rows: int, tokens: int, first: int = 0) -> tuple[Tensor, Tensor]:
        """Views of the first `tokens` places of lanes first..first+rows."""
        lanes = slice(first, first + rows)
        return self._keys[layer][lanes, :, :tokens], self._values[layer][lanes, :, :tokens]

    def take(self, lane: int, tokens: int) -> "Lanes":
        """A copy of the lane's first `tokens` places, as one full lane of its own."""
        taken = Lanes(self._shape, 1, tokens)
        for layer in range(self._shape.layers):
            keys, values = self.read(layer, 1, tokens, lane)
            taken.write(layer, 0, keys, values)
        return taken

    def move(self, source: int, target: int) -> None:
        """A finished row's lane is taken by another row's keys and values."""
        for block in (*self._keys, *self._values):
            block[target] = block[source]

    def grow(self, capacity: int) -> None:
        """Room for rows that go on longer than was allotted."""
        more = capacity - self.capacity
        self._keys = [torch.cat([block, self._room(more)], 2) for block in self._keys]
        self._values = [torch.cat([block, self._room(more)], 2) for block in self._values]
        self.capacity = capacity

    @classmethod
    def stack(cls, parts: Sequence["Lanes"]) -> "Lanes":
        """Several full lanes beside each other, the shorter ones with unused room, and an empty lane behind them."""
        shape = parts[0]._shape
        stacked = cls(shape, len(parts) + 1, max(part.capacity for part in parts))
        for lane, part in enumerate(parts):
            for layer in range(shape.layers):
                keys, values = part.read(layer, 1, part.capacity)
                stacked.write(layer, lane, keys, values)
        return stacked

    def _room(self, capacity: int) -> Tensor:
        s = self._shape
        return torch.zeros(self.count, s.kv_heads, capacity, s.dim, dtype=s.dtype, device=s.device)
