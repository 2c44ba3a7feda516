import pytest
import torch

from pipeline.inference.lanes import Lanes, LaneShape
from pipeline.inference.prefix_memory import Kept, PrefixMemory
from pipeline.inference.stem import Node

SHAPE = LaneShape(layers=1, kv_heads=1, dim=1, dtype=torch.float32, device=torch.device("cpu"))
TOKEN_BYTES = 8


def keep(memory, path, now=0.0):
    return [left for left, _ in memory.put(path, Kept(Node(0, Lanes(SHAPE, 1, len(path))), now))]


def test_what_was_used_longest_ago_leaves_first_and_all_that_must():
    memory = PrefixMemory(4 * TOKEN_BYTES)
    assert [keep(memory, path) for path in [(1,), (2,), (3,), (4,)]] == [[], [], [], []]
    assert memory.get((1,), 1.0) is not None
    assert keep(memory, (5, 6)) == [(2,), (3,)]
    assert memory.nbytes == 4 * TOKEN_BYTES


def test_the_newest_stays_however_large():
    memory = PrefixMemory(TOKEN_BYTES)
    assert keep(memory, (1,)) == []
    assert keep(memory, (1, 2, 3)) == [(1,)]
    assert memory.nbytes == 3 * TOKEN_BYTES


def test_bytes_are_counted_once_where_a_path_is_put_again_and_not_for_what_was_taken():
    memory = PrefixMemory(9 * TOKEN_BYTES)
    keep(memory, (1, 2))
    keep(memory, (1, 2))
    assert memory.nbytes == 2 * TOKEN_BYTES
    assert memory.take((1, 2)).node.end == 2
    assert memory.take((1, 2)) is None
    assert memory.nbytes == 0


def test_time_to_live_counts_from_the_last_use():
    memory = PrefixMemory(9 * TOKEN_BYTES)
    keep(memory, (1,), now=10.0)
    keep(memory, (2,), now=11.0)
    assert memory.get((1,), 12.0) is not None
    memory.expire(11.0)
    assert memory.nbytes == 2 * TOKEN_BYTES
    memory.expire(11.5)
    assert memory.get((2,), 12.0) is None
    assert memory.get((1,), 12.0) is not None
    memory.expire(13.0)
    assert memory.nbytes == 0


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_nodes_are_moved_to_where_the_memory_is(device):
    memory = PrefixMemory(9 * TOKEN_BYTES, torch.device(device))
    keep(memory, (1, 2))
    keys, values = memory.get((1, 2), 1.0).lanes.read(0, 1, 2)
    assert keys.device.type == values.device.type == device
    assert keys.shape == (1, 1, 2, 1)


def test_lanes_that_are_there_already_are_not_copied():
    memory, node = PrefixMemory(9, torch.device("cpu")), Node(0, Lanes(SHAPE, 1, 1))
    memory.put((1,), Kept(node, 0.0))
    assert memory.get((1,), 0.0).lanes is node.lanes
