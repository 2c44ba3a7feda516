import dataclasses
import logging
import os
import resource
import shutil
import time
from collections import namedtuple

import pytest
import torch

from pipeline.inference.lanes import Lanes, LaneShape
from pipeline.inference.prefix_disk import LEAST_TOKENS, PrefixDisk
from pipeline.inference.stem import Node

SHAPE = LaneShape(layers=2, kv_heads=1, dim=8, dtype=torch.float32, device=torch.device("cpu"))
#: Of one node of the least length: keys, values, token ids and a header of some hundred bytes.
FILE_BYTES = LEAST_TOKENS * (SHAPE.bytes_per_token() + 8) + 600
NOW = time.time()
DAY = 86400.0


def path_of(number, tokens=LEAST_TOKENS):
    return tuple(range(number, number + tokens))


def node_of(path, start=0):
    lanes = Lanes(SHAPE, 1, len(path) - start)
    for layer in range(SHAPE.layers):
        keys, values = torch.randn(2, 1, SHAPE.kv_heads, len(path) - start, SHAPE.dim)
        lanes.write(layer, 0, keys, values)
    return Node(start, lanes)


@pytest.fixture
def clock():
    """Its present moment is its one item."""
    return [NOW]


@pytest.fixture
def open_disk(tmp_path, clock):
    def one(max_bytes=1 << 20, origin="me", shape=SHAPE, ttl_s=14 * DAY):
        return PrefixDisk(tmp_path / "prefixes", origin, shape, max_bytes, ttl_s, lambda: clock[0])

    return one


def files(tmp_path):
    return sorted((tmp_path / "prefixes").iterdir())


def kept(disk, *numbers):
    return [number for number in numbers if disk.read(path_of(number), 0) is not None]


def test_another_process_finds_what_was_kept(open_disk):
    node = node_of(path_of(1))
    open_disk().keep(path_of(1), node)
    found = open_disk().read(path_of(1), 0)
    assert found.start == 0
    for layer in range(SHAPE.layers):
        both = zip(found.lanes.read(layer, 1, LEAST_TOKENS), node.lanes.read(layer, 1, LEAST_TOKENS), strict=True)
        assert all(torch.equal(one, other) for one, other in both)


def test_nobody_else_may_read_prompts(open_disk, tmp_path):
    before = os.umask(0)
    try:
        open_disk().keep(path_of(1), node_of(path_of(1)))
    finally:
        os.umask(before)
    assert (tmp_path / "prefixes").stat().st_mode & 0o777 == 0o700
    assert [file.stat().st_mode & 0o777 for file in files(tmp_path)] == [0o600]


def test_the_same_tokens_divided_otherwise_are_two_nodes(open_disk):
    path = path_of(1, 2 * LEAST_TOKENS)
    disk = open_disk()
    disk.keep(path, node_of(path, start=5))
    assert disk.read(path, 0) is None
    disk.keep(path, node_of(path, start=0))
    assert [open_disk().read(path, start).start for start in (0, 5)] == [0, 5]


def test_other_models_and_precisions_lie_beside_it(open_disk, tmp_path):
    half = dataclasses.replace(SHAPE, dtype=torch.bfloat16)
    open_disk().keep(path_of(1), node_of(path_of(1)))
    assert open_disk(origin="you").read(path_of(1), 0) is None
    assert open_disk(shape=half).read(path_of(1), 0) is None
    assert len(files(tmp_path)) == 1


def test_a_short_node_is_not_worth_a_file(open_disk, tmp_path):
    path = path_of(1)
    disk = open_disk()
    disk.keep(path, node_of(path, start=1))
    assert not (tmp_path / "prefixes").exists()
    assert disk.read(path, 1) is None


def test_what_was_used_longest_ago_is_deleted_for_what_is_new(open_disk, clock):
    disk = open_disk(max_bytes=3 * FILE_BYTES)
    for number in (1, 2, 3):
        clock[0] += 1
        disk.keep(path_of(number), node_of(path_of(number)))
    clock[0] += 1
    disk.keep(path_of(1), node_of(path_of(1)))
    clock[0] += 1
    assert kept(open_disk(max_bytes=3 * FILE_BYTES), 2) == [2]
    clock[0] += 1
    disk.keep(path_of(4), node_of(path_of(4)))
    assert kept(open_disk(max_bytes=3 * FILE_BYTES), 1, 2, 3, 4) == [1, 2, 4]


def test_what_is_larger_than_all_room_is_not_kept_and_displaces_nothing(open_disk):
    disk = open_disk(max_bytes=FILE_BYTES)
    disk.keep(path_of(1), node_of(path_of(1)))
    disk.keep(path_of(2, 999), node_of(path_of(2, 999)))
    assert kept(disk, 1) == [1]
    assert disk.read(path_of(2, 999), 0) is None


