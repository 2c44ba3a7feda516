"""One suite for the decode kernels of all back ends: each equals the reference, row by row over the keys it sees."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from pipeline.inference.kernels.flash_cpu import flash_cpu_decode
from pipeline.inference.kernels.flash_cuda import flash_cuda_decode
from pipeline.inference.kernels.reference import reference, reference_decode

SCALE = 0.2
#: heads, kv_heads, dim
HEADS = [(2, 2, 64), (4, 2, 96), (5, 1, 128), (2, 1, 256)]
#: Finite, as what an earlier row leaves in a lane is, and of an effect that would be seen.
STALE = 50.0


@pytest.fixture(params=HEADS, ids=str)
def heads(request):
    return request.param


def rows_of(backend, heads, lengths, capacity):
    """q, and k and v as views of the first of more lanes, each stale behind its length."""
    n_heads, kv_heads, dim = heads
    torch.manual_seed(0)
    q = torch.randn(len(lengths), n_heads, 1, dim)
    lanes = torch.full((2, len(lengths) + 1, kv_heads, capacity, dim), STALE)
    for lane, length in enumerate(lengths):
        lanes[:, lane, :, :length] = torch.randn(2, kv_heads, length, dim)
    q, lanes = q.to(backend.device, backend.dtype), lanes.to(backend.device, backend.dtype)
    return q, *lanes[:, : len(lengths)]


def assert_equals_reference(backend, heads, lengths, capacity=None, window=None, softcap=None):
    longest = max(lengths)
    q, k, v = rows_of(backend, heads, lengths, capacity or longest + 3)
    counts = torch.tensor(lengths, device=q.device)
    out, lse = backend.decode(q, k, v, counts, scale=SCALE, longest=longest, window=window, softcap=softcap)
    assert (out.dtype, lse.dtype) == (backend.dtype, torch.float32)
    assert (out.shape, lse.shape) == (q.shape, q.shape[:3])
    for row, length in enumerate(lengths):
        first = 0 if window is None else max(0, length - window)
        keys, values = (lanes[row : row + 1, :, first:length].float() for lanes in (k, v))
        expected, expected_lse = reference(q[row : row + 1].float(), keys, values, scale=SCALE, softcap=softcap)
        found, found_lse = out[row : row + 1].float(), lse[row : row + 1]
        torch.testing.assert_close(found, expected, atol=backend.tolerance, rtol=backend.tolerance)
        torch.testing.assert_close(found_lse, expected_lse, atol=backend.decode_lse_tolerance, rtol=1e-4)


def test_rows_of_one_key_and_of_five_hundred(backend, heads):
    assert_equals_reference(backend, heads, [1, 1, 500])


def test_a_row_alone_that_fills_its_lane(backend, heads):
    assert_equals_reference(backend, heads, [7], capacity=7)


def test_more_room_than_any_row_needs(backend):
    assert_equals_reference(backend, (4, 2, 64), [3, 1, 9], capacity=300)


def test_many_rows(backend):
    assert_equals_reference(backend, (2, 1, 64), [1 + n % 5 for n in range(30)])


@pytest.mark.parametrize("decode", [flash_cpu_decode, flash_cuda_decode, reference_decode])
def test_no_number_on_the_device_is_asked_for(decode):
    """Here the tensors have none, and an asking raises."""
    with FakeTensorMode():
        q, lanes, lengths = torch.empty(3, 4, 1, 64).half(), torch.empty(3, 2, 7, 64).half(), torch.empty(3).long()
        out, _ = decode(q, lanes, lanes, lengths, scale=SCALE, longest=5, window=2)
    assert out.shape == q.shape


@pytest.mark.parametrize("window", [1, 4, 64])
def test_a_window_hides_what_lies_before_it(backend, heads, window):
    if not backend.decodes_in_windows:
        pytest.skip("flash-attn's Triton kernels leave the window out")
    assert_equals_reference(backend, heads, [1, 5, 64, 70], window=window)


@pytest.mark.parametrize("window", [None, 4])
def test_capped_scores(backend, window):
    if not backend.caps_scores:
        pytest.skip("flash-attn's Triton kernels leave the cap out")
    assert_equals_reference(backend, (4, 2, 64), [1, 9, 30], window=window, softcap=1.0)
