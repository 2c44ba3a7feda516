import torch

from pipeline.inference.lanes import Lanes, LaneShape

SHAPE = LaneShape(layers=2, kv_heads=3, dim=4, dtype=torch.float32, device=torch.device("cpu"))


def tokens(rows: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, 3, count, 4), torch.randn(rows, 3, count, 4)


def test_what_is_written_and_appended_is_read():
    lanes = Lanes(SHAPE, lanes=4, capacity=6)
    keys, values = tokens(2, 3)
    lanes.write(1, 2, keys, values)
    more_keys, more_values = torch.randn(4, 3, 4), torch.randn(4, 3, 4)
    lanes.append(1, torch.tensor([0, 1, 3, 3]), more_keys, more_values)
    read_keys, read_values = lanes.read(1, rows=2, tokens=4, first=2)
    assert torch.equal(read_keys[:, :, :3], keys)
    assert torch.equal(read_values[:, :, 3], more_values[2:])
    assert not lanes.read(0, 4, 6)[0].any()


def test_move_takes_a_row_to_another_lane_in_every_layer():
    lanes = Lanes(SHAPE, lanes=3, capacity=2)
    for layer in range(2):
        lanes.write(layer, 2, *tokens(1, 2))
    lanes.move(2, 0)
    for layer in range(2):
        keys, values = lanes.read(layer, 3, 2)
        assert keys[0].any()
        assert torch.equal(keys[0], keys[2])
        assert torch.equal(values[0], values[2])


def test_grow_keeps_what_is_there_and_counts_its_bytes():
    lanes = Lanes(SHAPE, lanes=1, capacity=2)
    keys, values = tokens(1, 2)
    lanes.write(0, 0, keys, values)
    lanes.grow(5)
    assert lanes.capacity == 5
    assert lanes.nbytes == 2 * 2 * 3 * 4 * 4 * 5
    grown, _ = lanes.read(0, 1, 5)
    assert torch.equal(grown[:, :, :2], keys)
    assert not grown[:, :, 2:].any()
