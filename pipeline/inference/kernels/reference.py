"""The attention that every other back end must equal: softmax written out, on any device."""

import torch
from torch import Tensor

from pipeline.inference.kernels.kernel import Part
from pipeline.inference.kernels.masked import masked


def reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    causal: bool = False,
    mask: Tensor | None = None,
    softcap: float | None = None,
) -> Part:
    """Computed in fp32 whatever the inputs are; only the output is rounded to their precision."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.float().repeat_interleave(groups, 1), v.float().repeat_interleave(groups, 1)
    scores = q.float() @ k.transpose(-1, -2) * scale
    if softcap is not None:
        scores = (scores / softcap).tanh() * softcap
    if mask is not None:
        scores = scores + mask
    if causal:
        scores = scores + future(q.shape[2], q.device)
    lse = scores.logsumexp(-1)
    return (scores.softmax(-1).nan_to_num() @ v).to(q.dtype), lse


reference_decode = masked(reference)


def future(tokens: int, device: torch.device, keys: int | None = None) -> Tensor:
    """[tokens, keys], of which there are as many or more: the mask that hides from each what comes after it."""
    return torch.full((tokens, keys or tokens), float("-inf"), device=device).triu(1)
