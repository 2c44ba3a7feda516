"""The back end on a CPU: torch's own flash attention, in fp32, bf16 and fp16."""

import torch
from torch import Tensor

from pipeline.inference.kernels.kernel import Part
from pipeline.inference.kernels.masked import masked
from pipeline.inference.kernels.products import products
from pipeline.inference.kernels.reference import future, reference

#: Up to so many, grouped heads are folded although half of what is computed then is hidden.
_FOLDED_QUERIES = 512


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

    Grouped heads fold into the queries, behind a mask where there is causality; but in long rows, half of which it
    hides, keys and values are repeated for the kernel that leaves that half out.
    """
    if softcap is not None:
        return reference(q, k, v, scale=scale, causal=causal, mask=mask, softcap=softcap)
    rows, heads, queries, dim = q.shape
    groups = heads // k.shape[1]
    if causal and mask is None and (groups == 1 or queries > _FOLDED_QUERIES):
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        return _flash(q, k, v, causal=True, mask=None, scale=scale)
    if causal:
        hidden = future(queries, q.device)[None, None]
        mask = hidden if mask is None else mask + hidden
    folded = mask.repeat(1, 1, groups, 1) if mask is not None and mask.shape[2] > 1 else mask
    out, lse = _flash(q.reshape(rows, -1, groups * queries, dim), k, v, causal=False, mask=folded, scale=scale)
    out, lse = out.reshape(rows, heads, queries, dim), lse.reshape(rows, heads, queries)
    return (out, lse) if mask is None or causal else (out, _blind_to(mask, lse))


def flash_cpu_decode(
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
    """In fp32 by `products`, which is faster; in half precision those would round in between."""
    decode = products if q.dtype == torch.float32 else masked(flash_cpu)
    return decode(q, k, v, lengths, scale=scale, longest=longest, window=window, softcap=softcap)


def _flash(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, mask: Tensor | None, scale: float) -> Part:
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, causal, attn_mask=mask, scale=scale
    )
    return out, lse


def _blind_to(mask: Tensor, lse: Tensor) -> Tensor:
    """For a query whose keys are all hidden the kernel says 0."""
    return lse.masked_fill(mask.isneginf().all(-1), float("-inf"))
