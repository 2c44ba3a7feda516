"""How fast this device multiplies matrices: what a model's speed is held against."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import torch

#: Products that are timed: the heaviest, which a model's others resemble.
_PRODUCTS = 10
_SIDE = {"cpu": 1536}
_LARGE_SIDE = 8192
#: A product is repeated for so long, to outlast the clock, and so many times.
_REPEAT_S = 0.01
_RUNS = 3


class Product(NamedTuple):
    """[rows, inner] times [inner, columns]."""

    rows: int
    inner: int
    columns: int

    @property
    def operations(self) -> int:
        return 2 * self.rows * self.inner * self.columns


def matrix_rate(products: Counter[Product], device: torch.device, dtype: torch.dtype) -> float:
    """Operations a second over these products, each as often as it is counted, at its best."""
    heaviest = sorted(products, key=lambda product: product.operations * products[product])[-_PRODUCTS:]
    seconds = sum(products[product] * _seconds(product, device, dtype) for product in heaviest)
    return sum(products[product] * product.operations for product in heaviest) / seconds


def large_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Of one large square product."""
    side = _SIDE.get(device.type, _LARGE_SIDE)
    return matrix_rate(Counter([Product(side, side, side)]), device, dtype)


def finish(device: torch.device) -> None:
    """Waits until the device has done what it was told to."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@torch.inference_mode()
def _seconds(product: Product, device: torch.device, dtype: torch.dtype) -> float:
    """In the faster of the ways in which a model's linear layers may be computed."""
    x = torch.randn(product.rows, product.inner, device=device, dtype=dtype)
    weight = torch.randn(product.columns, product.inner, device=device, dtype=dtype)
    ways: list[Callable[[], object]] = [partial(torch.nn.functional.linear, x, weight)]
    # A CPU's weights can be laid out beforehand, where torch has oneDNN and that is made for it.
    if torch._C._has_mkldnn:
        with suppress(RuntimeError):
            laid = torch.ops.mkldnn._reorder_linear_weight(weight, None)
            ways.append(partial(torch.ops.mkldnn._linear_pointwise, x, laid, None, "none", [], ""))
    return min(_best(way, device) for way in ways)


def _best(multiply: Callable[[], object], device: torch.device) -> float:
    _timed(multiply, 1, device)
    repeats = max(1, int(_REPEAT_S / _timed(multiply, 1, device)))
    return min(_timed(multiply, repeats, device) for _ in range(_RUNS)) / repeats


def _timed(act: Callable[[], object], repeats: int, device: torch.device) -> float:
    finish(device)
    started = time.perf_counter()
    for _ in range(repeats):
        act()
    finish(device)
    return time.perf_counter() - started
