"""Memory that runs out: less is tried, what fitted is remembered, and the answers are the same."""

from dataclasses import replace

import pytest
import torch

from pipeline.inference.engine import Engine
from pipeline.inference.loading import adopt
from pipeline.inference.prefix_store import PrefixStore
from pipeline.rows import Choose, Generate

LENGTHS = [4, 9, 7, 12, 6, 5, 8, 2]
LABELS = Choose(("a", "b", "c"), ((7,), (8, 9), (10, 11, 12)))


def spelled(token_ids):
    return " ".join(map(str, token_ids))


def by_row(completions):
    return sorted(completions, key=lambda completion: completion.row_id)


def small_memory(network, tokens):
    """A device on which no forward of more tokens fits. Returns the widths of those tried."""
    tried = []

    def check(_, __, given):
        tried.append(given["input_ids"].shape[1])
        if tried[-1] > tokens:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    network.register_forward_pre_hook(check, with_kwargs=True)
    return tried


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


def test_a_row_that_does_not_fit_alone_is_not_tried_for_ever(llama, make_batch):
    model, batch = adopt(llama), make_batch([40, 2], prefix=0)
    small_memory(llama, 30)
    with pytest.raises(torch.OutOfMemoryError):
        Engine(model, PrefixStore(1 << 20), spelled).answer(batch, Generate(3))


def test_other_errors_are_not_taken_for_a_lack_of_memory(llama, make_batch):
    model, calls = adopt(llama), []

    def fail(*_):
        calls.append(1)
        raise RuntimeError("the sizes of tensors must match")

    llama.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="must match"):
        Engine(model, PrefixStore(1 << 20), spelled).answer(make_batch(LENGTHS), Generate(3))
    assert len(calls) == 1
