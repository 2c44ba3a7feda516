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


def run(*arguments: str) -> str:
    """In a process of its own, as the interpreter is chosen when triton is imported."""
    done = subprocess.run([sys.executable, *arguments], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_suite_of_all_back_ends():
    suite = Path(__file__).with_name("test_backends.py")
    told = run("-m", "pytest", str(suite), "-q", "-p", "no:cacheprovider")
    assert "passed" in told
    assert "failed" not in told


def test_the_cap_and_the_scale_reach_the_package():
    """Of no effect on a CPU, so that what is handed over is looked at."""
    told = run("-c", CAPTURE)
    assert told.split() == ["0.5", "30.0", "0.5", "30.0"]
