"""The memory that is foretold, against the tensors that are alive at once."""

import weakref
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import LlamaConfig

from pipeline.inference.engine import Engine
from pipeline.inference.loading import adopt
from pipeline.inference.memory import predicted_bytes
from pipeline.inference.prefix_store import PrefixStore
from pipeline.rows import Choose, Embed, Generate, Prompt, Sampling, Score
from tests.pipeline.inference.conftest import network

FIXED = 16 << 20
DRAWN = Sampling(temperature=1.0)
TASKS = {
    "generate": Generate(3),
    "logprobs": Generate(3, logprobs=2),
    "penalised": Generate(3, sampling=Sampling(repetition_penalty=1.2)),
    "drawn": Generate(3, sampling=DRAWN),
    "narrowed": Generate(3, sampling=replace(DRAWN, top_p=0.9, min_p=0.01)),
    "samples": Generate(3, sampling=DRAWN, samples=3),
    "choose": Choose(("a", "b"), ((7,), (8,))),
    "choose-long": Choose(("a", "b", "c"), ((7,), (8, 9), (10, 11, 12))),
    "score": Score(),
}


class Living(TorchDispatchMode):
    """Bytes of all tensors that are made within, while they live."""

    def __init__(self):
        super().__init__()
        self.sizes, self.total, self.peak = {}, 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = {tensor.untyped_storage()._cdata for tensor in tensors((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        for storage in (tensor.untyped_storage() for tensor in tensors(result)):
            if storage._cdata not in self.sizes.keys() | given:
                self.sizes[storage._cdata] = storage.nbytes()
                self.total += storage.nbytes()
                self.peak = max(self.peak, self.total)
                weakref.finalize(storage, self.end, storage._cdata)
        return result

    def end(self, key):
        self.total -= self.sizes.pop(key)


def tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided]


@pytest.fixture(scope="module")
def model():
    """Small, but for its vocabulary."""
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1}
    return replace(adopt(network(LlamaConfig(vocab_size=20_000, **sizes))), stop_ids=frozenset())


def prompts(*lengths, target=0):
    return [Prompt(n, str(n), (1,) * length, target=(1,) * target) for n, length in enumerate(lengths)]


@pytest.mark.parametrize("name", TASKS)
def test_the_copies_of_the_logits_are_those_of_the_task(model, make_batch, name):
    """Foretold is more than that: what one step leaves in a heap is not always of use to the next."""
    batch = make_batch([20] * 32, prefix=10)
    batch = replace(batch, prompts=tuple(replace(prompt, target=(6, 7, 8)) for prompt in batch.prompts))
    with Living() as living:
        Engine(model, PrefixStore(1 << 20), str).run(batch, TASKS[name])
    foretold = predicted_bytes(model, len(batch.prefix), batch.prompts, TASKS[name]) - FIXED
    assert living.peak <= foretold <= 3 * living.peak


def test_rows_that_come_one_forward_after_the_other_leave_what_is_too_small_for_the_next(model):
    logits = 4 * model.vocab_size
    one, four = (predicted_bytes(model, 0, prompts(*[64] * rows), Generate(3)) for rows in (32, 128))
    assert four - one == pytest.approx((32 + 64 + 96 + 128 + 128 - 2 * 32) * logits, rel=0.05)


def test_lanes_and_the_prefix_are_counted_by_their_tokens(llama):
    model = adopt(llama)
    token = model.shape.bytes_per_token()
    none = predicted_bytes(model, 0, prompts(*[10] * 8), Generate(20))
    assert predicted_bytes(model, 5, prompts(*[10] * 8), Generate(20)) - none == pytest.approx(1.1 * 5 * token, abs=1)
    longer = predicted_bytes(model, 0, prompts(*[10] * 8), Generate(30))
    assert longer - none == pytest.approx(1.1 * 8 * (48 - 32) * token, abs=1)


def test_a_prefix_longer_than_a_forward_makes_it_so_long(llama):
    model = adopt(llama)
    widths = (4 * 64 + 3 * 96) * 4 + model.shape.bytes_per_token()
    less, more = (predicted_bytes(model, tokens, prompts(10), Embed("last")) for tokens in (4000, 5000))
    assert more - less == pytest.approx(1.1 * 1000 * widths, abs=1)
