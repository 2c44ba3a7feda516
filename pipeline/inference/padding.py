"""Packed tokens to a padded block and back, for kernels that want one sequence a row."""

from collections.abc import Sequence

import torch
from torch import Tensor


class Padding:
    """Index tensors for rows of `lengths` tokens, built once for all layers of a forward.

    A padded place repeats the row's last token, so that it stays finite; causality or a mask hides it.
    """

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        counts = torch.tensor(lengths, device=device)
        self.rows, self.longest = len(lengths), max(lengths)
        starts = counts.cumsum(0) - counts
        place = torch.arange(self.longest, device=device)
        within = torch.minimum(place, counts[:, None] - 1)
        self._padded = (starts[:, None] + within).flatten()
        self._packed = (place < counts[:, None]).flatten().nonzero().flatten()

    def pad(self, packed: Tensor) -> Tensor:
        """[1, heads, tokens, dim] -> [rows, heads, longest, dim]"""
        _, heads, _, dim = packed.shape
        block = packed[0].transpose(0, 1).index_select(0, self._padded)
        return block.view(self.rows, self.longest, heads, dim).transpose(1, 2)

    def unpad(self, block: Tensor) -> Tensor:
        """[rows, heads, longest, ...] -> [1, heads, tokens, ...]"""
        flat = block.transpose(1, 2).reshape(self.rows * self.longest, *block.shape[1:2], *block.shape[3:])
        return flat.index_select(0, self._packed).transpose(0, 1).unsqueeze(0)