def test_no_room_keeps_nothing_and_deletes_what_is_there(open_disk, tmp_path):
    open_disk().keep(path_of(1), node_of(path_of(1)))
    (tmp_path / "prefixes" / "note.txt").touch()
    disk = open_disk(max_bytes=0)
    disk.keep(path_of(2), node_of(path_of(2)))
    assert [file.name for file in files(tmp_path)] == ["note.txt"]


def test_time_to_live_counts_from_the_last_use(open_disk, clock, tmp_path):
    disk = open_disk(ttl_s=2 * DAY)
    for number in (1, 2):
        disk.keep(path_of(number), node_of(path_of(number)))
    clock[0] += 1.5 * DAY
    assert kept(disk, 1) == [1]
    clock[0] += 1 * DAY
    assert kept(disk, 1, 2) == [1]
    assert len(files(tmp_path)) == 2
    open_disk(ttl_s=2 * DAY)
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "It is damaged, or no such file at all."),
        (b"garbage" * 9, "It is damaged, or no such file at all."),
        (None, "It is of other tokens."),
    ],
    ids=["empty", "garbage", "foreign"],
)
def test_a_file_that_cannot_be_used_is_told_and_never_used(open_disk, tmp_path, caplog, content, words):
    disk = open_disk()
    disk.keep(path_of(1), node_of(path_of(1)))
    (mine,) = files(tmp_path)
    disk.keep(path_of(2), node_of(path_of(2)))
    (foreign,) = set(files(tmp_path)) - {mine}
    mine.write_bytes(foreign.read_bytes() if content is None else content)
    fresh = open_disk()
    assert fresh.read(path_of(1), 0) is None
    assert caplog.record_tuples == [
        (
            "pipeline.inference.prefix_disk",
            logging.WARNING,
            f"The stored prefix {mine} is ignored and deleted. {words}",
        )
    ]
    assert files(tmp_path) == [foreign]
    fresh.keep(path_of(1), node_of(path_of(1)))
    assert kept(open_disk(), 1) == [1]
    assert len(caplog.records) == 1


def test_a_file_that_another_process_deletes_is_simply_not_there_until_it_is_kept_again(open_disk, tmp_path, caplog):
    disk = open_disk()
    disk.keep(path_of(1), node_of(path_of(1)))
    files(tmp_path)[0].unlink()
    assert kept(disk, 1) == []
    disk.keep(path_of(1), node_of(path_of(1)))
    assert kept(open_disk(), 1) == [1]
    assert caplog.records == []


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
@pytest.mark.parametrize("block", [0, 1], ids=["key", "value"])
def test_numbers_that_are_not_finite_are_not_kept(open_disk, tmp_path, caplog, number, block):
    node = node_of(path_of(1))
    node.lanes.read(SHAPE.layers - 1, 1, LEAST_TOKENS)[block][0, 0, -1, -1] = number
    disk = open_disk()
    disk.keep(path_of(1), node)
    assert kept(disk, 1) == []
    disk.keep(path_of(1), node_of(path_of(1)))
    assert kept(open_disk(), 1) == [1]
    assert caplog.records == []


def test_what_a_killed_process_left_unfinished_is_cleared_away_in_time(open_disk, tmp_path, clock):
    open_disk().keep(path_of(1), node_of(path_of(1)))
    left = tmp_path / "prefixes" / "tmpabc.tmp"
    left.write_bytes(b"half a file")
    os.utime(left, (NOW, NOW))
    clock[0] += 60
    open_disk()
    assert left.exists()
    clock[0] += 3600
    assert kept(open_disk(), 1) == [1]
    assert not left.exists()


def test_a_disk_that_fails_is_told_once_and_then_left_alone(open_disk, tmp_path, caplog):
    disk = open_disk()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        for number in (1, 2):
            disk.keep(path_of(number), node_of(path_of(number)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    (record,) = caplog.records
    assert record.getMessage().startswith(f"Prefixes are neither kept in {tmp_path / 'prefixes'} nor read from there")
    assert "File too large" in record.getMessage()
    assert files(tmp_path) == []


def test_a_directory_that_cannot_be_is_told_once(open_disk, tmp_path, caplog):
    (tmp_path / "prefixes").write_text("a file in its place")
    disk = open_disk()
    for number in (1, 2):
        assert disk.read(path_of(number), 0) is None
        disk.keep(path_of(number), node_of(path_of(number)))
    assert [record.getMessage() for record in caplog.records] == [
        f"Prefixes are neither kept in {tmp_path / 'prefixes'} nor read from there any more: Not a directory."
    ]


def test_the_last_of_a_disk_is_left_to_what_may_not_be_lost(open_disk, tmp_path, caplog, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1 << 40, 1 << 40, 1 << 30))
    open_disk().keep(path_of(1), node_of(path_of(1)))
    assert files(tmp_path) == []
    assert "No space left on device" in caplog.text
