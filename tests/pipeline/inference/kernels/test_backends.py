"""One suite for all back ends: each equals the reference, computed in fp32 from the same numbers."""

import pytest
import torch

from pipeline.inference.kernels.merge import merge
from pipeline.inference.kernels.reference import reference
from pipeline.inference.masks import length_mask, window_mask

SCALE = 0.2
#: The log-sum-exp is fp32 whatever the inputs are.
LSE_TOLERANCE = 1e-4
#: heads, kv_heads, dim. Never as many heads as a test has queries, which would leave a log-sum-exp's layout open.
HEADS = [(2, 2, 16), (4, 2, 64), (5, 1, 96), (6, 2, 128), (2, 1, 256)]
ROWS, TOKENS = 3, 7


@pytest.fixture(params=HEADS, ids=str)
def heads(request):
    return request.param


def block(backend, rows, heads, queries, keys):
    """q, k, v in the back end's precision, on its device."""
    n_heads, kv_heads, dim = heads
    torch.manual_seed(0)
    shapes = [(rows, n_heads, queries, dim), (rows, kv_heads, keys, dim), (rows, kv_heads, keys, dim)]
    return [torch.randn(shape).to(backend.device, backend.dtype) for shape in shapes]


def assert_equals_reference(backend, q, k, v, **options):
    out, lse = backend.kernel(q, k, v, scale=SCALE, **options)
    expected, expected_lse = reference(q.float(), k.float(), v.float(), scale=SCALE, **options)
    assert (out.dtype, lse.dtype) == (backend.dtype, torch.float32)
    torch.testing.assert_close(out.float(), expected, atol=backend.tolerance, rtol=backend.tolerance)
    torch.testing.assert_close(lse, expected_lse, atol=LSE_TOLERANCE, rtol=LSE_TOLERANCE)
    return out, lse


def test_each_token_sees_those_before_it(backend, heads):
    assert_equals_reference(backend, *block(backend, ROWS, heads, TOKENS, TOKENS), causal=True)


def test_all_queries_see_all_keys(backend, heads):
    assert_equals_reference(backend, *block(backend, ROWS, heads, 3, TOKENS))


def test_one_query_and_one_key(backend):
    assert_equals_reference(backend, *block(backend, 1, (4, 2, 64), 1, 1), causal=True)


@pytest.mark.parametrize("queries", [1, 5])
def test_rows_of_one_token_of_many_and_of_none(backend, heads, queries):
    q, k, v = block(backend, ROWS, heads, queries, TOKENS)
    mask = length_mask(torch.tensor([1, TOKENS, 0], device=backend.device), TOKENS)
    out, lse = assert_equals_reference(backend, q, k, v, mask=mask)
    assert not out[2].any()
    assert lse[2].isneginf().all()


def test_a_level_that_is_empty_for_all_adds_nothing(backend):
    q, k, v = block(backend, 2, (4, 2, 64), 3, 5)
    nothing = backend.kernel(q, k, v, scale=SCALE, mask=length_mask(torch.tensor([0, 0], device=q.device), 5))
    whole = backend.kernel(q, k, v, scale=SCALE)
    for merged in (merge(whole, nothing), merge(nothing, whole)):
        torch.testing.assert_close(merged, whole, atol=0, rtol=0)


def test_keys_hidden_at_the_front(backend):
    q, k, v = block(backend, 2, (4, 2, 64), 1, TOKENS)
    place = torch.arange(TOKENS, device=q.device)[None]
    assert_equals_reference(backend, q, k, v, mask=window_mask(torch.tensor([[7], [9]], device=q.device), place, 4))


def test_a_window_that_moves_with_the_query(backend):
    q, k, v = block(backend, 2, (4, 2, 64), TOKENS, TOKENS)
    place = torch.arange(TOKENS, device=q.device)[None]
    assert_equals_reference(backend, q, k, v, causal=True, mask=window_mask(place, place, 3))


def test_capped_scores(backend):
    if not backend.caps_scores:
        pytest.skip("flash-attn's Triton kernels leave the cap out")
    q, k, v = block(backend, 2, (4, 2, 64), TOKENS, TOKENS)
    assert_equals_reference(backend, q, k, v, causal=True, softcap=1.0)
    mask = length_mask(torch.tensor([1, 4], device=q.device), TOKENS)
    assert_equals_reference(backend, q, k, v, mask=mask, softcap=1.0)


def test_many_rows(backend):
    q, k, v = block(backend, backend.many, (1, 1, 64), 1, 3)
    assert_equals_reference(backend, q, k, v, mask=length_mask(torch.arange(backend.many, device=q.device) % 4, 3))
