"""Attention over parts of a row's keys put together, which is what the log-sum-exp is kept for."""

import torch
from torch import Tensor

from pipeline.inference.kernels.kernel import Part


def merge(part: Part, other: Part) -> Part:
    """Attention over two disjoint sets of keys from the attention over each (Hydragen, arXiv 2402.05099)."""
    (out, lse), (other_out, other_lse) = part, other
    weight = torch.sigmoid(lse - other_lse).unsqueeze(-1).to(out.dtype)
    return torch.lerp(other_out, out, weight), torch.logaddexp(lse, other_lse)


def with_sink(part: Part, sinks: Tensor) -> Tensor:
    """A score [heads] that takes its share of the softmax and gives nothing (gpt-oss)."""
    out, lse = part
    return out * torch.sigmoid(lse - sinks.float()[:, None]).unsqueeze(-1).to(out.dtype)
