"""Time and arithmetic by part, for every family; and a network that is as it was, afterwards."""

from dataclasses import replace

import pytest

from pipeline.inference import matrix_rate
from pipeline.inference.loading import adopt
from pipeline.inference.matrix_rate import Product
from pipeline.inference.parts import Part, marked
from pipeline.inference.prefix_store import PrefixStore
from pipeline.inference.profiling import Engine, attention_operations, profile
from pipeline.rows import Choose, Completion, Generate, Sample, Status

LABELS = Choose(("a", "b"), ((7,), (8, 9, 10)))
COMMON = {Part.EMBEDDING, Part.PROJECTIONS, Part.OWN, Part.LEVELS, Part.AROUND, Part.MLP, Part.OTHER, Part.HEAD}


@pytest.fixture(autouse=True)
def _small_products(monkeypatch):
    monkeypatch.setattr(matrix_rate, "_SIDE", {"cpu": 64})
    monkeypatch.setattr(matrix_rate, "_REPEAT_S", 0.0)


def spelled(token_ids):
    return " ".join(map(str, token_ids))


def sharing(batch, cut=20):
    """The first rows have the beginning of the first one in common."""
    head = batch.prompts[0].own_ids[:cut]
    alike = [replace(prompt, own_ids=head + prompt.own_ids, cuts=(cut,)) for prompt in batch.prompts[:-1]]
    return replace(batch, prompts=(*alike, batch.prompts[-1]))


@pytest.fixture
def batch(make_batch):
    return sharing(make_batch([25, 3, 9, 5], prefix=10))


def test_every_part_of_every_family_is_found(family, batch):
    found = profile(adopt(family), [batch], Generate(2), spelled, 1 << 24)
    assert found.shares.keys() >= {part.value for part in COMMON | {Part.SAMPLING, Part.PREPARING, Part.OVERHEAD}}
    assert sum(found.shares.values()) == pytest.approx(1)
    assert all(0 < share < 1 for share in found.shares.values())
    assert found.computed_tokens == 10 + 20 + sum(prompt.alone for prompt in batch.prompts)
    assert 4 <= found.output_tokens <= 8
    assert found.rate == found.operations / found.seconds
    assert found.model_rate > 0
    assert found.large_rate > 0


def test_labels_are_profiled_too(llama, batch):
    found = profile(adopt(llama), [batch], LABELS, spelled, 1 << 24)
    assert found.output_tokens == 0
    assert found.shares[Part.HEAD.value] > 0


def test_the_network_is_left_as_it_was(family, batch):
    model = adopt(family)
    before = Engine(model, PrefixStore(1), spelled).answer(batch, Generate(4))[0]
    with marked(model) as (named, _):
        assert Engine(named, PrefixStore(1), spelled).answer(batch, Generate(4))[0] == before
        assert any(module._forward_hooks for module in family.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in family.modules())


def test_hooks_are_removed_where_the_engine_fails(llama, batch):
    model = adopt(llama)
    broken = replace(batch, prompts=(replace(batch.prompts[0], own_ids=(10**6,), cuts=()),))
    with pytest.raises(IndexError):
        profile(model, [broken], Generate(4), spelled, 1)
    with marked(model) as (named, _), pytest.raises(IndexError):
        Engine(named, PrefixStore(1), spelled).answer(broken, Generate(4))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in llama.modules())


def test_products_are_those_of_the_tokens_that_are_computed(llama, make_batch):
    """Two rows of 4 and 6 tokens, and one forward of two more."""
    model = replace(adopt(llama), stop_ids=frozenset())
    with marked(model) as (named, products):
        Engine(named, PrefixStore(1), spelled).answer(make_batch([4, 6], prefix=0), Generate(2))
    layers, hidden, kv, inner, vocab = 3, 64, 32, 96, 300
    assert products == {
        Product(10, hidden, hidden): 2 * layers,
        Product(10, hidden, kv): 2 * layers,
        Product(10, hidden, inner): 2 * layers,
        Product(10, inner, hidden): layers,
        Product(2, hidden, vocab): 2,
        Product(2, hidden, hidden): 2 * layers,
        Product(2, hidden, kv): 2 * layers,
        Product(2, hidden, inner): 2 * layers,
        Product(2, inner, hidden): layers,
    }


@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe", "gpt_oss"], indirect=True)
def test_of_experts_only_those_count_that_are_asked(family, make_batch):
    model = adopt(family)
    with marked(model) as (named, products):
        Engine(named, PrefixStore(1), spelled).answer(make_batch([5], prefix=0), Generate(1))
    wide = {"mixtral": 96, "qwen3_moe": 48, "gpt_oss": 96}[family.config.model_type]
    experts = sum(times * p.operations for p, times in products.items() if p.rows == 5 * 2)
    assert experts == 3 * (5 * 2) * 3 * 2 * 64 * wide


def test_attention_is_counted_token_by_token(llama, make_batch):
    """Prefix of 2, a node of 3, rows of 1 and 2 tokens below it, another row of 4; answers of 3, 1 and 1 tokens."""
    batch = make_batch([4, 4, 4], prefix=2)
    node = batch.prompts[0].own_ids[:3]
    prompts = (
        replace(batch.prompts[0], own_ids=(*node, 50), cuts=(3,)),
        replace(batch.prompts[1], own_ids=(*node, 51, 52), cuts=(3,)),
        batch.prompts[2],
    )
    answers = [
        Completion(n, "", Status.OK, prompt_tokens=t, output_tokens=o) for n, t, o in ((0, 6, 3), (1, 7, 1), (2, 6, 1))
    ]
    keys = (1 + 2) + (3 + 4 + 5) + 6 + (6 + 7) + (3 + 4 + 5 + 6) + (7 + 8)
    pair = 4 * 4 * 16 * 3
    model = adopt(llama)
    assert attention_operations(model, [replace(batch, prompts=prompts)], Generate(3), answers) == keys * pair
    labelled = [replace(answer, output_tokens=0) for answer in answers]
    branches = (7 + 8) + (8 + 9) + (7 + 8)
    of_labels = attention_operations(model, [replace(batch, prompts=prompts)], LABELS, labelled)
    assert of_labels == (keys - (7 + 8) + branches) * pair


def test_samples_are_answers_of_their_own(llama, make_batch):
    several = Completion(
        0, "", Status.OK, prompt_tokens=4, output_tokens=5, samples=(Sample("", "stop", 2), Sample("", "stop", 3))
    )
    found = attention_operations(adopt(llama), [make_batch([4], prefix=0)], Generate(3, samples=2), [several])
    assert found == ((1 + 2 + 3 + 4) + 5 + (5 + 6)) * 4 * 4 * 16 * 3
