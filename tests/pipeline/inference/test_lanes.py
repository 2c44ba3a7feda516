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
    lanes.move(2, 0, tokens=2)
    for layer in range(2):
        keys, values = lanes.read(layer, 3, 2)
        assert keys[0].any()
        assert torch.equal(keys[0], keys[2])
        assert torch.equal(values[0], values[2])


def test_only_what_a_row_has_used_is_moved():
    lanes = Lanes(SHAPE, lanes=2, capacity=4)
    lanes.write(0, 0, *tokens(2, 4))
    before, _ = lanes.read(0, 1, 4)
    before = before.clone()
    lanes.move(1, 0, tokens=2)
    keys, _ = lanes.read(0, 2, 4)
    assert torch.equal(keys[0, :, :2], keys[1, :, :2])
    assert torch.equal(keys[0, :, 2:], before[0, :, 2:])


def test_a_cleared_lane_holds_no_bad_number():
    lanes = Lanes(SHAPE, lanes=2, capacity=2)
    lanes.write(1, 0, *(block * float("nan") for block in tokens(2, 2)))
    lanes.clear(0)
    keys, values = lanes.read(1, 2, 2)
    assert not keys[0].any()
    assert not values[0].any()
    assert values[1].isnan().all()
    assert lanes.nbytes == 2 * 2 * 2 * 3 * 4 * 4 * 2
