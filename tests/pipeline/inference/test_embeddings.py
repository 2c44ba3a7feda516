"""Vectors of texts against the plain model's states, pooled as sentence-transformers does it."""

import struct
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import normalize

from pipeline.inference.engine import Engine
from pipeline.inference.loading import adopt
from pipeline.inference.prefix_store import PrefixStore
from pipeline.rows import Embed, Status

TOLERANCE = 1e-5


def vector(completion):
    return torch.tensor(struct.unpack(f"<{len(completion.embedding) // 4}f", completion.embedding))


def embedded(model, batch, pooling, **limits):
    completions, timing = Engine(model, PrefixStore(1 << 24), str, **limits).answer(batch, Embed(pooling))
    assert {completion.status for completion in completions} == {Status.OK}
    return {completion.row_id: vector(completion) for completion in completions}, timing


def plain(network, token_ids, pooling):
    """The formulas of sentence-transformers' Pooling and Normalize, for a text that is not padded."""
    with torch.no_grad():
        states = network.base_model(torch.tensor([token_ids])).last_hidden_state[0]
    mask = torch.ones(len(token_ids), 1)
    mean = (states * mask).sum(0) / mask.sum(0).clamp(min=1e-9)
    return normalize(states[-1] if pooling == "last" else mean, p=2, dim=0)


@pytest.fixture
def batch(make_batch):
    """Some rows lie behind a document that they share."""
    made = make_batch([1, 30, 33, 7, 30])
    document = made.prompts[1].own_ids[:25]
    prompts = [
        replace(prompt, own_ids=(*document, *prompt.own_ids[25:]), cuts=(25,)) if len(prompt.own_ids) == 30 else prompt
        for prompt in made.prompts
    ]
    return replace(made, prompts=tuple(prompts))


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_vectors_are_the_plain_model_s(family, batch, pooling):
    found, timing = embedded(adopt(family), batch, pooling)
    family.set_attn_implementation("eager")
    for prompt in batch.prompts:
        expected = plain(family, batch.prefix + prompt.own_ids, pooling)
        assert (found[prompt.row_id] - expected).abs().max() <= TOLERANCE
    assert (timing.reused_tokens > 0) == (pooling == "last")


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_a_row_has_the_same_vector_alone_and_among_others(llama, batch, pooling):
    model = adopt(llama)
    together, _ = embedded(model, batch, pooling)
    in_small_forwards, _ = embedded(model, batch, pooling, forward_tokens=20)
    for prompt in batch.prompts:
        alone, _ = embedded(model, replace(batch, prompts=(prompt,)), pooling)
        for other in (alone, in_small_forwards):
            assert (together[prompt.row_id] - other[prompt.row_id]).abs().max() <= TOLERANCE
        assert together[prompt.row_id].norm().item() == pytest.approx(1, abs=1e-6)


def test_states_that_are_not_numbers_are_an_error_row(llama, batch):
    model = adopt(llama)
    with torch.no_grad():
        llama.get_input_embeddings().weight[batch.prompts[0].own_ids[0]] = float("nan")
    completions, _ = Engine(model, PrefixStore(1 << 20), str).answer(batch, Embed("mean"))
    by_row = {completion.row_id: completion for completion in completions}
    assert (by_row[0].error_type, by_row[0].embedding) == ("numeric", None)
    assert by_row[2].status == Status.OK
