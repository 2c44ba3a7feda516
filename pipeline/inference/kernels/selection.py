"""Which back end computes attention on this machine, and why; nothing else ever chooses."""

from typing import NamedTuple

import torch

from pipeline.inference.kernels.flash_cpu import flash_cpu, flash_cpu_decode
from pipeline.inference.kernels.flash_cuda import flash_cuda, flash_cuda_decode
from pipeline.inference.kernels.kernel import DecodeKernel, Kernel
from pipeline.inference.kernels.onednn import onednn_by_size
from pipeline.inference.kernels.reference import reference, reference_decode

_HALF = (torch.bfloat16, torch.float16)
#: Ampere, the oldest GPUs that flash attention runs on.
_OLDEST_CAPABILITY = (8, 0)


class Choice(NamedTuple):
    """`why` follows `name` in one line of `doctor`."""

    name: str
    why: str
    kernel: Kernel
    decode: DecodeKernel


def choose_kernel(device: torch.device, dtype: torch.dtype) -> Choice:
    """The fastest that this device and precision allow."""
    if device.type == "cpu":
        return _for_cpu(dtype)
    if device.type != "cuda":
        return _plain(f"no other runs on {device.type}")
    if dtype not in _HALF:
        return _plain("flash attention on CUDA needs bfloat16 or float16")
    if torch.cuda.get_device_capability(device) < _OLDEST_CAPABILITY:
        return _plain("flash attention needs a GPU of the Ampere generation or newer")
    try:
        from pipeline.inference.kernels.flash_attn import flash_attn, flash_attn_decode
    except ImportError as error:
        why = f"flash-attn cannot be imported: {error}"
        return Choice("torch flash attention for CUDA", why, flash_cuda, flash_cuda_decode)
    return Choice("flash-attn 2", "the package is installed", flash_attn, flash_attn_decode)


def _for_cpu(dtype: torch.dtype) -> Choice:
    if dtype == torch.float32 and torch._C._has_mkldnn:
        name = "oneDNN where blocks are large, torch flash attention for CPU"
        return Choice(name, "the device is a CPU, in float32", onednn_by_size, flash_cpu_decode)
    return Choice("torch flash attention for CPU", "the device is a CPU", flash_cpu, flash_cpu_decode)


def _plain(why: str) -> Choice:
    return Choice("plain reference", why, reference, reference_decode)
