import sys

import pytest
import torch

from pipeline.inference.kernels.flash_cpu import flash_cpu, flash_cpu_decode
from pipeline.inference.kernels.flash_cuda import flash_cuda, flash_cuda_decode
from pipeline.inference.kernels.onednn import onednn_by_size
from pipeline.inference.kernels.reference import reference, reference_decode
from pipeline.inference.kernels.selection import choose_kernel

CUDA = torch.device("cuda", 0)
WHOLE = torch.float32
HALF = (torch.bfloat16, torch.float16)
OURS = "pipeline.inference.kernels.flash_attn"


@pytest.fixture
def unimported():
    """Our side of the package, imported anew in the test and as it was after it."""
    before = sys.modules.pop(OURS, None)
    yield
    sys.modules.pop(OURS, None)
    if before is not None:
        sys.modules[OURS] = before


def test_a_cpu_gets_onednn_where_it_pays():
    name = "oneDNN where blocks are large, torch flash attention for CPU"
    choice = choose_kernel(torch.device("cpu"), WHOLE)
    assert choice == (name, "the device is a CPU, in float32", onednn_by_size, flash_cpu_decode)


@pytest.mark.parametrize("dtype", HALF)
def test_a_cpu_gets_the_flash_kernel_in_half_precision(dtype):
    choice = choose_kernel(torch.device("cpu"), dtype)
    assert choice == ("torch flash attention for CPU", "the device is a CPU", flash_cpu, flash_cpu_decode)


def test_other_devices_get_the_reference():
    expected = ("plain reference", "no other runs on meta", reference, reference_decode)
    assert choose_kernel(torch.device("meta"), WHOLE) == expected


def test_whole_precision_on_cuda_gets_the_reference():
    name, why, kernel, decode = choose_kernel(CUDA, WHOLE)
    assert (name, kernel, decode) == ("plain reference", reference, reference_decode)
    assert why == "flash attention on CUDA needs bfloat16 or float16"


def test_an_old_gpu_gets_the_reference(monkeypatch):
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: (7, 5))
    name, why, kernel, decode = choose_kernel(CUDA, torch.float16)
    assert (name, kernel, decode) == ("plain reference", reference, reference_decode)
    assert why == "flash attention needs a GPU of the Ampere generation or newer"


@pytest.mark.parametrize("dtype", HALF)
def test_cuda_gets_torch_s_kernel_where_the_package_is_missing(unimported, monkeypatch, dtype):
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: (8, 0))
    monkeypatch.setitem(sys.modules, "flash_attn", None)
    name, why, kernel, decode = choose_kernel(CUDA, dtype)
    assert (name, kernel, decode) == ("torch flash attention for CUDA", flash_cuda, flash_cuda_decode)
    assert why.startswith("flash-attn cannot be imported: ")


@pytest.mark.parametrize("dtype", HALF)
def test_cuda_gets_the_package_where_it_is_there(unimported, monkeypatch, dtype):
    """The package is stood in for by functions of its names: it is chosen for being importable, not for its work."""
    package = type(sys)("flash_attn")
    package.flash_attn_func = package.flash_attn_varlen_func = package.flash_attn_with_kvcache = None
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: (9, 0))
    monkeypatch.setitem(sys.modules, "flash_attn", package)
    name, why, kernel, decode = choose_kernel(CUDA, dtype)
    assert (name, why) == ("flash-attn 2", "the package is installed")
    assert (kernel.__name__, decode.__name__) == ("flash_attn", "flash_attn_decode")
