"""A deterministic model's numbers for a row are the same to the last bit, whatever rows are answered beside it."""

import random
from dataclasses import replace

import pytest
import torch

from pipeline.errors import ModelError
from pipeline.inference.determinism import deterministic
from pipeline.inference.engine import Engine
from pipeline.inference.loading import adopt
from pipeline.inference.prefix_store import PrefixStore
from pipeline.inference.prelaid import lay_out, other_products
from pipeline.rows import Choose, Embed, Generate, Sampling, Score

LENGTHS = [1, 33, 7, 64, 7, 2, 90, 40, 13, 5, 51, 32, 31, 3, 100, 65, 8, 20, 17, 11, 29, 38, 47, 6]
LABELS = Choose(("a", "b", "c"), ((7,), (8, 9), (10, 11, 12)))
GREEDY = Generate(12, logprobs=3)
DRAWN = Generate(8, logprobs=0, samples=2, sampling=Sampling(temperature=0.9, top_p=0.95, repetition_penalty=1.1))
DETERMINISTIC = ["gemma2", "gemma3", "gpt2", "gpt_neox", "llama", "mistral", "opt", "phi", "qwen2", "qwen3"]


def spelled(token_ids):
    return " ".join(map(str, token_ids))


def answers(model, batch, task, size, **limits):
    engine = Engine(model, PrefixStore(1 << 20), spelled, **limits)
    parts = (batch.prompts[at : at + size] for at in range(0, len(batch.prompts), size))
    return {c.row_id: c for part in parts for c in engine.answer(replace(batch, prompts=part), task)[0]}


def shuffled(batch, seed):
    prompts = list(batch.prompts)
    random.Random(seed).shuffle(prompts)
    return replace(batch, prompts=tuple(prompts))


@pytest.fixture
def model(llama):
    lay_out(llama)
    return deterministic(adopt(llama))


@pytest.mark.parametrize(
    ("task", "prefix"),
    [(GREEDY, 0), (GREEDY, 40), (DRAWN, 40), (LABELS, 0), (LABELS, 40)],
    ids=["greedy", "greedy-40", "drawn-40", "choose", "choose-40"],
)
def test_for_any_batch_size_and_order(model, make_batch, task, prefix):
    batch = make_batch(LENGTHS, prefix)
    whole = answers(model, batch, task, 64)
    for size, seed in ((1, 0), (7, 1), (64, 3)):
        assert answers(model, shuffled(batch, seed), task, size) == whole


@pytest.mark.parametrize("most", [25, 1000])
def test_for_texts_that_are_scored(model, make_batch, monkeypatch, most):
    """Whether they fit into a forward or go in steps."""
    monkeypatch.setattr("pipeline.inference.targets.MOST_SCORED_LOGITS", most * model.vocab_size)
    batch = make_batch(LENGTHS)
    scored = [replace(prompt, target=(*prompt.own_ids[:30], prompt.row_id)) for prompt in batch.prompts]
    batch = replace(batch, prompts=tuple(scored))
    whole = answers(model, batch, Score(2), 64)
    for size, seed in ((1, 0), (7, 1)):
        assert answers(model, shuffled(batch, seed), Score(2), size) == whole


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_for_embeddings(model, make_batch, pooling):
    batch = make_batch(LENGTHS)
    whole = answers(model, batch, Embed(pooling), 64)
    for size, seed in ((1, 0), (7, 1)):
        assert answers(model, shuffled(batch, seed), Embed(pooling), size) == whole


@pytest.mark.parametrize("limits", [{"forward_tokens": 50}, {"max_lane_bytes": 1}])
def test_for_any_share_of_memory(model, make_batch, limits):
    batch = make_batch(LENGTHS)
    assert answers(model, batch, GREEDY, 64, **limits) == answers(model, batch, GREEDY, 64)


def test_whatever_else_a_row_shares_with_others(model, make_batch):
    batch = make_batch(LENGTHS)
    cut = replace(batch, prompts=tuple(replace(p, cuts=(4,)) if len(p.own_ids) > 9 else p for p in batch.prompts))
    assert answers(model, cut, GREEDY, 64) == answers(model, batch, GREEDY, 64)


def test_of_every_family_whose_products_are_all_laid_out(family, make_batch):
    lay_out(family)
    assert (family.config.model_type.removesuffix("_text") in DETERMINISTIC) == (other_products(family) == [])
    if other_products(family):
        return
    model, batch = deterministic(adopt(family)), make_batch(LENGTHS)
    assert answers(model, shuffled(batch, 1), GREEDY, 5) == answers(model, batch, GREEDY, 64)


def test_only_a_cpu_in_float32_can_promise_it(llama):
    lay_out(llama)
    assert deterministic(adopt(llama)).deterministic
    half = adopt(llama)
    half = replace(half, shape=replace(half.shape, dtype=torch.bfloat16))
    with pytest.raises(ModelError, match="on a CPU in float32, and this is cpu in bfloat16"):
        deterministic(half)


def test_a_model_with_other_products_cannot_promise_it(llama):
    with pytest.raises(ModelError, match=r"models of type llama: the products in model\.layers\.0\.self_attn\.q_proj"):
        deterministic(adopt(llama))
