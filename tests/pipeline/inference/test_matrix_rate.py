from collections import Counter
from types import SimpleNamespace

import pytest
import torch

from pipeline.inference import matrix_rate as module
from pipeline.inference.matrix_rate import Product, large_rate, matrix_rate

CPU = torch.device("cpu")


def test_a_product_takes_a_multiplication_and_an_addition_for_each_pair():
    assert Product(2, 3, 5).operations == 2 * 2 * 3 * 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rates_are_of_this_machine(dtype):
    rate = matrix_rate(Counter({Product(64, 128, 128): 3, Product(1, 128, 128): 1}), CPU, dtype)
    assert 1e6 < rate < 1e15


def test_the_heaviest_products_decide(monkeypatch):
    timed = []
    monkeypatch.setattr(module, "_seconds", lambda product, *_: timed.append(product) or 1.0)
    heavy = [Product(100 + n, 10, 10) for n in range(10)]
    rate = matrix_rate(Counter(dict.fromkeys(heavy, 1) | {Product(1, 1, 1): 5}), CPU, torch.float32)
    assert sorted(timed) == heavy
    assert rate == sum(product.operations for product in heavy) / 10


def test_often_weighs_as_much_as_large(monkeypatch):
    monkeypatch.setattr(module, "_seconds", lambda product, *_: 1.0 if product.rows == 1 else 10.0)
    rate = matrix_rate(Counter({Product(1, 1, 1): 10, Product(10, 1, 1): 1}), CPU, torch.float32)
    assert rate == (10 * 2 + 20) / (10 * 1.0 + 10.0)


def test_one_large_product(monkeypatch):
    monkeypatch.setattr(module, "_SIDE", {"cpu": 64})
    assert large_rate(CPU, torch.float32) > 1e6


def test_where_torch_has_no_onednn_its_linear_layer_is_timed(monkeypatch):
    monkeypatch.setattr(torch._C, "_has_mkldnn", False)
    monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace())
    assert matrix_rate(Counter({Product(64, 128, 128): 1}), CPU, torch.float32) > 1e6
