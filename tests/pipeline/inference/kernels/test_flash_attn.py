"""Our calls into flash-attn, held to the real package: on a CPU by its Triton kernels, under Triton's interpreter."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ("flash_attn", "triton", "einops")
pytestmark = pytest.mark.skipif(not all(map(importlib.util.find_spec, PACKAGES)), reason=f"needs {', '.join(PACKAGES)}")
ENVIRONMENT = os.environ | {"TRITON_INTERPRET": "1", "FLASH_ATTENTION_TRITON_AMD_ENABLE": "TRUE"}
CAPTURE = """
import inspect

import flash_attn.flash_attn_interface as interface
import torch

given = []
def note(q, *rest, **named):
    given.append((q, *rest, named))
    return q, torch.zeros(q.shape[-2], len(q)), None, None
interface._wrapped_flash_attn_forward = interface._wrapped_flash_attn_varlen_forward = note

from pipeline.inference.kernels.flash_attn import flash_attn

q = torch.zeros(2, 4, 3, 8)
for mask in (None, torch.zeros(2, 1, 1, 3)):
    flash_attn(q, q, q, scale=0.5, mask=mask, softcap=30.0)
for function, (*rest, named) in zip((interface._flash_attn_forward, interface._flash_attn_varlen_forward), given):
    bound = inspect.signature(function._init_fn).bind(*rest, **named).arguments
    print(bound["softmax_scale"], bound["softcap"])
"""
CAPTURE_DECODE = """
import inspect

import flash_attn.flash_attn_interface as interface
import torch

package, given = interface.flash_attn_gpu.fwd_kvcache, []
def note(q, *rest):
    given.append(inspect.signature(package).bind(q, *rest).arguments)
    return q, torch.zeros(q.shape[0] * q.shape[2], 1)
interface.flash_attn_gpu.fwd_kvcache = note

from pipeline.inference.kernels.flash_attn import flash_attn_decode

q, lanes, lengths = torch.zeros(3, 4, 1, 8), torch.zeros(3, 2, 40, 8), torch.tensor([1, 2, 5])
for window, softcap in ((None, None), (16, 30.0)):
    out, lse = flash_attn_decode(q, lanes, lanes, lengths, scale=0.5, longest=5, window=window, softcap=softcap)
    assert (out.shape, lse.shape) == (q.shape, q.shape[:3])
for call in given:
    assert call["k_cache"].data_ptr() == lanes.data_ptr() and call["k_cache"].shape == (3, 40, 2, 8)
    assert call["cache_seqlens"].dtype is torch.int32 and call["cache_seqlens"].tolist() == [1, 2, 5]
    print(*(call[name] for name in ("softmax_scale", "softcap", "window_size_left", "window_size_right")))
"""


def run(*arguments: str) -> str:
    """In a process of its own, as the interpreter is chosen when triton is imported."""
    done = subprocess.run([sys.executable, *arguments], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_suites_of_all_back_ends():
    suites = [str(Path(__file__).with_name(name)) for name in ("test_backends.py", "test_decoding.py")]
    told = run("-m", "pytest", *suites, "-q", "-p", "no:cacheprovider")
    assert "passed" in told
    assert "failed" not in told


def test_the_cap_and_the_scale_reach_the_package():
    """Of no effect on a CPU, so that what is handed over is looked at."""
    told = run("-c", CAPTURE)
    assert told.split() == ["0.5", "30.0", "0.5", "30.0"]


def test_the_cap_the_window_and_lanes_where_they_lie_reach_the_package_in_decoding():
    """Of these too the Triton kernels make nothing. A window of 16 here, a token and 15 before it, is 15 there."""
    assert run("-c", CAPTURE_DECODE).split() == ["0.5", "0.0", "-1", "-1", "0.5", "30.0", "15", "0"]
