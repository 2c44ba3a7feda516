"""Which part of a model each operation belongs to: named ranges around its modules while somebody looks."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from enum import StrEnum
from typing import Any

from torch.nn import Embedding, Module
from torch.profiler import record_function

from pipeline.inference.matrix_rate import Product
from pipeline.inference.model import LanguageModel


class Part(StrEnum):
    """Where time goes. Of those that contain each other, the innermost counts."""

    EMBEDDING = "embedding"
    PROJECTIONS = "attention: projections"
    OWN = "attention: own tokens"
    LEVELS = "attention: shared prefixes"
    AROUND = "attention: packing, positions"
    MLP = "MLP"
    OTHER = "norms and other elementwise"
    HEAD = "LM head"
    SAMPLING = "sampling"
    PREPARING = "preparing forwards"
    OVERHEAD = "overhead (Python, launches)"


@contextmanager
def marked(model: LanguageModel) -> Iterator[tuple[LanguageModel, Counter[Product]]]:
    """The same model with its parts named in the profiler, and the products that it computes, counted on the way."""
    products: Counter[Product] = Counter()
    with ExitStack() as hooks:
        for module, part in _parts(model.network).items():
            _name(module, part, hooks)
        for module in model.network.modules():
            if _is_matrix(module) or _is_experts(module):
                hooks.callback(module.register_forward_hook(_counting(products)).remove)
        kernel, decode = model.kernel, model.decode_kernel

        def named_kernel(*tensors: Any, causal: bool = False, **rule: Any) -> Any:
            with record_function((Part.OWN if causal else Part.LEVELS).value):
                return kernel(*tensors, causal=causal, **rule)

        def named_decode(*tensors: Any, **rule: Any) -> Any:
            with record_function(Part.OWN.value):
                return decode(*tensors, **rule)

        yield replace(model, kernel=named_kernel, decode_kernel=named_decode), products


def _parts(network: Any) -> dict[Module, Part]:
    """Attention is what knows its layer, and beside it lies the MLP; that holds for every family."""
    parts: dict[Module, Part] = {network: Part.OTHER}
    if (head := network.get_output_embeddings()) is not None:
        parts[head] = Part.HEAD
    for layer in network.modules():
        children = list(layer.children())
        attention = [child for child in children if _is_attention(child)]
        for child in children if attention else ():
            if child in attention:
                parts[child] = Part.AROUND
                parts |= {module: Part.PROJECTIONS for module in child.modules() if _is_matrix(module)}
            elif any(weight.ndim > 1 for weight in child.parameters()):
                parts[child] = Part.MLP
    return parts | {module: Part.EMBEDDING for module in network.modules() if isinstance(module, Embedding)}


def _is_attention(module: Module) -> bool:
    knowing = [inner for inner in module.modules() if isinstance(getattr(inner, "layer_idx", None), int)]
    return knowing == [module]


def _is_matrix(module: Module) -> bool:
    own = dict(module.named_parameters(recurse=False))
    return "weight" in own and own["weight"].ndim == 2 and not isinstance(module, Embedding)


def _is_experts(module: Module) -> bool:
    return any(weight.ndim == 3 for weight in module.parameters(recurse=False))


def _name(module: Module, part: Part, hooks: ExitStack) -> None:
    open_ranges: list[ExitStack] = []

    def enter(*_: Any) -> None:
        open_ranges.append(ExitStack())
        open_ranges[-1].enter_context(record_function(part.value))

    def leave(*_: Any) -> None:
        open_ranges.pop().close()

    hooks.callback(module.register_forward_pre_hook(enter).remove)
    hooks.callback(module.register_forward_hook(leave, always_call=True).remove)


def _counting(products: Counter[Product]) -> Callable[..., None]:
    def count(module: Any, given: tuple[Any, ...], _: Any) -> None:
        if _is_matrix(module):
            inner = given[0].shape[-1]
            products[Product(given[0].numel() // inner, inner, module.weight.numel() // inner)] += 1
            return
        pairs = next(tensor.numel() for tensor in given[1:] if not tensor.is_floating_point())
        for weight in module.parameters(recurse=False):
            if weight.ndim == 3:
                products[Product(pairs, *weight.shape[1:])] += 1

    return count
