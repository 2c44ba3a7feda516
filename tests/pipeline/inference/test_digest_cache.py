"""A large file is read once, and once more as soon as it may be another one."""

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipeline.errors import ModelError
from pipeline.inference import digest_cache
from pipeline.inference.digest_cache import DigestCache, digest_of

SIZE = 16 << 20


def later() -> int:
    """When whatever a test has written is no longer new."""
    return time.time_ns() + 10**10


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.safetensors"
    write(path, SIZE)
    return path


@pytest.fixture
def cache(tmp_path):
    return DigestCache(tmp_path / "home", clock=later)


@pytest.fixture
def reads(monkeypatch):
    """The files that were read, one after the other."""
    found = []
    monkeypatch.setattr(digest_cache, "digest_of", lambda path: found.append(path) or digest_of(path))
    return found


def write(path, size, mark=b"1"):
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(size // 2)
        file.write(mark)


def rewrite(path):
    """Other bytes of the same number, in the same file, and its time set back."""
    times = path.stat()
    with path.open("r+b") as file:
        file.write(b"2")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def replace(path):
    write(path.with_name("new"), SIZE, b"2")
    path.with_name("new").replace(path)


def test_it_is_of_all_bytes(file, tmp_path):
    assert digest_of(file) == hashlib.blake2b(file.read_bytes(), digest_size=32).hexdigest()
    with pytest.raises(ModelError, match="cannot be read: Is a directory"):
        digest_of(tmp_path)


def test_a_file_is_read_once_whoever_asks_and_by_whichever_name(cache, file, reads, tmp_path):
    first = cache.digests([file])
    (tmp_path / "link").symlink_to(file)
    assert DigestCache(cache.home, clock=later).digests([file, tmp_path / "link"]) == first * 2
    assert reads == [file]


@pytest.mark.parametrize(
    "change", [lambda path: write(path, SIZE + 1), lambda path: os.utime(path, (9, 9)), rewrite, replace]
)
def test_what_may_have_changed_is_read_anew(cache, file, reads, change):
    cache.digests([file])
    change(file)
    assert cache.digests([file]) == cache.digests([file]) == [digest_of(file)]
    assert reads == [file, file]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"digest": "%s"}' % (b"0" * 64), b"\xff", None])
def test_a_damaged_memory_is_read_past_and_mended(cache, file, reads, damage):
    first = cache.digests([file])
    (kept,) = (cache.home / "digests").iterdir()
    kept.write_bytes(kept.read_bytes().replace(first[0].encode(), first[0][:-2].encode()) if damage is None else damage)
    assert cache.digests([file]) == cache.digests([file]) == first
    assert reads == [file, file]


def test_a_file_that_was_written_just_now_is_not_yet_trusted(tmp_path, file, reads):
    cache = DigestCache(tmp_path / "home")
    assert cache.digests([file]) == cache.digests([file])
    assert reads == [file, file]


def test_a_file_system_that_tells_no_time_is_not_trusted(cache, file, reads):
    os.utime(file, (0, 0))
    assert cache.digests([file]) == cache.digests([file])
    assert reads == [file, file]


def test_what_is_small_is_not_kept(cache, tmp_path):
    (tmp_path / "small.bin").write_bytes(b"1")
    cache.digests([tmp_path / "small.bin"])
    assert not (tmp_path / "home").exists()


def test_a_home_that_cannot_be_written_to_is_no_error(cache, file, reads):
    cache.home.write_text("a file in its place")
    assert cache.digests([file]) == cache.digests([file]) == DigestCache().digests([file])
    assert reads == [file] * 3


def test_several_at_once_come_to_the_same(cache, file):
    with ThreadPoolExecutor(4) as pool:
        assert set(map(tuple, pool.map(cache.digests, [[file]] * 4))) == {(digest_of(file),)}
    assert len(list((cache.home / "digests").iterdir())) == 1


def test_what_takes_long_is_told_and_only_then(file, tmp_path, monkeypatch):
    told = []
    cache = DigestCache(tmp_path / "home", told.append, later)
    monkeypatch.setattr(digest_cache, "_LONG_BYTES", SIZE)
    for _ in range(2):
        cache.digests([file])
    assert told == [f"Reading 0.0 GB in {tmp_path}, to know the model by all that it holds ..."]
