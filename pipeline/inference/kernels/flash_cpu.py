"""The back end on a CPU: torch's own flash attention, in fp32, bf16 and fp16."""

import torch
from torch import Tensor

from pipeline.inference.kernels.kernel import Part
from pipeline.inference.kernels.reference import future, reference


def flash_cpu(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    causal: bool = False,
    mask: Tensor | None = None,
    softcap: float | None = None,
) -> Part:
    """Serves every mask; capped scores, which it does not know, go to the reference.

    Grouped heads fold into the queries, or where causality forbids it, keys and values are repeated.
    """
    if softcap is not None:
        return reference(q, k, v, scale=scale, causal=causal, mask=mask, softcap=softcap)
    rows, heads, queries, dim = q.shape
    groups = heads // k.shape[1]
    if causal and mask is None:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        return _flash(q, k, v, causal=True, mask=None, scale=scale)
    if causal and mask is not None:
        mask = mask + future(queries, q.device)
    folded = mask.repeat(1, 1, groups, 1) if mask is not None and mask.shape[2] > 1 else mask
    out, lse = _flash(q.reshape(rows, -1, groups * queries, dim), k, v, causal=False, mask=folded, scale=scale)
    out, lse = out.reshape(rows, heads, queries, dim), lse.reshape(rows, heads, queries)
    return (out, lse) if mask is None else (out, _blind_to(mask, lse))


def _flash(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, mask: Tensor | None, scale: float) -> Part:
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, causal, attn_mask=mask, scale=scale
    )
    return out, lse


def _blind_to(mask: Tensor, lse: Tensor) -> Tensor:
    """For a query whose keys are all hidden the kernel says 0."""
    return lse.masked_fill(mask.isneginf().all(-1), float("-inf"))
