import pytest
import torch

from pipeline.inference.device import choose_dtype

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.parametrize(("device", "dtype"), [(CPU, torch.float32), (CUDA, torch.bfloat16)], ids=str)
def test_auto_suits_the_device(device, dtype):
    assert choose_dtype("auto", device) is dtype


@pytest.mark.parametrize("wanted", ["float32", "bfloat16", "float16"])
def test_what_is_asked_for_is_had_anywhere(wanted):
    assert choose_dtype(wanted, CPU) is choose_dtype(wanted, CUDA) is getattr(torch, wanted)
