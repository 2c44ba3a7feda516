import pytest
import torch

from pipeline.inference.kernels import choose_kernel, flash_cpu, merge, reference

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
