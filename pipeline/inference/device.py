"""Which device a worker computes on: the one that is asked for, or the best there is."""

import torch

from pipeline.errors import ModelError


def choose_device(wanted: str) -> torch.device:
    """`auto` is the first CUDA device, or the CPU. Raises ModelError for one that cannot be used here."""
    automatic = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=automatic if wanted == "auto" else wanted).device
    except (RuntimeError, AssertionError) as error:
        raise ModelError(
            f"PIPELINE_DEVICE is {wanted}, which cannot be used here. Set it to {automatic} or auto."
        ) from error
