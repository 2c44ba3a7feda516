"""Scores of texts behind prompts against a whole forward of the plain model over each."""

import math
import random
from dataclasses import replace

import pytest
import torch

from pipeline.inference.engine import Engine
from pipeline.inference.loading import adopt
from pipeline.inference.prefix_store import PrefixStore
from pipeline.rows import Score, Status
from tests.pipeline.inference.conftest import VOCAB

TARGETS = [1, 12, 40, 3, 7]


@pytest.fixture
def batch(make_batch):
    """Rows of several lengths, the last two behind a document that they share, each with a target of its own."""
    made, numbers = make_batch([5, 1, 9, 33, 30]), random.Random(3)
    prompts = [
        replace(prompt, target=tuple(numbers.randrange(VOCAB) for _ in range(length)))
        for prompt, length in zip(made.prompts, TARGETS, strict=True)
    ]
    document = made.prompts[3].own_ids[:25]
    shared = [replace(prompt, own_ids=(*document, *prompt.own_ids[25:]), cuts=(25,)) for prompt in prompts[3:]]
    return replace(made, prompts=(*prompts[:3], *shared))


def expected(network, batch):
    """By row, the natural logarithm of each token's probability."""
    network.set_attn_implementation("eager")
    for prompt in batch.prompts:
        before = batch.prefix + prompt.own_ids
        with torch.no_grad():
            logprobs = network(torch.tensor([before + prompt.target])).logits[0].log_softmax(-1)
        yield [logprobs[len(before) + place - 1, token].item() for place, token in enumerate(prompt.target)]


def answered(model, batch, task=Score(), **limits):  # noqa: B008 - it is frozen
    completions, _ = Engine(model, PrefixStore(1 << 20), str, **limits).answer(batch, task)
    return sorted(completions, key=lambda completion: completion.row_id)


def check(completions, logprobs):
    for completion, tokens in zip(completions, logprobs, strict=True):
        assert (completion.status, completion.output, completion.output_tokens) == (Status.OK, None, len(tokens))
        assert completion.logprob == pytest.approx(sum(tokens), abs=1e-4 * len(tokens))
        assert completion.perplexity == pytest.approx(math.exp(-sum(tokens) / len(tokens)), rel=1e-3)


def test_scores_are_those_of_a_whole_forward(family, batch):
    found = answered(adopt(family), batch)
    check(found, expected(family, batch))
    assert [completion.prompt_tokens for completion in found] == [45, 41, 49, 73, 70]
    assert [completion.logprobs for completion in found] == [()] * 5


def test_a_long_text_goes_in_steps(family, batch, monkeypatch):
    monkeypatch.setattr("pipeline.inference.targets.MOST_SCORED_LOGITS", 11 * VOCAB)
    found = answered(adopt(family), batch)
    check(found, expected(family, batch))


@pytest.mark.parametrize("most", [1, 10])
def test_so_it_does_without_a_prefix_and_in_small_forwards(llama, batch, monkeypatch, most):
    monkeypatch.setattr("pipeline.inference.targets.MOST_SCORED_LOGITS", most * VOCAB)
    bare = replace(batch, prefix=(), prompts=tuple(replace(prompt, cuts=()) for prompt in batch.prompts))
    check(answered(adopt(llama), bare, forward_tokens=16), expected(llama, bare))


@pytest.mark.parametrize("most", [7, 1 << 20])
def test_each_token_has_its_logprob_and_the_likeliest_ones(llama, batch, monkeypatch, most):
    monkeypatch.setattr("pipeline.inference.targets.MOST_SCORED_LOGITS", most * VOCAB)
    found = answered(adopt(llama), batch, Score(logprobs=2))
    for completion, prompt, tokens in zip(found, batch.prompts, expected(llama, batch), strict=True):
        assert [token.token_id for token in completion.logprobs] == list(prompt.target)
        assert [token.logprob for token in completion.logprobs] == pytest.approx(tokens, abs=1e-4)
        assert {len(token.top) for token in completion.logprobs} == {2}
        assert completion.logprob == pytest.approx(sum(token.logprob for token in completion.logprobs), abs=1e-5)


def test_logits_that_are_not_numbers_are_an_error_row(llama, batch):
    model = adopt(llama)
    with torch.no_grad():
        llama.get_input_embeddings().weight[batch.prompts[0].own_ids[0]] = float("nan")
    found = answered(model, batch)
    assert [completion.status for completion in found[:2]] == [Status.ERROR, Status.OK]
    assert (found[0].error_type, found[0].logprob) == ("numeric", None)
