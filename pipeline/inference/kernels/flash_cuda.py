"""The back end on CUDA that torch itself brings: its flash attention, in bf16 and fp16."""

import torch
from torch import Tensor

from pipeline.inference.kernels.kernel import Part
from pipeline.inference.kernels.ragged import hides_whole_keys, without_hidden
from pipeline.inference.kernels.reference import reference, reference_decode

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
    served = mask is None or (hides_whole_keys(mask) and not causal)
    if not served or not _knows(q.shape[-1], softcap):
        return reference(q, k, v, scale=scale, causal=causal, mask=mask, softcap=softcap)
    if mask is None:
        out, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)
        return out, lse
    rows = without_hidden(q, k, v, mask)
    out, lse, *_ = torch.ops.aten._flash_attention_forward(
        rows.q, rows.k, rows.v, rows.q_starts, rows.k_starts, rows.queries, rows.longest, 0.0, False, False, scale=scale
    )
    return rows.padded(out, lse)


def flash_cuda_decode(
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
    """Reads the lanes where they lie. Capped scores and heads of an uncommon size go to the reference."""
    if not _knows(q.shape[-1], softcap):
        return reference_decode(q, k, v, lengths, scale=scale, longest=longest, window=window, softcap=softcap)
    rows = len(q)
    lanes, step = end_to_end(k)
    out, lse, *_ = torch.ops.aten._flash_attention_forward(
        q[:, :, 0],
        lanes,
        end_to_end(v)[0],
        torch.arange(rows + 1, dtype=torch.int32, device=q.device),
        torch.arange(rows + 1, dtype=torch.int32, device=q.device) * step,
        1,
        longest,
        0.0,
        False,
        False,
        scale=scale,
        window_size_left=None if window is None else window - 1,
        window_size_right=None if window is None else 0,
        seqused_k=lengths.int(),
    )
    return out[:, :, None], lse.transpose(0, 1)[:, :, None]


def end_to_end(lanes: Tensor) -> tuple[Tensor, int]:
    """[rows, kv_heads, capacity, dim] -> a view [places, kv_heads, dim], and how many places a lane is from the next.

    The heads of a lane lie one behind the other, so that most places of a head are another's; no length reaches them.
    """
    rows, heads, capacity, dim = lanes.shape
    of_lane, of_head, of_place, _ = lanes.stride()
    step = of_lane // of_place
    return lanes.as_strided(((rows - 1) * step + capacity, heads, dim), (of_place, of_head, 1)), step


def _knows(dim: int, softcap: float | None) -> bool:
    return softcap is None and dim <= _MAX_DIM and dim % _DIM_STEP == 0
