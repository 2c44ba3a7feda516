"""Answers that are the same to the last bit whatever rows are answered beside them: what it takes, and who can have it.

All weights are laid out (prelaid.py), so that a row's product with them depends on the row alone. What attention reads
is padded to a class of length that is the row's own, whatever its neighbours need. Rows share what all rows of the job
share, and nothing else. And a forward is filled up with tokens that nobody reads, for vector instructions and kernels
treat a remainder otherwise than a full step.
"""

from dataclasses import replace

import torch

from pipeline.errors import ModelError
from pipeline.inference.kernels.onednn import onednn_by_row
from pipeline.inference.model import LanguageModel
from pipeline.inference.prelaid import other_products


def deterministic(model: LanguageModel) -> LanguageModel:
    """Raises ModelError where the promise could not be kept."""
    if model.device.type != "cpu" or model.shape.dtype != torch.float32:
        dtype = str(model.shape.dtype).removeprefix("torch.")
        raise ModelError(
            f"--deterministic is kept on a CPU in float32, and this is {model.device.type} in {dtype}. "
            "Set PIPELINE_DEVICE=cpu and leave out --dtype, or leave out --deterministic."
        )
    if others := other_products(model.network):
        raise ModelError(
            f"--deterministic cannot be kept for models of type {model.network.config.model_type}: the products in "
            f"{others[0]} depend on the rows beside a row. Leave it out, or take a dense model such as Llama or Qwen."
        )
    return replace(model, deterministic=True, kernel=onednn_by_row)
