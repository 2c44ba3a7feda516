"""Decoding on a CPU by two products of many small matrices: for a query a row, flash attention has too little to do."""

import torch
from torch import Tensor

from pipeline.inference.kernels.kernel import Part


def products(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lengths: Tensor,
    *,
    scale: float,
    longest: int,
    window: int | None = None,
    softcap: float | None = None,
) -> Part:
    """Serves all that a DecodeKernel is asked for."""
    rows, heads, _, dim = q.shape
    grouped = (q * scale).reshape(rows, k.shape[1], -1, dim)
    scores = grouped @ k[:, :, :longest].transpose(-1, -2)
    if softcap is not None:
        scores = (scores / softcap).tanh_() * softcap
    scores.masked_fill_(_hidden(lengths, longest, window)[:, None, None], float("-inf"))
    highest = scores.amax(-1, keepdim=True)
    weights = scores.sub_(highest).exp_()
    total = weights.sum(-1, keepdim=True)
    out = (weights @ v[:, :, :longest]).div_(total)
    return out.view(rows, heads, 1, dim), (highest + total.log()).view(rows, heads, 1)


def _hidden(lengths: Tensor, longest: int, window: int | None) -> Tensor:
    """[rows, longest]"""
    place = torch.arange(longest, device=lengths.device)
    beyond = place >= lengths[:, None]
    return beyond if window is None else beyond | (place < lengths[:, None] - window)
