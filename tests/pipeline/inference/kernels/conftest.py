"""The attention back ends that can run in this process, each on its device and in its precisions."""

import os
from dataclasses import dataclass

import pytest
import torch

from pipeline.inference.kernels.flash_cpu import flash_cpu, flash_cpu_decode
from pipeline.inference.kernels.flash_cuda import flash_cuda, flash_cuda_decode
from pipeline.inference.kernels.kernel import DecodeKernel, Kernel
from pipeline.inference.kernels.onednn import onednn

#: Set where flash-attn runs on a CPU: by its Triton kernels, under Triton's interpreter.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
#: Largest difference of outputs, of the size of 1, from the reference computed in fp32.
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}


@dataclass(frozen=True)
class Backend:
    name: str
    kernel: Kernel
    decode: DecodeKernel
    device: str
    dtype: torch.dtype
    caps_scores: bool = True  #: the package's Triton kernels leave the cap out
    decodes_in_windows: bool = True  #: the package's Triton kernels leave the window out
    decode_lse_tolerance: float = 1e-4  #: fp32 whatever the inputs are
    many: int = 500  #: rows; the interpreter computes one after the other

    @property
    def tolerance(self) -> float:
        return TOLERANCE[self.dtype]

    def __str__(self) -> str:
        return f"{self.name}-{self.device}-{str(self.dtype).removeprefix('torch.')}"


def _flash_attn() -> tuple[Kernel, DecodeKernel] | None:
    try:
        from pipeline.inference.kernels.flash_attn import flash_attn, flash_attn_decode
    except ImportError:
        return None
    return flash_attn, flash_attn_decode


def _interpreted() -> list[Backend]:
    """In fp16 alone: of the two precisions that the package takes, the interpreter computes garbage in bf16."""
    import flash_attn.flash_attn_interface as interface

    # Its operators are registered for CUDA alone; these are the functions behind them.
    interface._wrapped_flash_attn_forward = interface._flash_attn_forward._init_fn
    interface._wrapped_flash_attn_varlen_forward = interface._flash_attn_varlen_forward._init_fn
    kernels = _flash_attn()
    assert kernels is not None
    # In decoding they scale the queries in half precision, which the log-sum-exp shows.
    lacks = {"caps_scores": False, "decodes_in_windows": False, "decode_lse_tolerance": 2e-3, "many": 50}
    return [Backend("flash_attn", *kernels, "cpu", torch.float16, **lacks)]


def _backends() -> list[Backend]:
    if INTERPRETED:
        return _interpreted()
    found = [Backend("flash_cpu", flash_cpu, flash_cpu_decode, "cpu", dtype) for dtype in TOLERANCE]
    found.append(Backend("onednn", onednn, flash_cpu_decode, "cpu", torch.float32))
    if torch.cuda.is_available():
        on_cuda = {"flash_cuda": (flash_cuda, flash_cuda_decode), "flash_attn": _flash_attn()}
        half = (torch.bfloat16, torch.float16)
        found += [Backend(name, *pair, "cuda", dtype) for name, pair in on_cuda.items() if pair for dtype in half]
    return found


@pytest.fixture(params=_backends(), ids=str)
def backend(request: pytest.FixtureRequest) -> Backend:
    found: Backend = request.param
    return found
