import torch

from pipeline.inference.kernels.ragged import hides_whole_keys, without_hidden
from pipeline.inference.kernels.reference import reference
from pipeline.inference.masks import length_mask, window_mask

SCALE = 0.2


def by_row(ragged):
    """What a kernel for sequences of varying length says; garbage for a row without keys, as some do."""
    outs, lses = [], []
    for row in range(len(ragged.q_starts) - 1):
        of_queries = slice(*ragged.q_starts[row : row + 2].tolist())
        of_keys = slice(*ragged.k_starts[row : row + 2].tolist())
        blocks = [ragged.q[of_queries], ragged.k[of_keys], ragged.v[of_keys]]
        out, lse = reference(*(block.transpose(0, 1)[None] for block in blocks), scale=SCALE)
        outs.append(out[0].transpose(0, 1))
        lses.append(lse[0].masked_fill(lse[0].isinf(), float("inf")))
    return torch.cat(outs), torch.cat(lses, 1)


def test_leaving_keys_out_is_hiding_them():
    q, k, v = torch.randn(4, 6, 3, 8), torch.randn(4, 2, 5, 8), torch.randn(4, 2, 5, 8)
    mask = length_mask(torch.tensor([1, 5, 0, 2]), 5)
    ragged = without_hidden(q, k, v, mask)
    assert ragged.q_starts.tolist() == [0, 3, 6, 9, 12]
    assert ragged.k_starts.tolist() == [0, 1, 6, 6, 8]
    assert ragged.q_starts.dtype == ragged.k_starts.dtype == torch.int32
    assert (ragged.queries, ragged.longest, len(ragged.k)) == (3, 5, 8)
    torch.testing.assert_close(ragged.padded(*by_row(ragged)), reference(q, k, v, scale=SCALE, mask=mask))


def test_one_mask_for_all_rows():
    q, k, v = torch.randn(2, 2, 1, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8)
    mask = length_mask(torch.tensor([3]), 5)
    ragged = without_hidden(q, k, v, mask)
    assert ragged.k_starts.tolist() == [0, 3, 6]
    torch.testing.assert_close(ragged.padded(*by_row(ragged)), reference(q, k, v, scale=SCALE, mask=mask))


def test_what_can_be_left_out():
    place = torch.arange(5)[None]
    assert hides_whole_keys(length_mask(torch.tensor([3, 4]), 5))
    assert not hides_whole_keys(window_mask(place, place, 2))
