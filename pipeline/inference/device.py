"""Which device a worker computes on, and how precisely: as is asked for, or as suits the device."""

import platform

import torch

from pipeline.errors import ModelError

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(wanted: str, asked_by: str = "PIPELINE_DEVICE") -> torch.device:
    """`auto` is the first CUDA device, or the CPU. Raises ModelError for one that cannot be used here."""
    automatic = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=automatic if wanted == "auto" else wanted).device
    except (RuntimeError, AssertionError) as error:
        raise ModelError(
            f"{asked_by} is {wanted}, which cannot be used here. Set it to {automatic} or auto."
        ) from error


def choose_dtype(wanted: str, device: torch.device, stored: torch.dtype | None = None) -> torch.dtype:
    """`auto` is bfloat16 on a GPU; on a CPU where it multiplies that natively and the weights are `stored` so, too.

    Otherwise a CPU is fastest in float32, and weights that hold more than bfloat16 are not rounded to it unasked.
    """
    if wanted != "auto":
        return _DTYPES[wanted]
    if device.type != "cpu":
        return torch.bfloat16
    return torch.bfloat16 if stored == torch.bfloat16 and _multiplies_bfloat16() else torch.float32


def usual_dtypes(device: torch.device) -> list[torch.dtype]:
    """What `auto` may be there, by how a model's weights are stored; the most precise first."""
    return list(dict.fromkeys(choose_dtype("auto", device, stored) for stored in (torch.float32, torch.bfloat16)))


def device_name(device: torch.device) -> str:
    """What its speed depends on, as far as it can be told."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{platform.machine()} {device.type}, {torch.backends.cpu.get_cpu_capability()}, {threads} threads"


def _multiplies_bfloat16() -> bool:
    """By AVX-512 or AMX instructions; a CPU without them emulates it, many times slower than float32."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
