"""Rows of LongRoPE models, short, long, and those that grow long while they are answered, against the plain model."""

import math
from dataclasses import replace

import pytest
import torch
from transformers import Phi3Config, PhimoeConfig

from pipeline.errors import ModelError
from pipeline.inference import prefix_disk
from pipeline.inference.determinism import deterministic
from pipeline.inference.engine import Engine
from pipeline.inference.families import context_of
from pipeline.inference.loading import adopt
from pipeline.inference.long_rope import RotaryByRow
from pipeline.inference.prefix_store import PrefixStore
from pipeline.inference.prelaid import lay_out
from pipeline.inference.proof import prove
from pipeline.rows import Choose, Embed, Generate, Sampling, Score
from pipeline.settings import Settings
from tests.pipeline.inference.conftest import SIZES, network, small_memory
from tests.pipeline.inference.test_embeddings import plain as plain_vector
from tests.pipeline.inference.test_embeddings import vector

#: Tokens of a row up to which it is short.
SHORT = 48
COMMON = SIZES | {"pad_token_id": 0, "eos_token_id": None, "original_max_position_embeddings": SHORT}
ROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "original_max_position_embeddings": SHORT,
    "short_factor": [1.0] * 8,
    "long_factor": [1.0 + 3 * n for n in range(8)],
}
MSCALES = {"short_mscale": 1.1, "long_mscale": 1.3}
CONFIGS = {
    "phi3": lambda: Phi3Config(**COMMON, rope_parameters=dict(ROPE)),
    "phi3, windowed": lambda: Phi3Config(**COMMON, rope_parameters=dict(ROPE), sliding_window=20),
    "phimoe": lambda: PhimoeConfig(**COMMON, num_local_experts=4, rope_parameters=ROPE | MSCALES),
}
PREFIX = 20
#: Behind the prefix: rows that stay short, that grow long with their last token or before, and that are long at once.
LENGTHS = [4, 12, 13, 20, 27, 28, 29, 33, 60, 70]
NEW = 16
LABELS = Choose(("a", "b", "c"), ((7,), (8, 9, 10), (8, 9)), content_free=tuple(range(6, 53)))


@pytest.fixture(params=CONFIGS)
def plain(request):
    return network(CONFIGS[request.param]())


@pytest.fixture
def phi3():
    return network(CONFIGS["phi3"]())


@pytest.fixture
def batch(make_batch):
    """The last rows begin with a document that they share."""
    made = make_batch(LENGTHS, PREFIX)
    document = made.prompts[3].own_ids[:15]
    prompts = [replace(prompt, own_ids=document + prompt.own_ids[15:], cuts=(15,)) for prompt in made.prompts[3:]]
    return replace(made, prompts=(*made.prompts[:3], *prompts))


def spelled(token_ids):
    return " ".join(map(str, token_ids))


def answered(model, batch, task=Generate(NEW), store=None):  # noqa: B008 - it is frozen
    completions, timing = Engine(model, store or PrefixStore(1 << 20), spelled).answer(batch, task)
    assert [completion.error for completion in completions] == [None] * len(batch.prompts)
    return sorted(completions, key=lambda completion: completion.row_id), timing


def generated(plain, batch, **options):
    """By row, what transformers writes for it alone."""
    plain.set_attn_implementation("eager")
    for prompt in batch.prompts:
        ids = torch.tensor([batch.prefix + prompt.own_ids])
        written = plain.generate(ids, max_new_tokens=NEW, do_sample=False, **options)
        yield spelled(written[0, ids.shape[1] :].tolist())


def logprobs(plain, before, after, read):
    """Of the tokens `after` some others, by a forward of so many tokens."""
    plain.set_attn_implementation("eager")
    ids = [*before, *after, *[0] * read][:read]
    with torch.no_grad():
        rows = plain(torch.tensor([ids])).logits[0, len(before) - 1 :].log_softmax(-1)
    return [rows[place, token].item() for place, token in enumerate(after)]


def test_every_row_is_answered_as_generate_does(plain, batch):
    answers, _ = answered(adopt(plain), batch)
    assert [answer.output for answer in answers] == list(generated(plain, batch))
    assert {(answer.output_tokens, answer.finish_reason) for answer in answers} == {(NEW, "length")}


def test_what_was_written_before_a_row_grew_long_still_counts(phi3, batch):
    answers, _ = answered(adopt(phi3), batch, Generate(NEW, sampling=Sampling(repetition_penalty=1.5)))
    assert [answer.output for answer in answers] == list(generated(phi3, batch, repetition_penalty=1.5))


def test_samples_of_a_row_grow_long_each_for_itself(phi3, batch):
    task = Generate(NEW, samples=3, sampling=Sampling(temperature=2.0, seed=3))
    together, _ = answered(adopt(phi3), batch, task)
    for prompt, answer in zip(batch.prompts, together, strict=True):
        alone, _ = answered(adopt(phi3), replace(batch, prompts=(replace(prompt, cuts=()),)), task)
        assert alone[0].samples == answer.samples
        assert len({sample.output for sample in answer.samples}) == 3


