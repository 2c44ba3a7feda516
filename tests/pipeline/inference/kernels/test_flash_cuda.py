"""What needs no GPU: calls held to the shapes that torch's operators declare, and what goes to the reference."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from pipeline.inference.kernels.flash_cuda import flash_cuda
from pipeline.inference.kernels.reference import reference


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
