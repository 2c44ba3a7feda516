import copy

import pytest
import torch

from pipeline.inference.engine import Engine
from pipeline.inference.loading import adopt
from pipeline.inference.prefix_store import PrefixStore
from pipeline.inference.prelaid import PrelaidLinear, lay_out, other_products
from pipeline.rows import Generate

LENGTHS = [1, 33, 7, 64, 7, 2]


def spelled(token_ids):
    return " ".join(map(str, token_ids))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1,), (1, 1), (1, 7), (2, 3, 5), ()])
def test_products_are_those_of_the_layer_it_replaces(shape, bias):
    linear, x = torch.nn.Linear(48, 20, bias=bias), torch.randn(*shape, 48)
    with torch.inference_mode():
        torch.testing.assert_close(PrelaidLinear(linear.weight, linear.bias)(x), linear(x))


@pytest.mark.parametrize(("inner", "outer"), [(64, 300), (576, 192), (1536, 576)])
def test_a_rows_product_does_not_depend_on_the_rows_beside_it(inner, outer):
    layer, x = PrelaidLinear(torch.randn(outer, inner), None), torch.randn(260, inner)
    with torch.inference_mode():
        whole = layer(x)
        for first, end in ((0, 1), (5, 6), (1, 3), (10, 19), (7, 71), (3, 259)):
            assert torch.equal(layer(x[first:end]), whole[first:end])


def test_every_family_answers_the_same_with_laid_out_weights(family, make_batch):
    batch, laid = make_batch(LENGTHS), copy.deepcopy(family)
    lay_out(laid)
    assert any(isinstance(module, PrelaidLinear) for module in laid.modules())
    expected, _ = Engine(adopt(family), PrefixStore(1 << 20), spelled).answer(batch, Generate(12))
    assert Engine(adopt(laid), PrefixStore(1 << 20), spelled).answer(batch, Generate(12))[0] == expected


def test_what_is_not_laid_out_is_told(llama):
    assert "model.layers.0.mlp.down_proj" in other_products(llama)
    lay_out(llama)
    assert other_products(llama) == []


def test_layers_that_are_no_plain_ones_stay(llama):
    class Other(torch.nn.Linear):
        pass

    llama.model.layers[0].mlp.up_proj = other = Other(64, 96)
    lay_out(llama)
    assert llama.model.layers[0].mlp.up_proj is other
    assert other_products(llama) == ["model.layers.0.mlp.up_proj"]
