import torch

from pipeline.inference.kernels.merge import merge, with_sink
from pipeline.inference.kernels.reference import reference

SCALE = 0.2


def test_merged_halves_are_the_whole():
    q, k, v = torch.randn(2, 4, 3, 16), torch.randn(2, 2, 11, 16), torch.randn(2, 2, 11, 16)
    halves = [reference(q, k[:, :, part], v[:, :, part], scale=SCALE) for part in (slice(0, 4), slice(4, 11))]
    out, lse = merge(*halves)
    expected, expected_lse = reference(q, k, v, scale=SCALE)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(lse, expected_lse, atol=1e-5, rtol=1e-4)


def test_it_survives_scores_far_apart():
    near, far = torch.ones(1, 1, 1, 4), torch.full((1, 1, 1, 4), 7.0)
    out, lse = merge((near, torch.tensor([[[900.0]]])), (far, torch.tensor([[[-900.0]]])))
    assert out.tolist() == near.tolist()
    assert lse.item() == 900.0


def test_half_precision_stays_what_it_is():
    part = (torch.ones(1, 1, 1, 4).bfloat16(), torch.zeros(1, 1, 1))
    out, lse = merge(part, (3 * part[0], part[1]))
    assert (out.dtype, lse.dtype) == (torch.bfloat16, torch.float32)
    assert out.tolist() == [[[[2.0] * 4]]]


def test_a_sink_takes_its_share_of_the_softmax():
    q, k, v = torch.randn(1, 2, 3, 16), torch.randn(1, 2, 4, 16), torch.randn(1, 2, 4, 16)
    sinks = torch.tensor([0.5, -1.0])
    found = with_sink(reference(q, k, v, scale=SCALE), sinks)
    scores = torch.cat([(q @ k.transpose(-1, -2)) * SCALE, sinks.view(1, 2, 1, 1).expand(1, 2, 3, 1)], -1)
    torch.testing.assert_close(found, scores.softmax(-1)[..., :-1] @ v, atol=1e-5, rtol=1e-4)
