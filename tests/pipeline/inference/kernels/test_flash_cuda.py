"""What needs no GPU: calls held to the shapes that torch's operators declare, and what goes to the reference."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from pipeline.inference.kernels.flash_cuda import end_to_end, flash_cuda, flash_cuda_decode
from pipeline.inference.kernels.reference import reference, reference_decode


@pytest.mark.parametrize("masked", [False, True])
def test_shapes_and_precisions(masked):
    with FakeTensorMode(shape_env=ShapeEnv()):
        q, k = torch.empty(3, 4, 5, 64).bfloat16(), torch.empty(3, 2, 7, 64).bfloat16()
        out, lse = flash_cuda(q, k, k, scale=0.2, mask=torch.zeros(3, 1, 1, 7) if masked else None)
    assert (out.shape, out.dtype) == ((3, 4, 5, 64), torch.bfloat16)
    assert (lse.shape, lse.dtype) == ((3, 4, 5), torch.float32)


@pytest.mark.parametrize(
    ("dim", "options"),
    [
        (20, {}),
        (264, {}),
        (64, {"softcap": 1.0}),
        (64, {"causal": True, "mask": torch.zeros(2, 1, 1, 3)}),
        (64, {"mask": torch.zeros(2, 1, 3, 3)}),
    ],
    ids=["dim of 20", "dim of 264", "cap", "causal and mask", "mask for each query"],
)
def test_what_it_cannot_serve_is_the_reference_s(dim, options):
    q, k, v = (torch.randn(2, 2, 3, dim) for _ in range(3))
    expected = reference(q, k, v, scale=0.2, **options)
    torch.testing.assert_close(flash_cuda(q, k, v, scale=0.2, **options), expected, atol=0, rtol=0)


@pytest.mark.parametrize("window", [None, 4])
def test_shapes_and_precisions_in_decoding(window):
    with FakeTensorMode(shape_env=ShapeEnv()):
        q, k = torch.empty(3, 4, 1, 64).bfloat16(), torch.empty(3, 2, 7, 64).bfloat16()
        lengths = torch.ones(3, dtype=torch.int64)
        out, lse = flash_cuda_decode(q, k, k, lengths, scale=0.2, longest=5, window=window)
    assert (out.shape, out.dtype) == ((3, 4, 1, 64), torch.bfloat16)
    assert (lse.shape, lse.dtype) == ((3, 4, 1), torch.float32)


@pytest.mark.parametrize("shape", [(3, 2, 7, 16), (1, 1, 5, 8), (2, 4, 1, 8)], ids=str)
def test_lanes_are_read_where_they_lie(shape):
    """By the arithmetic of kernels for sequences of varying length: sequence i begins at place i * step."""
    rows, _, capacity, _ = shape
    lanes = torch.randn(rows + 2, *shape[1:])[1:-1]
    view, step = end_to_end(lanes)
    assert view.data_ptr() == lanes.data_ptr()
    for lane in range(rows):
        assert torch.equal(view[lane * step : lane * step + capacity].transpose(0, 1), lanes[lane])


@pytest.mark.parametrize(("dim", "softcap"), [(20, None), (264, None), (64, 1.0)])
def test_what_it_cannot_decode_is_the_reference_s(dim, softcap):
    q, k, v, lengths = torch.randn(2, 2, 1, dim), *torch.randn(2, 2, 2, 9, dim), torch.tensor([2, 7])
    options = {"scale": 0.2, "longest": 7, "window": 3, "softcap": softcap}
    expected = reference_decode(q, k, v, lengths, **options)
    torch.testing.assert_close(flash_cuda_decode(q, k, v, lengths, **options), expected, atol=0, rtol=0)
