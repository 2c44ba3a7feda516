import pytest
import torch

from pipeline.inference.kernels.onednn import onednn, onednn_by_row, onednn_by_size
from pipeline.inference.kernels.reference import reference
from pipeline.inference.masks import length_mask, window_mask

SCALE = 0.2
QUERIES = 100  #: four blocks of the fewest queries, the last one shorter
TOLERANCE = {"atol": 2e-5, "rtol": 2e-5}


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr("pipeline.inference.kernels.onednn._SCORES", 1)


def block(queries, keys, rows=2):
    torch.manual_seed(0)
    return torch.randn(rows, 6, queries, 32), torch.randn(rows, 2, keys, 32), torch.randn(rows, 2, keys, 32)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("softcap", [None, 3.0])
def test_queries_of_several_blocks(small_blocks, causal, softcap):
    options = {"scale": SCALE, "causal": causal, "softcap": softcap}
    qkv = block(QUERIES, QUERIES)
    torch.testing.assert_close(onednn(*qkv, **options), reference(*qkv, **options), **TOLERANCE)


@pytest.mark.parametrize("tokens", [1000, 2100])
def test_causal_blocks_are_of_few_sizes(monkeypatch, tokens):
    """For what oneDNN compiles for each stays in memory."""
    sizes, linear = set(), torch.nn.functional.linear
    monkeypatch.setattr("pipeline.inference.kernels.onednn._linear", lambda x, w: sizes.add(w.shape) or linear(x, w))
    q, k, v = torch.randn(1, 4, tokens, 8), torch.randn(1, 1, tokens, 8), torch.randn(1, 1, tokens, 8)
    found = onednn(q, k, v, scale=SCALE, causal=True)
    torch.testing.assert_close(found, reference(q, k, v, scale=SCALE, causal=True), **TOLERANCE)
    assert 4 < len(sizes) <= 2 * 17


def test_a_window_over_several_blocks(small_blocks):
    place = torch.arange(QUERIES)[None]
    options = {"scale": SCALE, "causal": True, "mask": window_mask(place, place, 5)}
    qkv = block(QUERIES, QUERIES)
    torch.testing.assert_close(onednn(*qkv, **options), reference(*qkv, **options), **TOLERANCE)


def test_keys_hidden_from_a_whole_row(small_blocks):
    options = {"scale": SCALE, "mask": length_mask(torch.tensor([0, 30]), 50)}
    qkv = block(QUERIES, 50)
    torch.testing.assert_close(onednn(*qkv, **options), reference(*qkv, **options), **TOLERANCE)


def test_keys_and_values_may_be_views_of_a_lane_with_more_room():
    q, k, v = block(40, 60)
    seen = k[:, :, :50], v[:, :, :50]
    expected = reference(q, *(part.contiguous() for part in seen), scale=SCALE)
    torch.testing.assert_close(onednn(q, *seen, scale=SCALE), expected, **TOLERANCE)


def test_a_number_that_is_none_stays_where_it_is():
    q, k, v = block(40, 60)
    q[0, 0, 3] = float("nan")
    out, _ = onednn(q, k, v, scale=SCALE, mask=length_mask(torch.tensor([60, 60]), 60))
    broken = out.isnan().all(-1)
    assert broken[0, 0, 3]
    assert broken.sum() == 1


@pytest.mark.parametrize(("queries", "keys"), [(500, 300), (2, 300)])
def test_the_size_of_a_block_decides(monkeypatch, queries, keys):
    asked = []
    for name in ("onednn", "flash_cpu"):
        monkeypatch.setattr(f"pipeline.inference.kernels.onednn.{name}", lambda *_, by=name, **__: asked.append(by))
    q, k, v = block(queries, keys)
    onednn_by_size(q, k, v, scale=SCALE)
    onednn_by_size(q.bfloat16(), k, v, scale=SCALE)
    onednn_by_row(q, k, v, scale=SCALE)
    assert asked == ["onednn" if queries == 500 else "flash_cpu", "flash_cpu", "onednn"]


@pytest.mark.parametrize("heads", [6, 2])
def test_a_row_is_the_same_to_the_last_bit_beside_others(heads):
    q, k, v = block(700, 300, rows=1)
    q = q[:, :heads]
    out, lse = onednn_by_row(q, k, v, scale=SCALE)
    for few in (1, 2, 33, 500):
        part, part_lse = onednn_by_row(q[:, :, :few], k, v, scale=SCALE)
        assert torch.equal(part, out[:, :, :few])
        assert torch.equal(part_lse, lse[:, :, :few])