def test_a_stop_string_may_begin_before_a_row_grows_long_and_end_after(phi3, batch):
    batch = replace(batch, prompts=batch.prompts[3:4])
    tokens = next(generated(phi3, batch)).split()
    border = SHORT + 1 - PREFIX - LENGTHS[3]
    (answer,), _ = answered(adopt(phi3), batch, Generate(NEW, stop=(" ".join(tokens[border - 1 : border + 1]),)))
    assert (answer.output.split(), answer.finish_reason) == (tokens[: border - 1], "stop")


def test_long_rows_that_no_forward_holds_are_read_in_steps(phi3, batch):
    expected = list(generated(phi3, batch))
    model = adopt(phi3)
    tried = small_memory(phi3, 16)
    assert [answer.output for answer in answered(model, batch)[0]] == expected
    assert max(tried) > 16


@pytest.mark.parametrize("task", [LABELS, replace(LABELS, label_ids=((7,), (8,), (9,)))], ids=["long", "short"])
def test_labels_are_compared_as_in_one_forward_of_the_longest(plain, batch, task):
    answers, _ = answered(adopt(plain), batch, task)

    def weights(prompt):
        read = len(prompt) + task.longest - 1
        return [sum(logprobs(plain, prompt, label, read)) for label in task.label_ids]

    prior = weights(task.content_free)
    for prompt, answer in zip(batch.prompts, answers, strict=True):
        found = weights(batch.prefix + prompt.own_ids)
        shares = [math.exp(weight - of_nothing) for weight, of_nothing in zip(found, prior, strict=True)]
        expected = [share / sum(shares) for share in shares]
        assert [score.probability for score in answer.scores] == pytest.approx(expected, abs=1e-4)


def test_a_text_is_scored_as_in_one_forward_with_its_prompt(plain, batch):
    # One of them would be long if its last token was read.
    targets = [batch.prompts[-1].own_ids[: 3 * row or 1] for row in range(len(LENGTHS))]
    totals = [PREFIX + prompt.tokens + len(target) for prompt, target in zip(batch.prompts, targets, strict=True)]
    assert SHORT + 1 in totals
    prompts = [replace(prompt, target=target) for prompt, target in zip(batch.prompts, targets, strict=True)]
    answers, _ = answered(adopt(plain), replace(batch, prompts=tuple(prompts)), Score())
    for prompt, answer in zip(prompts, answers, strict=True):
        before = batch.prefix + prompt.own_ids
        expected = logprobs(plain, before, prompt.target, len(before) + len(prompt.target) - 1)
        assert answer.logprob == pytest.approx(sum(expected), abs=1e-3)


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_vectors_are_those_of_whole_forwards(plain, batch, pooling):
    answers, _ = answered(adopt(plain), batch, Embed(pooling))
    plain.set_attn_implementation("eager")
    for prompt, answer in zip(batch.prompts, answers, strict=True):
        torch.testing.assert_close(
            vector(answer), plain_vector(plain, [*batch.prefix, *prompt.own_ids], pooling), atol=1e-5, rtol=0
        )


def test_a_deterministic_model_s_rows_are_the_same_alone(phi3, batch):
    lay_out(phi3)
    model, task = deterministic(adopt(phi3)), Generate(NEW, logprobs=1)
    together, _ = answered(model, batch, task)
    for prompt, answer in zip(batch.prompts, together, strict=True):
        alone, _ = answered(model, replace(batch, prompts=(prompt,)), task)
        assert (alone[0].output, alone[0].logprobs) == (answer.output, answer.logprobs)


def test_a_prefix_is_stored_once_for_short_rows_and_once_for_long_ones(phi3, make_batch, tmp_path, monkeypatch):
    monkeypatch.setattr(prefix_disk, "LEAST_TOKENS", 1)
    batch = make_batch([2, 60, 3, 61], prefix=40)
    expected = list(generated(phi3, batch))
    model = replace(adopt(phi3), identity="weights")
    computed = []
    for _ in range(2):
        store = PrefixStore.open(model, Settings(home=tmp_path, prefix_bytes=1 << 20))
        for prompt in batch.prompts:
            (answer,), timing = answered(model, replace(batch, prompts=(prompt,)), Generate(4), store)
            assert expected[prompt.row_id].startswith(f"{answer.output} ")
            computed.append(timing.computed_tokens - prompt.tokens)
    assert computed == [40, 40, 0, 0, 0, 0, 0, 0]


def test_a_model_that_rotates_its_long_rows_otherwise_is_refused(phi3):
    model = adopt(phi3)
    phi3.base_model.rotary_emb = RotaryByRow(phi3.base_model.rotary_emb, SHORT, model.context + 1)
    with pytest.raises(ModelError, match=r"^Models of type phi3 .* differ from the plain model's by \d"):
        prove(model)


def test_where_generate_would_go_on_with_short_keys_rows_end_before_they_grow_long():
    rope = {name: value for name, value in ROPE.items() if name != "original_max_position_embeddings"}
    config = Phi3Config(**COMMON, rope_parameters=rope)
    config.original_max_position_embeddings = SHORT + 1
    assert context_of(config) == SHORT


def test_a_network_that_is_adopted_again_is_changed_once(phi3):
    adopt(phi3)
    adopt(phi3)
    assert [type(module) for module in phi3.modules()].count(RotaryByRow) == 1
