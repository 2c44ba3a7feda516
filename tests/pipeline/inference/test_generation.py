"""Greedy answers against transformers `generate`, a row at a time, without any sharing."""

from collections import deque
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pipeline.inference.capacity import Capacity
from pipeline.inference.crew import Crew
from pipeline.inference.engine import Engine
from pipeline.inference.lanes import Lanes
from pipeline.inference.loading import adopt
from pipeline.inference.planting import plant
from pipeline.inference.prefix_store import PrefixStore
from pipeline.inference.ranks import Answer, Rank
from pipeline.inference.sampling import Picker
from pipeline.inference.stem import Stem
from pipeline.rows import Generate, Sampling, Status

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


def test_rows_of_a_later_batch_that_go_by_the_same_numbers_get_their_own_answers(llama, make_batch):
    model = adopt(llama)
    engine = Engine(model, PrefixStore(1 << 20), spelled)
    batches = [make_batch(LENGTHS, seed=seed) for seed in (1, 2, 1)]
    found = [by_row(engine.answer(batch, Generate(9))[0]) for batch in batches]
    assert [[answer.key for answer in answers] for answers in found] == [[f"k{n}" for n in range(len(LENGTHS))]] * 3
    fresh = [by_row(answered(model, batch, Generate(9))) for batch in batches]
    assert [[answer.output for answer in each] for each in found] == [
        [answer.output for answer in each] for each in fresh
    ]
    assert found[0][0].output != found[1][0].output


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


def answered(model, batch, task, **limits):
    return Engine(model, PrefixStore(1 << 20), spelled, **limits).answer(batch, task)[0]


def by_row(completions):
    return sorted(completions, key=lambda completion: completion.row_id)


@pytest.mark.parametrize("forward_tokens", [1, 10, 40])
def test_prompts_over_one_forward_are_still_exact(llama, make_batch, forward_tokens):
    model, batch = adopt(llama), make_batch(LENGTHS)
    split = answered(model, batch, Generate(9), forward_tokens=forward_tokens)
    assert by_row(split) == by_row(answered(model, batch, Generate(9)))


@pytest.mark.parametrize("lanes", [1, 2, 3])
def test_rows_beyond_the_lanes_take_those_that_fall_free(llama, make_batch, lanes):
    """All rows are of one class, and end at different steps."""
    model, batch = adopt(llama), make_batch([3, 9, 4, 12, 6, 5, 8, 2])
    model = replace(model, stop_ids=frozenset(range(0, 300, 7)))
    whole = by_row(answered(model, batch, Generate(20)))
    assert len({completion.output_tokens for completion in whole}) > 3
    widths = forward_widths(model.network)
    limit = lanes * 32 * model.shape.bytes_per_token()
    assert by_row(answered(model, batch, Generate(20), max_lane_bytes=limit)) == whole
    lengths = {completion.row_id: completion.output_tokens for completion in whole}
    assert len(widths) == 1 + steps_taken([lengths[row] for row in (7, 0, 2, 5, 4, 6, 1, 3)], lanes)


def steps_taken(lengths, lanes):
    """Forwards until rows of so many tokens have passed through the lanes, each free lane taken at the next step."""
    waiting, running, steps = list(lengths), [], 0
    while waiting or running:
        while waiting and len(running) < lanes:
            running.append(waiting.pop(0))
        running = [left - 1 for left in running if left > 1]
        steps += 1
    return steps


def forward_widths(network):
    """Tokens of each forward from now on."""
    widths = []
    network.register_forward_pre_hook(lambda _, __, given: widths.append(given["input_ids"].shape[1]), with_kwargs=True)
    return widths


def test_newcomers_are_computed_beside_those_who_run(llama, make_batch):
    """Two lanes: when the first row ends, the prompt of the third joins the second's decoding in one forward."""
    batch = make_batch([5, 6, 7], prefix=0)
    model = replace(adopt(llama), stop_ids=frozenset())
    first = answered(model, replace(batch, prompts=batch.prompts[:1]), Generate(1))[0].output
    widths = forward_widths(model.network)
    two_lanes = 2 * 32 * model.shape.bytes_per_token()
    answered(model, batch, Generate(3), max_lane_bytes=two_lanes)
    assert widths == [5 + 6, 2, 2, 7, 1, 1]
    widths.clear()
    answered(replace(model, stop_ids=frozenset([int(first)])), batch, Generate(3), max_lane_bytes=two_lanes)
    assert widths[:2] == [5 + 6, 1 + 7]


