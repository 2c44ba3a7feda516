"""The one door to attention arithmetic: kernels that return their log-sum-exp, so that parts can be merged.

Every kernel takes q [rows, heads, queries, dim] and k, v [rows, kv_heads, keys, dim] with heads a multiple of kv_heads,
and returns the output [rows, heads, queries, dim] and its log-sum-exp [rows, heads, queries]. A query that sees no key
has the output 0 and the log-sum-exp -inf.
"""

from typing import Protocol

import torch
from torch import Tensor

#: An attention output and its log-sum-exp.
Part = tuple[Tensor, Tensor]


class Kernel(Protocol):
    """`causal` needs as many queries as keys; `mask` [rows, 1, 1 or queries, keys] is added to the scores."""

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        scale: float,
        causal: bool = False,
        mask: Tensor | None = None,
        softcap: float | None = None,
    ) -> Part: ...


def choose_kernel(device: torch.device) -> tuple[str, Kernel]:
    """The fastest kernel for `device` and its name, as `doctor` shows it."""
    if device.type == "cpu":
        return "torch flash attention for CPU", flash_cpu
    return "plain reference", reference


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
    """torch's own flash kernel, or the reference for capped scores, which it does not know.

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
        mask = mask + _future(queries, q.device)
    folded = mask.repeat(1, 1, groups, 1) if mask is not None and mask.shape[2] > 1 else mask
    out, lse = _flash(q.reshape(rows, -1, groups * queries, dim), k, v, causal=False, mask=folded, scale=scale)
    out, lse = out.reshape(rows, heads, queries, dim), lse.reshape(rows, heads, queries)
    return (out, lse) if mask is None else (out, _blind_to(mask, lse))


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
    """Softmax written out, on any device and in any precision; scores are fp32."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = (q @ k.transpose(-1, -2)).float() * scale
    if softcap is not None:
        scores = (scores / softcap).tanh() * softcap
    if mask is not None:
        scores = scores + mask
    if causal:
        scores = scores + _future(q.shape[2], q.device)
    lse = scores.logsumexp(-1)
    return scores.softmax(-1).nan_to_num().to(v.dtype) @ v, lse


def merge(part: Part, other: Part) -> Part:
    """Attention over two disjoint sets of keys from the attention over each (Hydragen, arXiv 2402.05099)."""
    (out, lse), (other_out, other_lse) = part, other
    weight = torch.sigmoid(lse - other_lse).unsqueeze(-1).to(out.dtype)
    return torch.lerp(other_out, out, weight), torch.logaddexp(lse, other_lse)


def with_sink(part: Part, sinks: Tensor) -> Tensor:
    """A score [heads] that takes its share of the softmax and gives nothing (gpt-oss)."""
    out, lse = part
    return out * torch.sigmoid(lse - sinks.float()[:, None]).unsqueeze(-1).to(out.dtype)


def _flash(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, mask: Tensor | None, scale: float) -> Part:
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, 0.0, causal, attn_mask=mask, scale=scale
    )
    return out, lse


def _future(tokens: int, device: torch.device) -> Tensor:
    return torch.full((tokens, tokens), float("-inf"), device=device).triu(1)


def _blind_to(mask: Tensor, lse: Tensor) -> Tensor:
    """For a query whose keys are all hidden the kernel says 0."""
    return lse.masked_fill(mask.isneginf().all(-1), float("-inf"))
