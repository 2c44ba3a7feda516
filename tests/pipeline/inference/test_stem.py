"""Prefixes of prefixes: the answers are those of rows that share nothing, and every node is computed once."""

import random
from dataclasses import replace

import pytest
import torch

from pipeline.costs import Costs
from pipeline.inference.engine import Engine
from pipeline.inference.lanes import Lanes
from pipeline.inference.loading import adopt
from pipeline.inference.prefix_store import PrefixStore
from pipeline.inference.stem import Node, Stem
from pipeline.prefix_tree import find_cuts
from pipeline.rows import Batch, Choose, Generate, Prompt

LABELS = Choose(("a", "b", "c"), ((7,), (8, 9, 10), (8, 9)))


def spelled(token_ids):
    return " ".join(map(str, token_ids))


@pytest.fixture
def tree(make_batch):
    """After 10 shared tokens: three documents, the first of two chapters, with questions below all of them, and rows
    without a document. Shuffled, and with their cuts."""
    ids = [
        prompt.own_ids for prompt in make_batch([20, 31, 25, 15, 15, *[5, 3, 8, 1, 6, 2, 7, 4, 3, 9, 12, 30]]).prompts
    ]
    first, second, third, chapter, other_chapter, *own = ids
    heads = [first + chapter] * 2 + [first + other_chapter] * 2 + [first] * 2 + [second] * 2 + [third] * 2 + [()] * 2
    rows = [head + tail for head, tail in zip(heads, own, strict=True)]
    order = [7, 0, 11, 4, 9, 2, 5, 10, 1, 8, 3, 6]
    cuts = find_cuts(rows, Costs(1.0, 0.0, 8.0, 0.0), steps=0, batch_rows=128)
    assert {len(found) for found in cuts} == {0, 1, 2}
    prompts = tuple(Prompt(place, f"k{place}", rows[place], cuts[place]) for place in order)
    return replace(make_batch([1], prefix=10), prompts=prompts)


def without_cuts(batch):
    return replace(batch, prompts=tuple(replace(prompt, cuts=()) for prompt in batch.prompts))


def outcome(completions):
    return {c.row_id: (c.output, c.finish_reason, c.prompt_tokens, c.output_tokens) for c in completions}


def test_generated_tokens_are_the_same_for_every_family(family, tree):
    engine = Engine(adopt(family), PrefixStore(1 << 24), spelled)
    plain, _ = engine.answer(without_cuts(tree), Generate(10))
    shared, _ = engine.answer(tree, Generate(10))
    assert outcome(shared) == outcome(plain)


def test_label_scores_are_the_same_for_every_family(family, tree):
    engine = Engine(adopt(family), PrefixStore(1 << 24), spelled)
    plain = {c.row_id: c.score for c in engine.answer(without_cuts(tree), LABELS)[0]}
    shared = {c.row_id: c.score for c in engine.answer(tree, LABELS)[0]}
    assert shared == pytest.approx(plain, abs=1e-4)


def test_every_node_is_computed_once_and_remembered(llama, tree):
    engine = Engine(adopt(llama), PrefixStore(1 << 24), spelled)
    _, first = engine.answer(tree, LABELS)
    nodes = {prompt.own_ids[:cut] for prompt in tree.prompts for cut in prompt.cuts}
    edges = sum(
        len(node) - max((len(n) for n in nodes if n != node and node[: len(n)] == n), default=0) for node in nodes
    )
    alone = sum(prompt.alone for prompt in tree.prompts)
    assert first.computed_tokens == 10 + edges + alone
    whole = sum(10 + len(prompt.own_ids) for prompt in tree.prompts)
    assert first.reused_tokens == whole - first.computed_tokens
    _, second = engine.answer(tree, LABELS)
    assert second.computed_tokens == alone


def test_what_is_kept_of_a_prefix_is_not_changed_by_the_answers_that_read_it(llama, tree):
    store = PrefixStore(1 << 24)
    engine = Engine(adopt(llama), store, spelled)
    first = outcome(engine.answer(tree, Generate(30))[0])
    kept = store.get(tree.prefix, 0).lanes
    before = [bytes_of(kept, layer) for layer in range(3)]
    for task in (LABELS, Generate(30)):
        again = engine.answer(tree, task)[0]
    assert outcome(again) == first
    assert store.get(tree.prefix, 0).lanes is kept
    assert [bytes_of(kept, layer) for layer in range(3)] == before


def bytes_of(lanes, layer):
    read = lanes.copies(layer, torch.tensor([0]), lanes.capacity)
    return [numbers.numpy().tobytes() for numbers in read]


def test_a_tree_split_over_forwards_is_the_same(llama, tree):
    engine = Engine(adopt(llama), PrefixStore(1 << 24), spelled)
    whole = outcome(engine.answer(tree, Generate(10))[0])
    for limit in (1, 40, 100):
        fresh = Engine(adopt(llama), PrefixStore(1 << 24), spelled, forward_tokens=limit)
        assert outcome(fresh.answer(tree, Generate(10))[0]) == whole


def test_a_store_too_small_for_the_tree_still_answers(llama, tree):
    whole = outcome(Engine(adopt(llama), PrefixStore(1 << 24), spelled).answer(tree, Generate(10))[0])
    assert outcome(Engine(adopt(llama), PrefixStore(1), spelled).answer(tree, Generate(10))[0]) == whole


def test_a_long_node_beside_many_short_ones_pads_none_of_them(llama):
    model = adopt(llama)
    nodes = [Node(0, Lanes(model.shape, 1, tokens)) for tokens in (200, *[4] * 40, 90)]
    stem = Stem([(node,) for node in nodes], model.device)
    levels = stem.levels(range(len(nodes)), [1] * len(nodes))
    assert sum(level.lanes.nbytes for level in levels) == sum(node.lanes.nbytes for node in nodes)
    assert [level.longest for level in levels] == [4, 90, 200]
    assert [len(level.tokens) for level in levels] == [40, 1, 1]


def test_documents_of_all_lengths_are_answered_as_without_sharing(llama):
    numbers = random.Random(2)
    documents = [tuple(numbers.randrange(6, 300) for _ in range(length)) for length in (3, 150, 70, 5, 66)]
    rows = [(*document, 40 + n, 50 + n) for document in documents for n in range(3)] + [(9, 8, 7), (11,)]
    lengths = [len(documents[n // 3]) for n in range(15)]
    prompts = tuple(Prompt(n, str(n), row, (lengths[n],) if n < 15 else ()) for n, row in enumerate(rows))
    batch = Batch("job", 0, 1, 1, tuple(range(20, 30)), prompts)
    plain = replace(batch, prompts=tuple(replace(prompt, cuts=()) for prompt in prompts))
    engine = Engine(adopt(llama), PrefixStore(1 << 24), spelled)
    assert outcome(engine.answer(batch, Generate(10))[0]) == outcome(engine.answer(plain, Generate(10))[0])
