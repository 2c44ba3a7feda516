"""The back end on a CPU for many queries of many keys: oneDNN's products, a row and a head at a time.

Flash attention takes its products from the BLAS that torch was built with, which on some processors reaches a third of
what oneDNN does; but a call of oneDNN's costs more. Scores are written down, as many as stay in the cache.
"""

from itertools import product

import torch
from torch import Tensor

from pipeline.inference.kernels.flash_cpu import flash_cpu
from pipeline.inference.kernels.kernel import Part
from pipeline.inference.kernels.reference import future

#: Scores of a row and a head, from which on two calls of oneDNN's are repaid.
_WORTH = 1 << 16
#: Scores in memory at once: 2 MB.
_SCORES = 1 << 19
#: Queries in a product, however many keys there are.
_FEWEST_QUERIES = 32
#: Of causal blocks, into how many sizes they fall, and keys by which these differ at least: oneDNN compiles each size
#: of a product, and keeps what it compiled.
_SIZES, _LEAST_GRAIN = 32, 64


def onednn_by_size(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    causal: bool = False,
    mask: Tensor | None = None,
    softcap: float | None = None,
) -> Part:
    """What is too small for it, or in half precision, goes to flash attention."""
    scores = q.shape[1] // k.shape[1] * q.shape[2] * k.shape[2]
    is_large = q.dtype == torch.float32 and (scores // 2 if causal else scores) >= _WORTH
    kernel = onednn if is_large else flash_cpu
    return kernel(q, k, v, scale=scale, causal=causal, mask=mask, softcap=softcap)


def onednn_by_row(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    causal: bool = False,
    mask: Tensor | None = None,
    softcap: float | None = None,
) -> Part:
    """In fp32, a query's numbers to the last bit whatever is asked beside it of what all rows share."""
    kernel = onednn_by_size if causal else onednn
    return kernel(q, k, v, scale=scale, causal=causal, mask=mask, softcap=softcap)


def onednn(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    causal: bool = False,
    mask: Tensor | None = None,
    softcap: float | None = None,
) -> Part:
    """Serves every mask and cap, in fp32. Of causal scores, what lies behind a block of queries is not computed."""
    (rows, heads, queries, dim), kv_heads = q.shape, k.shape[1]
    grouped = (q * scale).reshape(rows, kv_heads, -1, queries, dim)
    out, lse = torch.empty_like(grouped), grouped.new_empty(grouped.shape[:-1])
    hidden = None if mask is None else mask[:, 0].expand(rows, queries, k.shape[2])
    for row, head in product(range(rows), range(kv_heads)):
        own_mask = None if hidden is None else hidden[row]
        # Of a matrix with gaps between its rows oneDNN has no fast product.
        keys, values = k[row, head].contiguous(), v[row, head].contiguous()
        _attend(grouped[row, head], keys, values, causal, own_mask, softcap, out[row, head], lse[row, head])
    return out.view(rows, heads, queries, dim), lse.view(rows, heads, queries)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    mask: Tensor | None,
    softcap: float | None,
    out: Tensor,
    lse: Tensor,
) -> None:
    """q [groups, queries, dim], k, v [keys, dim], mask [queries, keys], out like q, lse [groups, queries]."""
    (groups, queries, dim), keys = q.shape, len(k)
    step = max(_FEWEST_QUERIES, _SCORES // (groups * keys))
    if causal:
        step = 1 << step.bit_length() - 1
    # Of causal blocks the last one is the largest: before the others, it leaves the heap room for all that come.
    for start in reversed(range(0, queries, step)):
        end = min(start + step, queries)
        seen = _rounded(end, keys) if causal else keys
        scores = _linear(q[:, start:end].reshape(-1, dim), k[:seen]).view(groups, end - start, seen)
        if softcap is not None:
            scores.div_(softcap).tanh_().mul_(softcap)
        if causal:
            scores[:, :, start:] += future(end - start, q.device, seen - start)
        if mask is not None:
            scores += mask[start:end, :seen]
        weights, lse[:, start:end] = _softmax(scores, is_masked=mask is not None)
        out[:, start:end] = _linear(weights.view(-1, seen), v[:seen].T).view(groups, -1, dim)


def _rounded(seen: int, keys: int) -> int:
    """Some more than are seen, and no more than there are."""
    grain = max(_LEAST_GRAIN, (1 << (keys - 1).bit_length()) // _SIZES)
    return min(keys, -(-seen // grain) * grain)


def _softmax(scores: Tensor, *, is_masked: bool) -> Part:
    """scores [groups, queries, keys] -> weights like them, and their log-sum-exp [groups, queries].

    The largest weight is exp(largest score - log-sum-exp), which spares a pass over the scores.
    """
    highest, weights = scores.amax(-1), scores.softmax(-1)
    if not is_masked:
        return weights, highest - weights.amax(-1).log()
    blind = highest.isneginf()
    weights.masked_fill_(blind[..., None], 0)
    return weights, torch.where(blind, highest, highest - weights.amax(-1).log())


def _linear(x: Tensor, weight: Tensor) -> Tensor:
    """x [n, in], weight [out, in] -> [n, out]. A single row would go to another kernel, which sums up otherwise."""
    rows = x if len(x) > 1 else x.repeat(2, 1)
    found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, None, "none", [], "")
    return found[: len(x)]
