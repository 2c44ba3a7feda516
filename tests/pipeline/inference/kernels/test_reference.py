import torch

from pipeline.inference.kernels.reference import reference

SCALE = 0.2


def test_it_equals_torch():
    q, k, v = torch.randn(2, 4, 9, 16), torch.randn(2, 2, 9, 16), torch.randn(2, 2, 9, 16)
    out, lse = reference(q, k, v, scale=SCALE, causal=True)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=SCALE, enable_gqa=True)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(lse[:, :, 0], (q[:, :, 0] * k[:, [0, 0, 1, 1], 0]).sum(-1) * SCALE)


def test_a_mask_hides_keys_row_by_row():
    q, k, v = torch.randn(2, 4, 3, 16), torch.randn(2, 2, 5, 16), torch.randn(2, 2, 5, 16)
    mask = torch.zeros(2, 1, 1, 5)
    mask[0, ..., 2:] = float("-inf")
    out, lse = reference(q, k, v, scale=SCALE, mask=mask)
    short, short_lse = reference(q[:1], k[:1, :, :2], v[:1, :, :2], scale=SCALE)
    torch.testing.assert_close(out[:1], short, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(lse[:1], short_lse, atol=1e-5, rtol=1e-4)
    whole, _ = reference(q[1:], k[1:], v[1:], scale=SCALE)
    torch.testing.assert_close(out[1:], whole, atol=1e-5, rtol=1e-4)


def test_a_query_that_sees_nothing_has_nothing():
    q, k, v = torch.randn(1, 4, 2, 16), torch.randn(1, 2, 5, 16), torch.randn(1, 2, 5, 16)
    mask = torch.zeros(1, 1, 2, 5)
    mask[0, 0, 1] = float("-inf")
    out, lse = reference(q, k, v, scale=SCALE, mask=mask)
    assert not out[:, :, 1].any()
    assert lse[0, :, 1].tolist() == [float("-inf")] * 4
    assert lse[0, :, 0].isfinite().all()


def test_capped_scores_never_pass_the_cap():
    q, k, v = 100 * torch.randn(1, 2, 3, 16), 100 * torch.randn(1, 2, 4, 16), torch.randn(1, 2, 4, 16)
    out, lse = reference(q, k, v, scale=1.0, softcap=2.0)
    scores = ((q @ k.transpose(-1, -2)) / 2.0).tanh() * 2.0
    torch.testing.assert_close(out, scores.softmax(-1) @ v, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(lse, scores.logsumexp(-1), atol=1e-5, rtol=1e-4)


def test_half_precision_rounds_the_output_alone():
    q, k, v = (torch.randn(2, 2, 5, 64).bfloat16() for _ in range(3))
    out, lse = reference(q, k, v, scale=SCALE)
    expected, expected_lse = reference(q.float(), k.float(), v.float(), scale=SCALE)
    assert torch.equal(out, expected.bfloat16())
    assert torch.equal(lse, expected_lse)
