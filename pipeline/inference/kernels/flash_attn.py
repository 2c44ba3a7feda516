"""The back end that flash-attn 2 brings, on CUDA in bf16 and fp16. To import this file is to need that package."""

from flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache
from torch import Tensor

from pipeline.inference.kernels.kernel import Part
from pipeline.inference.kernels.ragged import hides_whole_keys, without_hidden
from pipeline.inference.kernels.reference import reference, reference_decode

_MAX_DIM = 256


def flash_attn(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    causal: bool = False,
    mask: Tensor | None = None,
    softcap: float | None = None,
) -> Part:
    """Caps scores itself; a mask that hides whole keys is served by leaving them out.

    Masks that differ from query to query and heads of more than 256 go to the reference.
    """
    served = mask is None or (hides_whole_keys(mask) and not causal)
    if not served or q.shape[-1] > _MAX_DIM:
        return reference(q, k, v, scale=scale, causal=causal, mask=mask, softcap=softcap)
    if mask is None:
        return _padded(q, k, v, scale, causal, softcap or 0.0)
    return _ragged(q, k, v, scale, mask, softcap or 0.0)


def flash_attn_decode(
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
    """Of one shape from step to step: the kernel reads the lengths on the device, and has no use for `longest`.

    Heads of more than 256 go to the reference.
    """
    if q.shape[-1] > _MAX_DIM:
        return reference_decode(q, k, v, lengths, scale=scale, longest=longest, window=window, softcap=softcap)
    out, lse = flash_attn_with_kvcache(
        q.transpose(1, 2),
        k.transpose(1, 2),
        v.transpose(1, 2),
        cache_seqlens=lengths.int(),
        softmax_scale=scale,
        causal=True,
        window_size=(-1, -1) if window is None else (window - 1, 0),
        softcap=softcap or 0.0,
        return_softmax_lse=True,
    )
    return out.transpose(1, 2), lse.view(q.shape[:3])


def _padded(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool, softcap: float) -> Part:
    out, lse, _ = flash_attn_func(
        q.transpose(1, 2),
        k.transpose(1, 2),
        v.transpose(1, 2),
        softmax_scale=scale,
        causal=causal,
        softcap=softcap,
        return_attn_probs=True,
    )
    return out.transpose(1, 2), lse


def _ragged(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor, softcap: float) -> Part:
    rows = without_hidden(q, k, v, mask)
    out, lse, _ = flash_attn_varlen_func(
        rows.q,
        rows.k,
        rows.v,
        rows.q_starts,
        rows.k_starts,
        rows.queries,
        rows.longest,
        softmax_scale=scale,
        softcap=softcap,
        return_attn_probs=True,
    )
    return rows.padded(out, _heads_first(lse, heads=q.shape[1]))


def _heads_first(lse: Tensor, heads: int) -> Tensor:
    """CUDA kernels of the package say [heads, tokens], its Triton kernels [tokens, heads]; a square is CUDA's."""
    return lse if lse.shape[0] == heads else lse.transpose(0, 1)
