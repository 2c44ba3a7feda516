"""Answers that are drawn or penalised, from the batch to the completion, against the plain model a row at a time."""

import itertools
import random
from dataclasses import replace

import pytest
import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from pipeline.inference.engine import Engine
from pipeline.inference.loading import adopt
from pipeline.inference.numbers import row_numbers
from pipeline.inference.prefix_store import PrefixStore
from pipeline.rows import Generate, Sampling, Status

LENGTHS = [5, 33, 7, 64, 7, 2, 12]
DRAWN = Sampling(
    1.2,
    top_k=60,
    top_p=0.95,
    min_p=0.01,
    repetition_penalty=1.2,
    presence_penalty=0.4,
    frequency_penalty=0.3,
    seed=3,
)


def spelled(token_ids):
    return " ".join(map(str, token_ids))


def outputs(engine, batch, task):
    return {completion.row_id: completion.output for completion in engine.answer(batch, task)[0]}


@pytest.fixture
def engine(llama):
    """Of scores near each other, so that much may be drawn, and of a model that never stops."""
    llama.generation_config.eos_token_id = llama.config.eos_token_id = None
    with torch.no_grad():
        llama.lm_head.weight.mul_(0.05)
    return Engine(adopt(llama), PrefixStore(1 << 20), spelled)


def drawn_by_the_plain_model(network, prompt_ids, row_id, sampling, tokens):
    """A whole forward for every token, transformers' processors, and a walk along the cumulative probabilities."""
    processors = LogitsProcessorList(
        [
            TemperatureLogitsWarper(sampling.temperature),
            TopKLogitsWarper(sampling.top_k),
            TopPLogitsWarper(sampling.top_p),
            MinPLogitsWarper(sampling.min_p),
        ]
    )
    numbers, answer = row_numbers(sampling.seed, row_id), []
    for _ in range(tokens):
        ids = torch.tensor([[*prompt_ids, *answer]])
        scores = network(ids).logits[:, -1].float()
        scores = RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty)(ids, scores)
        for token in set(answer):
            scores[0, token] -= sampling.presence_penalty
        for token in answer:
            scores[0, token] -= sampling.frequency_penalty
        sums = itertools.accumulate(processors(ids, scores)[0].double().softmax(-1).tolist())
        left = 1 - numbers.random()
        answer.append(next(token for token, total in enumerate(sums) if total >= left))
    return answer


@pytest.mark.parametrize("prefix", [0, 40])
def test_every_row_draws_the_tokens_of_the_plain_model(engine, llama, make_batch, prefix):
    batch = make_batch(LENGTHS, prefix)
    found = outputs(engine, batch, Generate(12, sampling=DRAWN))
    llama.set_attn_implementation("eager")
    with torch.no_grad():
        for prompt in batch.prompts:
            whole = batch.prefix + prompt.own_ids
            assert found[prompt.row_id] == spelled(drawn_by_the_plain_model(llama, whole, prompt.row_id, DRAWN, 12))
    assert len(set(found.values())) == len(LENGTHS)


def test_greedy_rows_with_a_repetition_penalty_are_those_of_generate(family, make_batch):
    batch = make_batch(LENGTHS)
    engine = Engine(adopt(family), PrefixStore(1 << 20), spelled)
    found = outputs(engine, batch, Generate(10, sampling=Sampling(repetition_penalty=1.3)))
    family.set_attn_implementation("eager")
    family.generation_config.pad_token_id = 0
    stop = family.config.eos_token_id
    for prompt in batch.prompts:
        ids = torch.tensor([batch.prefix + prompt.own_ids])
        options = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 10, "do_sample": False}
        plain = family.generate(ids, repetition_penalty=1.3, **options)[0, ids.shape[1] :].tolist()
        assert found[prompt.row_id] == spelled(plain[:-1] if plain[-1] == stop else plain)


@pytest.mark.parametrize("sampling", [Sampling(temperature=1.0), DRAWN], ids=["drawn", "all"])
def test_an_answer_depends_on_no_neighbour_and_no_order(engine, make_batch, sampling):
    batch, task = make_batch([3, *LENGTHS, 9, 9, 1, 20, 4, 30]), Generate(20, sampling=sampling)
    expected = outputs(engine, batch, task)
    prompts = list(batch.prompts)
    for size in (1, 7, 14):
        random.Random(size).shuffle(prompts)
        found = {}
        for start in range(0, len(prompts), size):
            found |= outputs(engine, replace(batch, prompts=tuple(prompts[start : start + size])), task)
        assert found == expected
    assert len(set(expected.values())) == len(prompts)


