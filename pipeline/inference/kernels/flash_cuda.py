"""The back end on CUDA that torch itself brings: its flash attention, in bf16 and fp16."""

import torch
from torch import Tensor

from pipeline.inference.kernels.kernel import Part
from pipeline.inference.kernels.ragged import hides_whole_keys, without_hidden
from pipeline.inference.kernels.reference import reference

_MAX_DIM = 256
_DIM_STEP = 8


def flash_cuda(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    causal: bool = False,
    mask: Tensor | None = None,
    softcap: float | None = None,
) -> Part:
    """A mask that hides whole keys is served by leaving them out.

    Masks that differ from query to query, capped scores and heads of an uncommon size go to the reference.
    """
    dim = q.shape[-1]
    served = mask is None or (hides_whole_keys(mask) and not causal)
    if softcap is not None or not served or dim > _MAX_DIM or dim % _DIM_STEP:
        return reference(q, k, v, scale=scale, causal=causal, mask=mask, softcap=softcap)
    if mask is None:
        out, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)
        return out, lse
    rows = without_hidden(q, k, v, mask)
    out, lse, *_ = torch.ops.aten._flash_attention_forward(
        rows.q, rows.k, rows.v, rows.q_starts, rows.k_starts, rows.queries, rows.longest, 0.0, False, False, scale=scale
    )
    return rows.padded(out, lse)
