import torch

from pipeline.inference.padding import Padding

CPU = torch.device("cpu")


def test_pad_puts_each_row_at_the_start_of_its_line():
    packed = torch.arange(6.0).view(1, 1, 6, 1)
    block = Padding([1, 3, 2], CPU).pad(packed)
    assert block.shape == (3, 1, 3, 1)
    assert block[:, 0, :, 0].tolist() == [[0, 0, 0], [1, 2, 3], [4, 5, 5]]


def test_unpad_undoes_pad_for_outputs_and_log_sum_exps():
    packed = torch.randn(1, 4, 11, 8)
    padding = Padding([5, 1, 2, 3], CPU)
    assert torch.equal(padding.unpad(padding.pad(packed)), packed)
    lse = torch.randn(1, 4, 11)
    block = padding.pad(lse.unsqueeze(-1)).squeeze(-1)
    assert torch.equal(padding.unpad(block), lse)
