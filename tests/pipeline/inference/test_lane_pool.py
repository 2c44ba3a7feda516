import pytest
import torch

from pipeline.inference.lane_pool import LanePool
from pipeline.inference.lanes import LaneShape
from pipeline.inference.padding import length_class

SHAPE = LaneShape(layers=1, kv_heads=1, dim=1, dtype=torch.float32, device=torch.device("cpu"))
TOKEN = SHAPE.bytes_per_token()


def lanes(blocks):
    return {capacity: block.count for capacity, block in blocks.items()}


def test_classes_hold_what_they_are_of_and_little_more():
    assert [length_class(tokens) for tokens in (1, 32, 33, 48, 49, 64, 65, 97, 129, 4097)] == [
        32, 32, 48, 48, 64, 64, 96, 128, 192, 6144,
    ]  # fmt: skip
    assert all(tokens <= length_class(tokens) < 1.5 * tokens for tokens in range(32, 5000))


def test_every_row_has_a_lane_where_all_fit():
    assert lanes(LanePool(SHAPE, 1000 * TOKEN).open([5, 32, 40, 90, 33])) == {32: 2, 48: 2, 96: 1}


def test_where_not_all_fit_each_class_has_its_share_and_one_lane_at_least():
    blocks = LanePool(SHAPE, 800 * TOKEN).open([20] * 30 + [60] * 10 + [1000])
    assert lanes(blocks) == {32: 9, 64: 3, 1024: 1}


def test_blocks_are_used_again_and_grow_where_more_rows_come():
    pool = LanePool(SHAPE, 1000 * TOKEN)
    first = pool.open([5, 40, 40])
    assert pool.open([40])[48] is first[48]
    more = pool.open([7, 7, 40])
    assert lanes(more) == {32: 2, 48: 2}
    assert more[48] is first[48]
    assert pool.nbytes == (2 * 32 + 2 * 48) * TOKEN


def test_what_other_batches_left_goes_when_it_is_in_the_way():
    pool = LanePool(SHAPE, 100 * TOKEN)
    pool.open([30, 30, 30])
    assert lanes(pool.open([90])) == {96: 1}
    assert pool.nbytes == 96 * TOKEN


def test_halving_ends_where_each_class_has_one_lane():
    pool = LanePool(SHAPE, 1000 * TOKEN)
    pool.open([30] * 8)
    assert pool.halve()
    assert pool.nbytes == 0
    for left in (4, 2, 1):
        assert lanes(pool.open([30] * 8)) == {32: left}
        assert pool.halve() == (left > 1)


def test_what_runs_out_before_lanes_are_asked_for_again_is_not_their_fault():
    pool = LanePool(SHAPE, 1000 * TOKEN)
    pool.open([30] * 8)
    assert pool.halve()
    assert not pool.halve()


def test_lanes_that_cannot_be_had_are_halved_from_what_was_asked_for(monkeypatch):
    pool = LanePool(SHAPE, 1000 * TOKEN)

    def fail(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("pipeline.inference.lane_pool.Lanes", fail)
        with pytest.raises(MemoryError):
            pool.open([30] * 8)
    assert pool.halve()
    assert lanes(pool.open([30] * 8)) == {32: 4}
