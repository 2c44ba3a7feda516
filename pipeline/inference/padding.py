"""Packed tokens to a padded block and back, for kernels that want one sequence a row."""

from collections.abc import Sequence

import torch
from torch import Tensor

_SHORTEST_CLASS = 32


class Padding:
    """Index tensors for rows of `lengths` tokens, built once for all layers of a forward.

    With `order`, row 0 is made of the tokens order[0], order[1] ... wherever they lie, then row 1, and so on. A padded
    place repeats a token, so that it stays finite; causality or a mask hides it, or nobody reads it.
    """

    def __init__(
        self, lengths: Sequence[int], device: torch.device, order: Tensor | None = None, longest: int | None = None
    ) -> None:
        """Rows are padded to the longest of them, or to `longest`."""
        counts = torch.tensor(lengths, device=device)
        self.rows, self.tokens, self.longest = len(lengths), sum(lengths), longest or max(lengths)
        starts = counts.cumsum(0) - counts
        place = torch.arange(self.longest, device=device)
        within = torch.minimum(place, (counts[:, None] - 1).clamp(min=0))
        self._padded = (starts[:, None] + within).flatten().clamp(max=self.tokens - 1)
        self._packed = (place < counts[:, None]).flatten().nonzero().flatten()
        if order is not None:
            self._padded = order[self._padded]
            self._packed = self._packed[order.argsort()]

    def pad(self, packed: Tensor) -> Tensor:
        """[1, heads, tokens, dim] -> [rows, heads, longest, dim]"""
        _, heads, _, dim = packed.shape
        block = packed[0].transpose(0, 1).index_select(0, self._padded)
        return block.view(self.rows, self.longest, heads, dim).transpose(1, 2)

    def unpad(self, block: Tensor) -> Tensor:
        """[rows, heads, longest, ...] -> [1, heads, tokens, ...]"""
        flat = block.transpose(1, 2).reshape(self.rows * self.longest, *block.shape[1:2], *block.shape[3:])
        return flat.index_select(0, self._packed).transpose(0, 1).unsqueeze(0)


def length_class(tokens: int) -> int:
    """The least of 32, 48, 64, 96, 128, 192 ... that holds so many tokens: never much more than half of it too much."""
    size = _SHORTEST_CLASS
    while size < tokens:
        if size + size // 2 >= tokens:
            return size + size // 2
        size *= 2
    return size
