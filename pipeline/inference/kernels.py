"""The one door to attention arithmetic: kernels that return their log-sum-exp, so that parts can be merged.

Every kernel takes q [rows, heads, queries, dim] and k, v [rows, kv_heads, keys, dim] with heads a multiple of kv_heads,
and returns the output [rows, heads, queries, dim] and its log-sum-exp [rows, heads, queries].
"""

from typing import Protocol

import torch
from torch import Tensor


class Kernel(Protocol):
    """`causal` aligns the last query with the last key; `mask` is added to the scores, [rows, 1, 1, keys]."""

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        scale: float,
        causal: bool = False,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]: ...


def choose_kernel(device: torch.device) -> tuple[str, Kernel]:
    """The fastest kernel for `device` and its name, as `doctor` shows it."""
    if device.type == "cpu":
        return "torch flash attention for CPU", flash_cpu
    return "plain reference", reference


def flash_cpu(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, causal: bool = False, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """torch's own flash kernel. Grouped heads fold into the queries, or where causality forbids it, are repeated."""
    rows, heads, queries, dim = q.shape
    groups = heads // k.shape[1]
    if causal:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        return _flash(q, k, v, causal=True, mask=None, scale=scale)
    out, lse = _flash(q.reshape(rows, -1, groups * queries, dim), k, v, causal=False, mask=mask, scale=scale)
    return out.reshape(rows, heads, queries, dim), lse.reshape(rows, heads, queries)


def reference(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, causal: bool = False, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Softmax written out, on any device and in any precision; scores are fp32."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = (q @ k.transpose(-1, -2)).float() * scale
    if mask is not None:
        scores = scores + mask
    if causal:
        above = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
        scores = scores.masked_fill(above.triu(k.shape[2] - q.shape[2] + 1), float("-inf"))
    lse = scores.logsumexp(-1)
    return (scores - lse.unsqueeze(-1)).exp().to(v.dtype) @ v, lse


def merge(part: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Attention over two disjoint sets of keys from the attention over each (Hydragen, arXiv 2402.05099)."""
    (out, lse), (other_out, other_lse) = part, other
    weight = torch.sigmoid(lse - other_lse).unsqueeze(-1).to(out.dtype)
    return torch.lerp(other_out, out, weight), torch.logaddexp(lse, other_lse)


def _flash(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool, mask: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, causal, attn_mask=mask, scale=scale
    )
    return out, lse
