import pytest
import torch

from pipeline.inference.kernels import choose_kernel, flash_cpu, merge, reference, with_sink
from pipeline.inference.masks import window_mask

SCALE = 0.2


def block(rows: int, heads: int, tokens: int, dim: int) -> torch.Tensor:
    return torch.randn(rows, heads, tokens, dim)


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (9, 3), (8, 1)])
@pytest.mark.parametrize("dim", [16, 64, 128])
@pytest.mark.parametrize(("queries", "keys", "causal"), [(1, 1, True), (17, 17, True), (1, 33, False), (500, 7, False)])
def test_flash_equals_the_reference(heads, kv_heads, dim, queries, keys, causal):
    torch.manual_seed(0)
    q, k, v = block(3, heads, queries, dim), block(3, kv_heads, keys, dim), block(3, kv_heads, keys, dim)
    out, lse = flash_cpu(q, k, v, scale=SCALE, causal=causal)
    expected, expected_lse = reference(q, k, v, scale=SCALE, causal=causal)
    torch.testing.assert_close(out, expected, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(lse, expected_lse, atol=2e-5, rtol=1e-4)


def test_reference_equals_torch():
    q, k, v = block(2, 4, 9, 16), block(2, 2, 9, 16), block(2, 2, 9, 16)
    out, _ = reference(q, k, v, scale=SCALE, causal=True)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=SCALE, enable_gqa=True)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kernel", [flash_cpu, reference])
def test_mask_hides_keys_row_by_row(kernel):
    q, k, v = block(2, 4, 3, 16), block(2, 2, 5, 16), block(2, 2, 5, 16)
    mask = torch.zeros(2, 1, 1, 5)
    mask[0, ..., 2:] = float("-inf")
    out, lse = kernel(q, k, v, scale=SCALE, mask=mask)
    short, short_lse = kernel(q[:1], k[:1, :, :2], v[:1, :, :2], scale=SCALE)
    torch.testing.assert_close(out[:1], short, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(lse[:1], short_lse, atol=1e-5, rtol=1e-4)
    whole, _ = kernel(q[1:], k[1:], v[1:], scale=SCALE)
    torch.testing.assert_close(out[1:], whole, atol=1e-5, rtol=1e-4)


def test_merged_halves_are_the_whole():
    q, k, v = block(2, 4, 3, 16), block(2, 2, 11, 16), block(2, 2, 11, 16)
    halves = [reference(q, k[:, :, part], v[:, :, part], scale=SCALE) for part in (slice(0, 4), slice(4, 11))]
    out, lse = merge(*halves)
    expected, expected_lse = reference(q, k, v, scale=SCALE)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(lse, expected_lse, atol=1e-5, rtol=1e-4)


def test_merge_survives_scores_far_apart():
    near, far = torch.ones(1, 1, 1, 4), torch.full((1, 1, 1, 4), 7.0)
    out, lse = merge((near, torch.tensor([[[900.0]]])), (far, torch.tensor([[[-900.0]]])))
    assert out.tolist() == near.tolist()
    assert lse.item() == 900.0


def test_cpu_gets_the_flash_kernel():
    assert choose_kernel(torch.device("cpu")) == ("torch flash attention for CPU", flash_cpu)
    assert choose_kernel(torch.device("meta")) == ("plain reference", reference)


def test_a_window_in_a_causal_block_equals_the_reference():
    q, k, v = block(2, 4, 9, 16), block(2, 2, 9, 16), block(2, 2, 9, 16)
    place = torch.arange(9)[None]
    mask = window_mask(place, place, 3)
    out, lse = flash_cpu(q, k, v, scale=SCALE, causal=True, mask=mask)
    expected, expected_lse = reference(q, k, v, scale=SCALE, causal=True, mask=mask)
    torch.testing.assert_close(out, expected, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(lse, expected_lse, atol=2e-5, rtol=1e-4)
    last, _ = reference(q[:, :, 8:], k[:, :, 6:], v[:, :, 6:], scale=SCALE)
    torch.testing.assert_close(out[:, :, 8:], last, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("kernel", [flash_cpu, reference])
def test_a_query_that_sees_nothing_adds_nothing(kernel):
    q, k, v = block(1, 4, 2, 16), block(1, 2, 5, 16), block(1, 2, 5, 16)
    mask = torch.zeros(1, 1, 2, 5)
    mask[0, 0, 1] = float("-inf")
    out, lse = kernel(q, k, v, scale=SCALE, mask=mask)
    assert not out[:, :, 1].any()
    assert lse[0, :, 1].tolist() == [float("-inf")] * 4
    other = reference(q, k[:, :, :1], v[:, :, :1], scale=SCALE)
    merged, merged_lse = merge((out, lse), other)
    torch.testing.assert_close(merged[:, :, 1], other[0][:, :, 1])
    torch.testing.assert_close(merged_lse[:, :, 1], other[1][:, :, 1])


def test_capped_scores_never_pass_the_cap():
    q, k, v = 100 * block(1, 2, 3, 16), 100 * block(1, 2, 4, 16), block(1, 2, 4, 16)
    capped = flash_cpu(q, k, v, scale=1.0, softcap=2.0)
    scores = ((q @ k.transpose(-1, -2)) / 2.0).tanh() * 2.0
    torch.testing.assert_close(capped[0], scores.softmax(-1) @ v, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(capped[1], scores.logsumexp(-1), atol=1e-5, rtol=1e-4)


def test_a_sink_takes_its_share_of_the_softmax():
    q, k, v = block(1, 2, 3, 16), block(1, 2, 4, 16), block(1, 2, 4, 16)
    sinks = torch.tensor([0.5, -1.0])
    found = with_sink(reference(q, k, v, scale=SCALE), sinks)
    scores = torch.cat([(q @ k.transpose(-1, -2)) * SCALE, sinks.view(1, 2, 1, 1).expand(1, 2, 3, 1)], -1)
    torch.testing.assert_close(found, scores.softmax(-1)[..., :-1] @ v, atol=1e-5, rtol=1e-4)