def test_lanes_last_from_batch_to_batch(llama, make_batch, monkeypatch):
    made = []
    monkeypatch.setattr("pipeline.inference.lane_pool.Lanes", lambda *a: made.append(a[1:]) or Lanes(*a))
    engine = Engine(adopt(llama), PrefixStore(1 << 20), spelled)
    for seed in range(3):
        engine.answer(make_batch(LENGTHS, seed=seed), Generate(9))
    assert sorted(made) == [(1, 48), (1, 96), (4, 32)]


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.8),
        Sampling(temperature=0.8, top_k=5),
        Sampling(temperature=0.8, top_p=0.9),
        Sampling(temperature=0.8, min_p=0.1),
        Sampling(repetition_penalty=1.2),
        Sampling(presence_penalty=0.5),
        Sampling(frequency_penalty=0.5),
        Sampling(0.8, 5, 0.9, 0.1, 1.2, 0.5, 0.5),
    ],
    ids=["greedy", "temperature", "top_k", "top_p", "min_p", "repetition", "presence", "frequency", "all"],
)
def test_a_step_waits_for_nothing_but_the_tokens_picked(llama, make_batch, sampling):
    """No operation that reads a number back from the device, or whose result's shape depends on one.

    Nor one that makes a tensor of the host's numbers, which a GPU would have to wait for.
    """
    model, batch = adopt(llama), make_batch([5, 6, 7])
    chains, _ = plant(model, PrefixStore(1 << 20), [[batch.prefix]] * 3, Capacity())
    stem = Stem(chains, model.device)
    rank = Rank(
        Lanes(model.shape, 3, 32), deque(Answer(n, prompt.own_ids, 9) for n, prompt in enumerate(batch.prompts))
    )
    with torch.inference_mode():
        logits = Crew(model, stem, []).step_with([(rank, rank.admit(100, 3))])
        for answer, token in zip(rank.running, logits.argmax(-1).tolist(), strict=True):
            answer.token_ids.append(token)
        crew, picker = Crew(model, stem, [rank]), Picker(sampling, [(0, 0), (1, 0), (2, 0)], [(1, 2)] * 3)
        crew.advance(picker.choose(crew.places, crew.step()))
        with Operations() as operations:
            for _ in range(3):
                crew.advance(picker.choose(crew.places, crew.step()))
    waiting = {"_local_scalar_dense", "item", "nonzero", "masked_select", "unique", "is_nonzero", "equal", "_to_copy"}
    brought = {"lift_fresh", "scalar_tensor", "where.ScalarOther", "where.ScalarSelf", "where.Scalar"}
    assert "_scaled_dot_product_flash_attention_for_cpu" in operations.names
    assert not operations.names & (waiting | brought)


class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names |= {func.overloadpacket.__name__, func.__name__}
        return func(*args, **(kwargs or {}))


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


def test_a_row_of_bad_numbers_spoils_no_row_that_takes_its_lane(llama, make_batch):
    """Two lanes: a short row takes the second, and what it does not fill there is read, unseen, beside the first."""
    batch = make_batch([10, 12, 4, 5], seed=2)
    beside, bad, *short = batch.prompts
    batch = replace(batch, prompts=(beside, bad, *(replace(prompt, cuts=(1,)) for prompt in short)))
    poison = bad.own_ids[0]
    assert poison not in sum((prompt.own_ids for prompt in (beside, *short)), batch.prefix)
    model = replace(adopt(llama), stop_ids=frozenset())
    good = tuple(prompt for prompt in batch.prompts if prompt.row_id != bad.row_id)
    expected = by_row(answered(model, replace(batch, prompts=good), Generate(9)))
    assert not {str(poison)} & set(" ".join(completion.output for completion in expected).split())
    with torch.no_grad():
        llama.get_input_embeddings().weight[poison] = float("nan")
    two_lanes = 2 * 32 * model.shape.bytes_per_token()
    found = by_row(answered(model, batch, Generate(9), max_lane_bytes=two_lanes))
    assert found.pop(bad.row_id).error_type == "numeric"
    assert found == expected


def test_a_prefix_is_paid_for_once(llama, make_batch):
    engine = Engine(adopt(llama), PrefixStore(1 << 20), spelled)
    batch = make_batch([3, 4])
    assert engine.answer(batch, Generate(2))[1].computed_tokens == 40 + 7
    _, timing = engine.answer(batch, Generate(2))
    assert (timing.computed_tokens, timing.reused_tokens, timing.output_tokens) == (7, 80, 4)
