import torch

from pipeline.inference.lanes import Lanes, LaneShape
from pipeline.inference.prefix_store import PrefixStore

SHAPE = LaneShape(layers=1, kv_heads=1, dim=1, dtype=torch.float32, device=torch.device("cpu"))
TOKEN_BYTES = 8


def compute(prefix: tuple[int, ...]) -> Lanes:
    return Lanes(SHAPE, 1, len(prefix))


def test_a_prefix_is_computed_once():
    store = PrefixStore(100)
    first, remembered = store.get((1, 2), compute)
    assert not remembered
    again, remembered = store.get((1, 2), compute)
    assert remembered
    assert again is first


def test_least_recently_used_goes_first_when_the_bytes_are_full():
    store = PrefixStore(2 * TOKEN_BYTES)
    store.get((1,), compute)
    store.get((2,), compute)
    store.get((1,), compute)
    store.get((3,), compute)
    assert store.nbytes == 2 * TOKEN_BYTES
    assert store.get((1,), compute)[1]
    assert not store.get((2,), compute)[1]


def test_the_newest_is_kept_even_where_it_alone_is_too_large():
    store = PrefixStore(TOKEN_BYTES)
    store.get((1,), compute)
    store.get((1, 2, 3), compute)
    assert store.get((1, 2, 3), compute)[1]
    assert store.nbytes == 3 * TOKEN_BYTES
