from dataclasses import replace

import pytest
import torch

from pipeline.inference.engine import Engine
from pipeline.inference.lanes import Lanes, LaneShape
from pipeline.inference.loading import adopt
from pipeline.inference.prefix_store import PrefixStore
from pipeline.inference.prelaid import lay_out
from pipeline.inference.stem import Node
from pipeline.rows import Batch, Choose, Generate, Prompt
from pipeline.settings import Settings

SHAPE = LaneShape(layers=1, kv_heads=1, dim=1, dtype=torch.float32, device=torch.device("cpu"))
TOKEN_BYTES = 8


def keep(store, path):
    store.put(path, Node(0, Lanes(SHAPE, 1, len(path))))


def test_what_is_put_is_found_by_its_whole_path():
    store = PrefixStore(100)
    node = Node(0, Lanes(SHAPE, 1, 2))
    store.put((1, 2), node)
    assert store.get((1, 2), 0) is node
    assert store.get((1,), 0) is None


def test_least_recently_used_goes_first_when_the_bytes_are_full():
    store = PrefixStore(2 * TOKEN_BYTES)
    keep(store, (1,))
    keep(store, (2,))
    assert store.get((1,), 0) is not None
    keep(store, (3,))
    assert store.nbytes == 2 * TOKEN_BYTES
    assert store.get((1,), 0) is not None
    assert store.get((2,), 0) is None


def test_the_newest_is_kept_even_where_it_alone_is_too_large():
    store = PrefixStore(TOKEN_BYTES)
    keep(store, (1,))
    keep(store, (1, 2, 3))
    assert store.get((1, 2, 3), 0) is not None
    assert store.get((1,), 0) is None
    assert store.nbytes == 3 * TOKEN_BYTES


def test_the_same_tokens_divided_otherwise_are_another_node():
    store = PrefixStore(100)
    store.put((1, 2, 3), Node(1, Lanes(SHAPE, 1, 2)))
    assert store.get((1, 2, 3), 0) is None
    assert store.get((1, 2, 3), 1).start == 1
    store.put((1, 2, 3), Node(0, Lanes(SHAPE, 1, 3)))
    assert store.get((1, 2, 3), 1) is None
    assert store.get((1, 2, 3), 0).start == 0
    assert store.nbytes == 3 * TOKEN_BYTES


def test_what_the_device_has_no_room_for_falls_to_the_host_and_comes_back_on_use():
    store = PrefixStore(2 * TOKEN_BYTES, host_bytes=2 * TOKEN_BYTES)
    node = Node(0, Lanes(SHAPE, 1, 2))
    store.put((1, 2), node)
    assert (store.nbytes, store.host_nbytes) == (2 * TOKEN_BYTES, 0)
    keep(store, (3,))
    assert (store.nbytes, store.host_nbytes) == (TOKEN_BYTES, 2 * TOKEN_BYTES)
    assert store.get((1, 2), 0).lanes is node.lanes
    assert (store.nbytes, store.host_nbytes) == (2 * TOKEN_BYTES, TOKEN_BYTES)
    assert store.get((3,), 0) is not None


def test_the_host_forgets_what_was_used_longest_ago():
    store = PrefixStore(TOKEN_BYTES, host_bytes=2 * TOKEN_BYTES)
    for token in (1, 2, 3, 4):
        keep(store, (token,))
    assert store.host_nbytes == 2 * TOKEN_BYTES
    assert [token for token in (1, 2) if store.get((token,), 0)] == [2]
    keep(store, (5,))
    assert [token for token in (3, 4, 2, 5) if store.get((token,), 0)] == [4, 2, 5]


def test_the_host_takes_nothing_that_is_larger_than_all_its_room():
    store = PrefixStore(TOKEN_BYTES, host_bytes=TOKEN_BYTES)
    keep(store, (1,))
    keep(store, (1, 2))
    keep(store, (2,))
    assert store.get((1, 2), 0) is None
    assert store.get((1,), 0) is not None


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_each_memory_has_its_nodes_where_it_is(device):
    """`meta` stands for a device that is not the host: its tensors have a place, but no content."""
    shape = replace(SHAPE, device=torch.device(device))
    store = PrefixStore(TOKEN_BYTES, host_bytes=TOKEN_BYTES, device=shape.device)
    store.put((1,), Node(0, Lanes(shape, 1, 1)))
    assert store.get((1,), 0).lanes.read(0, 1, 1)[0].device.type == device


def test_all_memories_forget_what_nobody_used_for_long():
    now = [0.0]
    store = PrefixStore(TOKEN_BYTES, host_bytes=2 * TOKEN_BYTES, ttl_s=10.0, clock=lambda: now[0])
    keep(store, (1,))
    now[0] = 4.0
    keep(store, (2,))
    now[0] = 8.0
    keep(store, (3,))
    now[0] = 12.0
    assert store.get((1,), 0) is None
    assert store.host_nbytes == TOKEN_BYTES
    assert store.get((2,), 0) is not None
    now[0] = 20.0
    assert [token for token in (2, 3) if store.get((token,), 0)] == [2]


PREFIX = tuple(range(100, 200))
DOCUMENT = tuple(range(200, 270))


@pytest.fixture
def model(llama):
    return replace(adopt(llama), identity="weights")


@pytest.fixture
def open_engine(model, tmp_path):
    """A fresh engine with a fresh store in the same home, as another process would have."""

    def one(of=model, **settings):
        store = PrefixStore.open(of, Settings(home=tmp_path, **settings))
        return Engine(of, store, lambda ids: " ".join(map(str, ids)))

    return one


def batch_of(*rows, cuts=(), prefix=PREFIX):
    return Batch("job", 0, 1, 1, prefix, tuple(Prompt(at, str(at), row, cuts) for at, row in enumerate(rows)))


