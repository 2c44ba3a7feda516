"""A model whose attention is not what we compute is found out before its first batch, by its logits."""

from dataclasses import replace

import pytest
import torch
from transformers import Gemma3TextConfig, MoshiConfig, Qwen2MoeConfig

from pipeline.errors import ModelError
from pipeline.inference.loading import adopt
from pipeline.inference.proof import prove
from tests.pipeline.inference.conftest import SIZES, network


@pytest.fixture
def model(llama):
    return adopt(llama)


def sharper(kernel):
    """The mistake of a kernel that scales scores in another way."""
    return lambda *tensors, scale, **options: kernel(*tensors, scale=2 * scale, **options)


def test_a_model_that_is_computed_as_it_is_passes(model):
    prove(model)


@pytest.mark.parametrize("part", ["kernel", "decode_kernel"])
def test_a_wrong_kernel_is_found_out(model, part):
    with pytest.raises(ModelError, match=r"^Models of type llama .* differ from the plain model's by \d"):
        prove(replace(model, **{part: sharper(getattr(model, part))}))


def test_a_decode_kernel_that_sees_behind_a_row_s_end_is_found_out(model):
    def sees_all(q, k, v, lengths, **options):
        return model.decode_kernel(q, k, v, torch.full_like(lengths, k.shape[2]), **options | {"longest": k.shape[2]})

    with pytest.raises(ModelError, match="packed logits differ"):
        prove(replace(model, decode_kernel=sees_all))


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        ("float32", r"damaged\. Get its files anew"),
        ("float16", r"damaged, or too large for float16\. Try --dtype float32"),
    ],
)
def test_weights_that_are_no_numbers_are_not_the_family_s_fault(llama, dtype, words):
    with torch.no_grad():
        llama.model.norm.weight.fill_(float("nan"))
    with pytest.raises(
        ModelError, match=f"^What the model computes in {dtype} is not a number: its weights are {words}"
    ):
        adopt(llama.to(getattr(torch, dtype)))


MOE = {"num_experts": 4, "moe_intermediate_size": 48, "shared_expert_intermediate_size": 48, "num_experts_per_tok": 2}
SLIDING = ["full_attention", "sliding_attention", "full_attention"]


def windowed(window):
    """Of a family that keeps its window in its mask, and tells attention nothing of it."""
    slides = {"use_sliding_window": True, "sliding_window": window, "layer_types": SLIDING}
    return network(Qwen2MoeConfig(**SIZES, **MOE, **(slides if window else {})))


def test_a_window_that_would_be_lost_is_found_out_however_long_it_is():
    with pytest.raises(
        ModelError, match=r"^Models of type qwen2_moe cannot .* a window of tokens only, 100 in this one"
    ):
        adopt(windowed(100))


def test_a_window_that_only_the_cache_of_generate_knows_is_found_out():
    with pytest.raises(ModelError, match=r"^Models of type moshi cannot .* a window of tokens only, 100 in this one"):
        adopt(network(MoshiConfig(**SIZES, sliding_window=100)))


@pytest.mark.parametrize("window", [SIZES["max_position_embeddings"], None])
def test_one_as_long_as_the_context_loses_nothing(window):
    adopt(windowed(window))


def test_windows_are_what_they_were_once_they_are_proven():
    proven = network(Gemma3TextConfig(**SIZES, head_dim=16, sliding_window=100, layer_types=SLIDING))
    adopt(proven)
    windows = [layer.self_attn.sliding_window for layer in proven.model.layers]
    assert (proven.config.sliding_window, windows) == (100, [None, 100, None])
