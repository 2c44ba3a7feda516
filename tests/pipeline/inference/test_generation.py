"""Greedy answers against transformers `generate`, a row at a time, without any sharing."""

import pytest
import torch

from pipeline.inference.engine import Engine
from pipeline.inference.forward import chunks
from pipeline.inference.lanes import Lanes
from pipeline.inference.loading import adopt
from pipeline.inference.prefix_store import PrefixStore
from pipeline.rows import Generate, Status

LENGTHS = [1, 33, 7, 64, 7, 2]


def spelled(token_ids):
    return " ".join(map(str, token_ids))


def plain(network, token_ids, new_tokens):
    """Tokens that transformers generates, its stop token left out."""
    ids = torch.tensor([token_ids])
    out = network.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new_tokens, do_sample=False)
    tokens = out[0, ids.shape[1] :].tolist()
    return tokens[:-1] if tokens and tokens[-1] == network.config.eos_token_id else tokens


def with_plain_attention(network):
    network.set_attn_implementation("eager")
    network.generation_config.pad_token_id = 0
    return network


@pytest.mark.parametrize("prefix", [0, 40])
def test_every_row_gets_the_tokens_of_the_plain_model(family, make_batch, prefix):
    engine = Engine(adopt(family), PrefixStore(1 << 20), spelled)
    batch = make_batch(LENGTHS, prefix)
    completions, timing = engine.answer(batch, Generate(12))
    answers = {completion.row_id: completion for completion in completions}
    network = with_plain_attention(family)
    for prompt in batch.prompts:
        expected = plain(network, batch.prefix + prompt.own_ids, 12)
        assert answers[prompt.row_id].output == spelled(expected)
        assert answers[prompt.row_id].key == prompt.key
        assert answers[prompt.row_id].prompt_tokens == prefix + len(prompt.own_ids)
    assert len(answers) == len(completions) == len(LENGTHS)
    assert timing.computed_tokens == prefix + sum(LENGTHS)
    assert timing.reused_tokens == prefix * (len(LENGTHS) - 1)


def test_answers_do_not_depend_on_neighbours(llama, make_batch):
    engine = Engine(adopt(llama), PrefixStore(1 << 20), spelled)
    batch = make_batch(LENGTHS)
    together = {c.row_id: c.output for c in engine.answer(batch, Generate(70))[0]}
    for prompt in batch.prompts:
        alone = type(batch)("job", 1, 1, 1, batch.prefix, (prompt,))
        assert engine.answer(alone, Generate(70))[0][0].output == together[prompt.row_id]


def test_rows_end_by_themselves_and_their_lanes_are_handed_on(llama, make_batch):
    """Stop tokens are taken from what the rows would say, so that they end at different steps."""
    batch = make_batch([3, 9, 4, 12, 6, 5, 8, 2])
    network = with_plain_attention(llama)
    network.generation_config.eos_token_id = network.config.eos_token_id = None
    wholes = [plain(network, batch.prefix + prompt.own_ids, 40) for prompt in batch.prompts]
    stops = {
        next(token for token in whole[place:] if token not in whole[:place]) for place, whole in enumerate(wholes[:5])
    }
    ends = [next((place for place, token in enumerate(whole) if token in stops), None) for whole in wholes]
    assert len(set(ends)) > 3
    network.generation_config.eos_token_id = sorted(stops)
    completions, _ = Engine(adopt(network), PrefixStore(1 << 20), spelled).answer(batch, Generate(40))
    for answer in completions:
        end = ends[answer.row_id]
        assert answer.output == spelled(wholes[answer.row_id][:end])
        assert answer.finish_reason == ("length" if end is None else "stop")
        assert answer.status == (Status.TRUNCATED if end is None else Status.OK)


def test_the_context_ends_an_answer_before_max_tokens(llama, make_batch):
    batch = make_batch([200, 3])
    llama.generation_config.eos_token_id = llama.config.eos_token_id = None
    engine = Engine(adopt(llama), PrefixStore(1 << 20), spelled)
    answers = {c.row_id: c for c in engine.answer(batch, Generate(500))[0]}
    assert answers[0].output_tokens == 256 - 240
    assert answers[0].status == Status.TRUNCATED
    assert answers[1].output_tokens == 256 - 43


def test_prompts_over_one_forward_are_still_exact(llama, make_batch, monkeypatch):
    monkeypatch.setattr("pipeline.inference.forward.FORWARD_TOKENS", 10)
    batch = make_batch(LENGTHS)
    split = Engine(adopt(llama), PrefixStore(1 << 20), spelled).answer(batch, Generate(9))[0]
    monkeypatch.undo()
    whole = Engine(adopt(llama), PrefixStore(1 << 20), spelled).answer(batch, Generate(9))[0]
    assert split == whole


def test_rows_whose_lanes_do_not_fit_together_take_turns(llama, make_batch, monkeypatch):
    batch = make_batch(LENGTHS)
    whole = Engine(adopt(llama), PrefixStore(1 << 20), spelled).answer(batch, Generate(9))[0]
    monkeypatch.setattr("pipeline.inference.generation._LANE_BYTES", 50 * adopt(llama).shape.bytes_per_token())
    made = []
    monkeypatch.setattr("pipeline.inference.generation.Lanes", lambda *a: made.append(a[1]) or Lanes(*a))
    assert Engine(adopt(llama), PrefixStore(1 << 20), spelled).answer(batch, Generate(9))[0] == whole
    assert len(made) > 3
    assert sum(made) == len(LENGTHS)


def test_short_rows_do_not_share_a_forward_with_a_long_one_that_would_pad_them():
    rows = [(1,)] * 1000 + [(1,) * 900]
    parts = list(chunks(rows))
    assert [part.stop - part.start for part in parts] == [1000, 1]
    assert list(chunks([(1,) * 5000])) == [slice(0, 1)]


def test_logits_that_are_not_numbers_are_an_error_row(llama, make_batch):
    batch = make_batch([3, 4])
    poison = batch.prompts[1].own_ids[0]
    model = adopt(llama)
    assert poison not in batch.prefix + batch.prompts[0].own_ids
    with torch.no_grad():
        llama.get_input_embeddings().weight[poison] = float("nan")
    answers = {c.row_id: c for c in Engine(model, PrefixStore(1 << 20), spelled).answer(batch, Generate(1))[0]}
    assert answers[0].status == Status.TRUNCATED
    assert answers[1].status == Status.ERROR
    assert answers[1].error_type == "numeric"
    assert answers[1].output is None


def test_a_prefix_is_paid_for_once(llama, make_batch):
    engine = Engine(adopt(llama), PrefixStore(1 << 20), spelled)
    batch = make_batch([3, 4])
    assert engine.answer(batch, Generate(2))[1].computed_tokens == 40 + 7
    _, timing = engine.answer(batch, Generate(2))
    assert (timing.computed_tokens, timing.reused_tokens, timing.output_tokens) == (7, 80, 4)