PLAIN = batch_of((7, 8), (9, 10, 11))
TREE = batch_of((*DOCUMENT, 7), (*DOCUMENT, 8, 9), cuts=(len(DOCUMENT),))


def outputs(completions):
    return {completion.row_id: completion.output for completion in completions}


def files(tmp_path):
    return list((tmp_path / "prefixes").glob("*"))


@pytest.mark.parametrize("task", [Generate(8), Choose(("a", "b"), ((7,), (8, 9)))], ids=["generate", "choose"])
def test_a_restarted_engine_computes_no_prefix_again_and_answers_the_same(open_engine, task):
    answers, timing = open_engine().answer(PLAIN, task)
    again, spared = open_engine().answer(PLAIN, task)
    assert again == answers
    assert (timing.computed_tokens, spared.computed_tokens) == (len(PREFIX) + 5, 5)
    assert (timing.reused_tokens, spared.reused_tokens) == (len(PREFIX), 2 * len(PREFIX))


def test_a_document_is_kept_once_a_second_batch_reads_it(open_engine, tmp_path):
    engine = open_engine()
    answers = engine.answer(TREE, Generate(8))[0]
    assert len(files(tmp_path)) == 1
    assert engine.answer(TREE, Generate(8))[0] == answers
    assert len(files(tmp_path)) == 2
    again, timing = open_engine().answer(TREE, Generate(8))
    assert again == answers
    assert timing.computed_tokens == 3


def test_tokens_that_another_job_divided_otherwise_are_computed(open_engine):
    """One job's instruction ends where another's document does."""
    whole = batch_of((7,), (8, 9), prefix=PREFIX + DOCUMENT)
    open_engine().answer(whole, Generate(8))
    for settings in ({}, {"prefix_disk_bytes": 0}):
        answers, timing = open_engine(**settings).answer(TREE, Generate(8))
        assert timing.computed_tokens == len(PREFIX) + len(DOCUMENT) + 3
        assert outputs(answers) == outputs(open_engine().answer(whole, Generate(8))[0])


def test_batches_of_one_job_that_are_divided_otherwise_do_not_mix(open_engine):
    flat = batch_of((*DOCUMENT, 7), (*DOCUMENT, 8, 9), cuts=(len(DOCUMENT),))
    deep = batch_of((*DOCUMENT, 7), (*DOCUMENT, 8, 9), cuts=(20, len(DOCUMENT)))
    engine = open_engine()
    deep_answers, flat_answers = (engine.answer(batch, Generate(8))[0] for batch in (deep, flat))
    assert outputs(deep_answers) == outputs(flat_answers)


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-1] + bytes([data[-1] ^ 1])])
def test_a_damaged_file_changes_no_answer_and_is_replaced(open_engine, tmp_path, caplog, damage):
    answers = open_engine().answer(PLAIN, Generate(8))[0]
    (file,) = files(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    again, timing = open_engine().answer(PLAIN, Generate(8))
    assert again == answers
    assert timing.computed_tokens == len(PREFIX) + 5
    assert [record.getMessage().partition(" is ignored")[0] for record in caplog.records] == [
        f"The stored prefix {file}"
    ]
    assert open_engine().answer(PLAIN, Generate(8))[1].computed_tokens == 5


def test_another_model_or_precision_computes_its_own(open_engine, model):
    open_engine().answer(PLAIN, Generate(8))
    other = replace(model, identity="other weights")
    assert open_engine(other).answer(PLAIN, Generate(8))[1].computed_tokens == len(PREFIX) + 5
    half = replace(adopt(model.network.bfloat16()), identity="weights")
    assert open_engine(half).answer(PLAIN, Generate(8))[1].computed_tokens == len(PREFIX) + 5
    assert open_engine(half).answer(PLAIN, Generate(8))[1].computed_tokens == 5


def test_a_deterministic_job_reads_no_prefix_of_a_plain_one(model, open_engine, make_batch):
    lay_out(model.network)
    plain = replace(adopt(model.network), identity="weights")
    strict = replace(plain, deterministic=True)
    batch, task = make_batch([1, 33, 7], 101), Generate(8, logprobs=3)
    clean = open_engine(strict, prefix_disk_bytes=0).answer(batch, task)[0]
    open_engine(plain).answer(batch, task)
    assert open_engine(strict).answer(batch, task)[0] == clean


def test_a_cpu_with_other_instructions_computes_its_own(open_engine, monkeypatch):
    open_engine().answer(PLAIN, Generate(8))
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "ANOTHER")
    assert open_engine().answer(PLAIN, Generate(8))[1].computed_tokens == len(PREFIX) + 5


@pytest.mark.parametrize(("identity", "room"), [("", 1 << 30), ("weights", 0)])
def test_nothing_is_kept_of_a_model_of_unknown_origin_or_where_it_is_turned_off(
    open_engine, model, tmp_path, identity, room
):
    open_engine(replace(model, identity=identity), prefix_disk_bytes=room).answer(PLAIN, Generate(8))
    assert files(tmp_path) == []


def test_where_the_cpu_computes_its_memory_is_counted_once(model, tmp_path):
    store = PrefixStore.open(model, Settings(home=tmp_path, prefix_bytes=1))
    for path in (PREFIX, DOCUMENT):
        store.put(path, Node(0, Lanes(model.shape, 1, len(path))))
    assert store.host_nbytes == 0


def test_a_disk_that_fails_changes_no_answer(open_engine, tmp_path, caplog):
    (tmp_path / "prefixes").touch()
    answers, _ = open_engine().answer(PLAIN, Generate(8))
    assert answers == open_engine(prefix_disk_bytes=0).answer(PLAIN, Generate(8))[0]
    assert "Prefixes are neither kept in" in caplog.text
