import dataclasses

import pytest
import torch

from pipeline.inference.lanes import Lanes, LaneShape
from pipeline.inference.prefix_file import Unusable, read_prefix, write_prefix
from pipeline.inference.stem import Node

SHAPE = LaneShape(layers=2, kv_heads=2, dim=4, dtype=torch.float32, device=torch.device("cpu"))
PATH = (7, 3, 300, 5, 5)
START = 2


def random_node(shape):
    tokens = len(PATH) - START
    numbers = torch.Generator().manual_seed(3)
    lanes = Lanes(shape, 1, tokens)
    for layer in range(shape.layers):
        keys, values = torch.randn(2, 1, shape.kv_heads, tokens, shape.dim, generator=numbers).to(shape.dtype)
        lanes.write(layer, 0, keys, values)
    return Node(START, lanes)


def blocks(node, shape):
    return [block for layer in range(shape.layers) for block in node.lanes.read(layer, 1, node.lanes.capacity)]


@pytest.fixture
def file(tmp_path):
    write_prefix(tmp_path / "file", "me", PATH, random_node(SHAPE), SHAPE)
    return tmp_path / "file"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_node_comes_back_bit_by_bit(tmp_path, dtype):
    shape = dataclasses.replace(SHAPE, dtype=dtype)
    node = random_node(shape)
    write_prefix(tmp_path / "file", "me", PATH, node, shape)
    found = read_prefix(tmp_path / "file", "me", PATH, START, shape)
    assert (found.start, found.end) == (START, len(PATH))
    for block, other in zip(blocks(found, shape), blocks(node, shape), strict=True):
        assert block.dtype == dtype
        assert torch.equal(block, other)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"origin": "you"}, "It is of another model, or of another version of the software."),
        ({"start": 1}, "It is of another model, or of another version of the software."),
        ({"path": (7, 3, 300, 5, 6)}, "It is of other tokens."),
        ({"path": PATH[:-1]}, "It is of other tokens."),
        ({"path": (*PATH, 1)}, "It is of other tokens."),
        ({"shape": dataclasses.replace(SHAPE, dtype=torch.bfloat16)}, "of another shape or precision."),
        ({"shape": dataclasses.replace(SHAPE, layers=3)}, "of another shape or precision."),
        ({"shape": dataclasses.replace(SHAPE, kv_heads=1, dim=8)}, "of another shape or precision."),
    ],
)
def test_what_was_written_for_anything_else_is_not_used(file, other, words):
    wanted = {"origin": "me", "path": PATH, "start": START, "shape": SHAPE} | other
    with pytest.raises(Unusable, match=words):
        read_prefix(file, **wanted)


@pytest.mark.parametrize("content", [b"", b"garbage, and more than eight bytes of it", bytes(1000)])
def test_what_is_no_such_file_at_all_is_not_used(file, content):
    file.write_bytes(content)
    with pytest.raises(Unusable, match="It is damaged, or no such file at all"):
        read_prefix(file, "me", PATH, START, SHAPE)


def test_a_file_cut_short_anywhere_is_not_used(file):
    whole = file.read_bytes()
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        with pytest.raises(Unusable):
            read_prefix(file, "me", PATH, START, SHAPE)


def test_a_bit_flipped_anywhere_is_found_out(file):
    """Spaces that pad the header are the one place where it does no harm: there a node is the same, bit by bit."""
    whole, refused = file.read_bytes(), 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(damaged)
        try:
            found = read_prefix(file, "me", PATH, START, SHAPE)
        except Unusable:
            refused += 1
        else:
            assert whole[place : place + 1] == b" "
            assert all(map(torch.equal, blocks(found, SHAPE), blocks(random_node(SHAPE), SHAPE)))
    assert refused > len(whole) - 8


def test_flipped_data_is_told_as_such(file):
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(Unusable, match="Its keys and values are damaged"):
        read_prefix(file, "me", PATH, START, SHAPE)


def test_a_disk_that_takes_no_more_is_an_error_of_the_system(tmp_path):
    with pytest.raises(OSError, match="No such file or directory"):
        write_prefix(tmp_path / "nowhere" / "file", "me", PATH, random_node(SHAPE), SHAPE)