def test_rows_that_end_early_leave_the_others_numbers_alone(engine, llama, make_batch):
    """Stop tokens are taken from what rows say, so that lanes are handed on."""
    batch, task = make_batch(LENGTHS), Generate(30, sampling=DRAWN)
    whole = {row_id: output.split() for row_id, output in outputs(engine, batch, task).items()}
    stops = {whole[0][3], whole[2][9], whole[5][17]}
    llama.generation_config.eos_token_id = sorted(map(int, stops))
    found = outputs(Engine(adopt(llama), PrefixStore(1 << 20), spelled), batch, task)
    ends = {row_id: next((at for at, token in enumerate(said) if token in stops), 30) for row_id, said in whole.items()}
    assert len(set(ends.values())) > 3
    assert found == {row_id: " ".join(said[: ends[row_id]]) for row_id, said in whole.items()}


def test_rows_that_take_turns_draw_the_same(engine, llama, make_batch):
    batch, task = make_batch(LENGTHS), Generate(9, sampling=DRAWN)
    one_lane = Engine(adopt(llama), PrefixStore(1 << 20), spelled, max_lane_bytes=1)
    assert outputs(one_lane, batch, task) == outputs(engine, batch, task)


@pytest.mark.parametrize("prefix", [0, 40])
def test_several_samples_of_a_row_are_each_what_it_would_be_alone(llama, make_batch, prefix):
    """The third sample of a row is the same in whatever company, and the first is that of a job with one."""
    model, batch = adopt(llama), make_batch(LENGTHS, prefix)
    task = Generate(9, sampling=DRAWN, samples=4, logprobs=2)
    engine = Engine(model, PrefixStore(1 << 20), spelled)
    together = {c.row_id: c for c in engine.answer(batch, task)[0]}
    assert engine.answer(batch, task)[1].computed_tokens == sum(LENGTHS) + 3 * len(LENGTHS)
    one = outputs(engine, batch, replace(task, samples=1))
    for prompt in batch.prompts:
        answer = together[prompt.row_id]
        assert len(answer.samples) == 4
        assert len({sample.output for sample in answer.samples}) > 1
        assert answer.output == answer.samples[0].output == one[prompt.row_id]
        assert answer.output_tokens == sum(sample.output_tokens for sample in answer.samples)
        (alone,), _ = engine.answer(replace(batch, prompts=(prompt,)), task)
        assert [s.output for s in alone.samples] == [s.output for s in answer.samples]


def test_log_probabilities_are_those_of_the_plain_model(llama, make_batch):
    model, batch = replace(adopt(llama), stop_ids=frozenset()), make_batch(LENGTHS)
    engine = Engine(model, PrefixStore(1 << 20), spelled, max_lane_bytes=1)
    found = {c.row_id: c for c in engine.answer(batch, Generate(6, logprobs=3))[0]}
    llama.set_attn_implementation("eager")
    for prompt in batch.prompts:
        answer = [int(token) for token in found[prompt.row_id].output.split()]
        whole = batch.prefix + prompt.own_ids + tuple(answer)
        with torch.no_grad():
            logprobs = llama(torch.tensor([whole])).logits[0, -7:-1].log_softmax(-1)
        told = found[prompt.row_id].logprobs
        assert [token.token_id for token in told] == answer
        assert [token.logprob for token in told] == pytest.approx(logprobs.max(-1).values.tolist(), abs=1e-3)
        for token, expected in zip(told, logprobs.topk(3).indices.tolist(), strict=True):
            assert [likely.token_id for likely in token.top] == expected


def test_equal_rows_and_other_seeds_draw_other_answers(engine, make_batch):
    batch = make_batch([6] * 5)
    batch = replace(batch, prompts=tuple(replace(p, own_ids=batch.prompts[0].own_ids) for p in batch.prompts))
    task = Generate(12, sampling=Sampling(temperature=1.0))
    found = outputs(engine, batch, task)
    assert len(set(found.values())) == 5
    assert outputs(engine, batch, task) == found
    other = outputs(engine, batch, replace(task, sampling=Sampling(temperature=1.0, seed=1)))
    assert not set(other.values()) & set(found.values())


def test_logits_that_are_not_numbers_are_an_error_row(engine, llama, make_batch):
    batch, task = make_batch([3, 4]), Generate(1, sampling=DRAWN)
    expected = outputs(engine, batch, task)
    with torch.no_grad():
        llama.get_input_embeddings().weight[batch.prompts[1].own_ids[0]] = float("nan")
    healthy, broken = sorted(engine.answer(batch, task)[0], key=lambda completion: completion.row_id)
    assert healthy.output == expected[0]
    assert (broken.status, broken.error_type, broken.output) == (Status.ERROR, "numeric", None)
