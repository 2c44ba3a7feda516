"""Memory that runs out: less is tried, what fitted is remembered, and the answers are the same."""

import struct
from dataclasses import replace

import pytest
import torch

from pipeline.inference.bisection import run_bisecting
from pipeline.inference.determinism import deterministic
from pipeline.inference.engine import Engine
from pipeline.inference.loading import adopt
from pipeline.inference.prefix_store import PrefixStore
from pipeline.inference.prelaid import lay_out
from pipeline.rows import Choose, Embed, Generate, Sampling, Score
from tests.pipeline.inference.conftest import CONFIGS, network, small_memory

LENGTHS = [4, 9, 7, 12, 6, 5, 8, 2]
LABELS = Choose(("a", "b", "c"), ((7,), (8, 9), (10, 11, 12)))


def spelled(token_ids):
    return " ".join(map(str, token_ids))


def check_same(found, expected):
    """Answers exactly, and of numbers some digits."""
    for one, other in zip(by_row(found), by_row(expected), strict=True):
        assert (one.output, one.samples, one.label) == (other.output, other.samples, other.label)
        assert numbers(one) == pytest.approx(numbers(other), abs=1e-3)


def numbers(completion):
    vector = struct.unpack(f"<{len(completion.embedding) // 4}f", completion.embedding) if completion.embedding else ()
    return [completion.logprob or 0, *(score.probability for score in completion.scores), *vector]


def by_row(completions):
    return sorted(completions, key=lambda completion: completion.row_id)


@pytest.mark.parametrize("task", [Generate(9), LABELS], ids=["generate", "choose"])
def test_forwards_are_halved_until_they_fit_and_stay_so(llama, make_batch, task):
    model, batch = replace(adopt(llama), stop_ids=frozenset()), make_batch(LENGTHS, prefix=10)
    whole = by_row(Engine(model, PrefixStore(1 << 20), spelled).answer(batch, task)[0])
    tried = small_memory(llama, 30)
    engine = Engine(model, PrefixStore(1 << 20), spelled)
    outputs = [completion.output for completion in whole]
    assert [completion.output for completion in by_row(engine.answer(batch, task)[0])] == outputs
    assert max(tried) > 30
    tried.clear()
    assert [completion.output for completion in by_row(engine.answer(batch, task)[0])] == outputs
    assert max(tried) <= 30


def test_where_the_running_rows_do_not_fit_fewer_run_at_once(llama, make_batch):
    model, batch = replace(adopt(llama), stop_ids=frozenset()), make_batch([1] * 8, prefix=3)
    whole = by_row(Engine(model, PrefixStore(1 << 20), spelled).answer(batch, Generate(5))[0])
    tried = small_memory(llama, 3)
    engine = Engine(model, PrefixStore(1 << 20), spelled)
    assert by_row(engine.answer(batch, Generate(5))[0])[3].output == whole[3].output
    tried.clear()
    assert [c.output for c in by_row(engine.answer(batch, Generate(5))[0])] == [c.output for c in whole]
    assert max(tried) <= 3


@pytest.mark.parametrize("limit", [30, 61, 7])
@pytest.mark.parametrize(
    "task", [Generate(9), Generate(5, samples=2, sampling=Sampling(1.0)), LABELS, Score(), Embed("last"), Embed("mean")]
)
def test_what_no_forward_holds_is_read_in_steps(llama, make_batch, task, limit):
    """Of a prefix, a document below it, prompts and texts that are scored."""
    batch = make_batch([70, 1, 33, 64, 9, 30, 64, 2], prefix=62)
    document, target = batch.prompts[3].own_ids[:50], batch.prompts[0].own_ids[:45]
    prompts = [replace(prompt, target=target[: 5 + 8 * n]) for n, prompt in enumerate(batch.prompts)]
    for n in (3, 6):
        prompts[n] = replace(prompts[n], own_ids=(*document, *prompts[n].own_ids[50:]), cuts=(50,))
    batch = replace(batch, prompts=tuple(prompts))
    model = replace(adopt(llama), stop_ids=frozenset())
    whole, _ = Engine(model, PrefixStore(1 << 20), spelled).answer(batch, task)
    tried = small_memory(llama, limit)
    engine = Engine(model, PrefixStore(1 << 20), spelled)
    check_same(engine.answer(batch, task)[0], whole)
    assert sum(tokens > limit for tokens in tried) <= 12
    tried.clear()
    check_same(engine.answer(batch, task)[0], whole)
    assert max(tried) <= limit


@pytest.mark.parametrize("name", ["gemma2", "gpt_oss"])
def test_windows_and_sinks_reach_into_steps_before(make_batch, name):
    net, batch = network(CONFIGS[name]()), make_batch([70, 5, 33], prefix=62)
    model = replace(adopt(net), stop_ids=frozenset())
    whole, _ = Engine(model, PrefixStore(1 << 20), spelled).answer(batch, Generate(9))
    small_memory(net, 20)
    check_same(Engine(model, PrefixStore(1 << 20), spelled).answer(batch, Generate(9))[0], whole)


def test_each_of_many_labels_may_need_a_forward(llama, make_batch):
    labels = tuple(tuple(range(start, start + 9)) for start in range(10, 210, 10))
    task, batch = Choose(tuple(map(str, labels)), labels), make_batch([1, 3], prefix=10)
    model = adopt(llama)
    whole, _ = Engine(model, PrefixStore(1 << 20), spelled).answer(batch, task)
    tried = small_memory(llama, 20)
    engine = Engine(model, PrefixStore(1 << 20), spelled)
    for _ in range(2):
        tried.clear()
        check_same(engine.answer(batch, task)[0], whole)
    assert max(tried) <= 20


def test_a_row_of_which_no_token_fits_is_an_error_of_its_own(llama, make_batch):
    """What was tried for its sake is not remembered."""
    model, batch = replace(adopt(llama), stop_ids=frozenset()), make_batch([20, 40, 3, 12], prefix=8)
    (poison,) = {*batch.prompts[1].own_ids[25:26]} - {t for p in batch.prompts if p.row_id != 1 for t in p.own_ids}

    def check(_, __, given):
        if (given["input_ids"] == poison).any():
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    hook = llama.register_forward_pre_hook(check, with_kwargs=True)
    engine = Engine(model, PrefixStore(1 << 20), spelled)
    found = by_row(run_bisecting(engine, batch, Generate(4)).written()[0])
    assert [completion.error_type for completion in found] == [None, "memory", None, None]
    assert found[1].error.startswith("The device has no memory for this row, whose prompt has 48 tokens, also alone. ")
    assert found[1].error.endswith("(OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.)")
    hook.remove()
    tried = small_memory(llama, 200)
    engine.answer(batch, Generate(4))
    assert max(tried) == 75


def test_a_deterministic_model_reads_nothing_in_steps(llama, make_batch):
    lay_out(llama)
    model, batch = deterministic(adopt(llama)), make_batch([40], prefix=0)
    tried = small_memory(llama, 32)
    with pytest.raises(torch.OutOfMemoryError):
        Engine(model, PrefixStore(1 << 20), spelled).answer(batch, Generate(3))
    assert tried == [64]


def test_other_errors_are_not_taken_for_a_lack_of_memory(llama, make_batch):
    model, calls = adopt(llama), []

    def fail(*_):
        calls.append(1)
        raise RuntimeError("the sizes of tensors must match")

    llama.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="must match"):
        Engine(model, PrefixStore(1 << 20), spelled).answer(make_batch(LENGTHS), Generate(3))
    assert len(calls) == 1
