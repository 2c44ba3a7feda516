"""Rows end to end without the keys that a mask hides, as kernels for sequences of varying length take them.

rows      |     row 0     |  row 1  |    row 2    |
q_starts  0               Q         2Q            3Q     every row has Q queries
k_starts  0               a         a             b      row 1 sees no key
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.inference.kernels.kernel import Part


def hides_whole_keys(mask: Tensor) -> bool:
    """Whether all queries of a row see the same keys, which is all that can be said by leaving keys out."""
    return mask.shape[2] == 1


@dataclass(frozen=True, slots=True)
class Ragged:
    """Made by `without_hidden`."""

    q: Tensor  #: [rows * queries, heads, dim]
    k: Tensor  #: [keys seen by all rows, kv_heads, dim]
    v: Tensor
    q_starts: Tensor  #: [rows + 1], int32
    k_starts: Tensor  #: [rows + 1], int32
    queries: int  #: in each row
    longest: int  #: keys in a row at most

    def padded(self, out: Tensor, lse: Tensor) -> Part:
        """out [rows * queries, heads, dim], lse [heads, rows * queries] -> a Part.

        Kernels disagree on what a query that sees no key has; here it is made what `Kernel` says.
        """
        rows, (_, heads, dim) = len(self.q_starts) - 1, out.shape
        blind = (self.k_starts.diff() == 0)[:, None, None]
        out = out.reshape(rows, self.queries, heads, dim).transpose(1, 2).masked_fill(blind[..., None], 0)
        lse = lse.reshape(heads, rows, self.queries).transpose(0, 1).masked_fill(blind, float("-inf"))
        return out, lse


def without_hidden(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Ragged:
    """Of padded blocks and a mask that `hides_whole_keys`."""
    rows, _, queries, _ = q.shape
    seen = (mask[:, 0, 0] == 0).expand(rows, -1)
    return Ragged(
        q=q.transpose(1, 2).flatten(0, 1),
        k=k.transpose(1, 2)[seen],
        v=v.transpose(1, 2)[seen],
        q_starts=torch.arange(rows + 1, dtype=torch.int32, device=q.device) * queries,
        k_starts=torch.nn.functional.pad(seen.sum(-1).cumsum(0), (1, 0)).int(),
        queries=queries,
        longest=k.shape[2],
    )
