import torch

from pipeline.inference.lanes import Lanes, LaneShape
from pipeline.inference.prefix_store import PrefixStore
from pipeline.inference.stem import Node

SHAPE = LaneShape(layers=1, kv_heads=1, dim=1, dtype=torch.float32, device=torch.device("cpu"))
TOKEN_BYTES = 8


def keep(store, path):
    store.put(path, Node(0, Lanes(SHAPE, 1, len(path))))


def test_what_is_put_is_found_by_its_whole_path():
    store = PrefixStore(100)
    node = Node(0, Lanes(SHAPE, 1, 2))
    store.put((1, 2), node)
    assert store.get((1, 2)) is node
    assert store.get((1,)) is None


def test_least_recently_used_goes_first_when_the_bytes_are_full():
    store = PrefixStore(2 * TOKEN_BYTES)
    keep(store, (1,))
    keep(store, (2,))
    assert store.get((1,)) is not None
    keep(store, (3,))
    assert store.nbytes == 2 * TOKEN_BYTES
    assert store.get((1,)) is not None
    assert store.get((2,)) is None


def test_the_newest_is_kept_even_where_it_alone_is_too_large():
    store = PrefixStore(TOKEN_BYTES)
    keep(store, (1,))
    keep(store, (1, 2, 3))
    assert store.get((1, 2, 3)) is not None
    assert store.get((1,)) is None
    assert store.nbytes == 3 * TOKEN_BYTES
