"""Linear layers on a CPU, their weights laid out once as its matrix kernels read them, instead of at every call.

It is what torch does for compiled models, by oneDNN. And a row's product is the same to the last bit whatever other
rows are multiplied beside it, on which deterministic answers rest.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import Embedding, Linear, Module, Parameter
from transformers.pytorch_utils import Conv1D

#: A single row would go to another kernel, which sums up in another order.
_FEWEST_ROWS = 2


class PrelaidLinear(Module):
    """In place of a Linear. Its weight can be multiplied with, and nothing else."""

    def __init__(self, weight: Tensor, bias: Parameter | None) -> None:
        """weight [out, in]"""
        super().__init__()
        self.out_features, self.in_features = weight.shape
        laid = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), None)
        self.weight, self.bias = Parameter(laid, requires_grad=False), bias

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]"""
        rows = x.reshape(-1, self.in_features)
        enough = rows if len(rows) >= _FEWEST_ROWS else rows.repeat(_FEWEST_ROWS, 1)
        out: Tensor = torch.ops.mkldnn._linear_pointwise(enough, self.weight, self.bias, "none", [], "")
        return out[: len(rows)].view(*x.shape[:-1], self.out_features)


def lay_out(network: Any) -> None:
    """Replaces the linear layers of a model on a CPU. Those of quantisers and adapters stay as they are."""
    if not _is_of_use(network.get_input_embeddings().weight):
        return
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if (weight := _plain_weight(child)) is not None and not _is_of_peft(module):
                setattr(module, name, PrelaidLinear(weight, child.bias))


def other_products(network: Any) -> list[str]:
    """Names of the modules that multiply by weights which are not laid out."""
    return [
        name
        for name, module in network.named_modules()
        if not isinstance(module, Embedding | PrelaidLinear)
        and any(weight.ndim > 1 for weight in module.parameters(recurse=False))
    ]


def _is_of_use(weight: Tensor) -> bool:
    if weight.device.type != "cpu" or not torch._C._has_mkldnn:
        return False
    is_fast_half = weight.dtype == torch.bfloat16 and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return weight.dtype == torch.float32 or is_fast_half


def _plain_weight(module: Module) -> Tensor | None:
    """[out, in], of a layer that is as torch or transformers made it."""
    if type(module) not in (Linear, Conv1D) or type(module.weight) is not Parameter:
        return None
    return module.weight if type(module) is Linear else module.weight.T


def _is_of_peft(module: Module) -> bool:
    """Its layers look at the weights of those inside them."""
    return type(module).__module__.startswith("peft.")
