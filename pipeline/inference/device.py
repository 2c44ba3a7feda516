"""Which device a worker computes on, and how precisely: as is asked for, or as suits the device."""

import torch

from pipeline.errors import ModelError

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(wanted: str) -> torch.device:
    """`auto` is the first CUDA device, or the CPU. Raises ModelError for one that cannot be used here."""
    automatic = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=automatic if wanted == "auto" else wanted).device
    except (RuntimeError, AssertionError) as error:
        raise ModelError(
            f"PIPELINE_DEVICE is {wanted}, which cannot be used here. Set it to {automatic} or auto."
        ) from error


def choose_dtype(wanted: str, device: torch.device) -> torch.dtype:
    """`auto` is what models are trained in on a GPU, and the plain model's own numbers on a CPU."""
    if wanted == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    return _DTYPES[wanted]
