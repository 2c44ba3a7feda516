import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError, JobError, TryAgain
from pipeline.ingest import lines
from pipeline.ingest.inputs import resolve
from pipeline.ingest.shards import Shard, cut

Write = Callable[[str, bytes], str]
CutAll = Callable[..., list[Shard]]


def texts(count: int) -> bytes:
    return b"".join(b"text %d\n" % n for n in range(count))


def contents(shards: list[Shard]) -> list[list[str]]:
    return [pq.read_table(shard.path).column("text").to_pylist() for shard in shards]


def test_shards_are_numbered_and_full_but_the_last(write: Write, cut_all: CutAll, tmp_path: Path) -> None:
    shards = cut_all(write("a.txt", texts(7)))
    folder = tmp_path / "shards"
    assert shards == [
        Shard(0, str(folder / "00000.parquet"), 0, 3),
        Shard(1, str(folder / "00001.parquet"), 3, 6),
        Shard(2, str(folder / "00002.parquet"), 6, 7),
    ]
    assert contents(shards) == [["text 0", "text 1", "text 2"], ["text 3", "text 4", "text 5"], ["text 6"]]
    assert sorted(path.name for path in folder.iterdir()) == ["00000.parquet", "00001.parquet", "00002.parquet"]


@pytest.mark.parametrize("size", [1, 20, 40, 1000])
def test_shards_do_not_depend_on_blocks_or_files(
    write: Write, cut_all: CutAll, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", size)
    shards = cut_all(write("a.txt", texts(4)), write("b.txt", b""), write("c.txt", texts(5)))
    assert [shard.row_to for shard in shards] == [3, 6, 9]
    assert [text for shard in contents(shards) for text in shard] == [f"text {n}" for n in (0, 1, 2, 3, 0, 1, 2, 3, 4)]


def test_a_shard_is_there_when_it_is_yielded_and_no_later_one(write: Write, tmp_path: Path) -> None:
    shards = cut(resolve([write("a.txt", texts(7))]), str(tmp_path / "s"), shard_rows=3, key=None, limit=None)
    assert Path(next(shards).path).exists()
    assert [path.name for path in (tmp_path / "s").iterdir()] == ["00000.parquet"]


@pytest.mark.parametrize(("limit", "last"), [(2, 2), (3, 3), (4, 4), (100, 7)])
def test_the_limit(write: Write, cut_all: CutAll, limit: int, last: int) -> None:
    assert cut_all(write("a.txt", texts(7)), limit=limit)[-1].row_to == last


@pytest.mark.parametrize("skip", [0, 3, 6, 7])
@pytest.mark.parametrize("limit", [None, 7])
def test_an_interrupted_cut_goes_on_exactly(write: Write, cut_all: CutAll, skip: int, limit: int | None) -> None:
    name = write("a.txt", texts(7))
    whole = cut_all(name, limit=limit)
    before = {shard.path: Path(shard.path).read_bytes() for shard in whole}
    done = [shard for shard in whole if shard.row_to <= skip]
    for shard in whole[len(done) :]:
        Path(shard.path).unlink()
    assert done + cut_all(name, limit=limit, skip_rows=skip) == whole
    assert {shard.path: Path(shard.path).read_bytes() for shard in whole} == before


def test_what_a_killed_cut_left_is_written_over(write: Write, cut_all: CutAll, tmp_path: Path) -> None:
    write("shards/00000.parquet.tmp", b"half a shard")
    assert contents(cut_all(write("a.txt", texts(1)))) == [["text 0"]]
    assert [path.name for path in (tmp_path / "shards").iterdir()] == ["00000.parquet"]


def test_a_killed_cut_goes_on_exactly(write: Write, tmp_path: Path) -> None:
    name, folder = write("a.txt", texts(2000)), tmp_path / "shards"
    program = f"""
from pipeline.ingest.inputs import resolve
from pipeline.ingest.shards import cut
for shard in cut(resolve([{name!r}]), {str(folder)!r}, shard_rows=3, key=None, limit=None):
    print(shard.row_to, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = [process.stdout.readline() for _ in range(5)]
        process.kill()
    done = int(printed[-1])
    assert all(pq.read_table(path).num_rows == 3 for path in folder.glob("*.parquet"))
    rest = list(cut(resolve([name]), str(folder), shard_rows=3, key=None, limit=None, skip_rows=done))
    assert (done, rest[0].shard_no, rest[0].row_from, rest[-1].row_to) == (15, 5, 15, 2000)
    whole = [Shard(shard_no, str(path), 0, 0) for shard_no, path in enumerate(sorted(folder.iterdir()))]
    assert [text for shard in contents(whole) for text in shard] == [f"text {n}" for n in range(2000)]


def test_the_keys_of_skipped_rows_count(write: Write, cut_all: CutAll) -> None:
    name = write("a.csv", b"id\na\nb\nc\nd\na\n")
    with pytest.raises(InputError, match=r'"a" twice: in row 1 of .* and in row 5 of'):
        cut_all(name, key="id")
    with pytest.raises(InputError, match=r'"a" twice: in row 1 of .* and in row 5 of'):
        cut_all(name, key="id", skip_rows=3)


@pytest.mark.parametrize(("rows", "skip"), [(2, 3), (6, 4)], ids=["shorter", "longer"])
def test_an_input_that_changed_in_between(write: Write, cut_all: CutAll, rows: int, skip: int) -> None:
    with pytest.raises(InputError, match=f"^The input is not what it was when its first {skip} rows were cut"):
        cut_all(write("a.txt", texts(rows)), skip_rows=skip)


@pytest.mark.parametrize("data", [b"", b"\n"])
def test_no_rows_at_all(write: Write, cut_all: CutAll, data: bytes) -> None:
    with pytest.raises(InputError, match=r"^The input has no rows, so there is nothing to answer\.$"):
        cut_all(write("a.csv", b"a,b\n" if data else data), write("b.jsonl", data))


def test_no_rows_with_a_key(write: Write, cut_all: CutAll) -> None:
    with pytest.raises(InputError, match=r"^The input has no rows"):
        cut_all(write("a.csv", b"a,b\n"), key="a")


def test_types_survive_a_shard(tmp_path: Path, cut_all: CutAll) -> None:
    table = pa.table(
        {
            "n": [1, None],
            "deep": [{"k": [1, 2]}, None],
            "when": pa.array([0, None], pa.timestamp("ns", "UTC")),
            "word": pa.array(["x", None]).dictionary_encode(),
            "none": pa.nulls(2),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    [shard] = cut_all(str(tmp_path / "a.parquet"))
    read = pq.read_table(shard.path)
    assert read.drop_columns(["word", "none"]) == table.drop_columns(["word", "none"])
    assert (read["word"].to_pylist(), read["none"].to_pylist()) == (["x", None], [None, None])


def test_a_fault_far_down_leaves_the_shards_before_it(write: Write, tmp_path: Path, cut_all: CutAll) -> None:
    good = write("a.jsonl", b'{"a":1}\n' * 4)
    with pytest.raises(InputError, match=r"Line 2 of .*b\.jsonl is not JSON"):
        cut_all(good, write("b.jsonl", b'{"a":1}\nx'))
    bad = write("c.csv.gz", b"no gz")
    with pytest.raises(InputError, match=r"c\.csv\.gz cannot be read: zlib inflate failed"):
        cut_all(bad)
    assert not list(tmp_path.rglob("*.tmp"))


def test_standard_input_is_cut_but_not_continued(tmp_path: Path) -> None:
    data = "".join(f"{json.dumps({'text': f'text {n}'})}\n" for n in range(4)).encode()
    shards = cut(resolve(["-"], io.BytesIO(data)), str(tmp_path), shard_rows=3, key="text", limit=None)
    assert contents(list(shards)) == [["text 0", "text 1", "text 2"], ["text 3"]]
    again = cut(resolve(["-"], io.BytesIO(data)), str(tmp_path), shard_rows=3, key=None, limit=None, skip_rows=3)
    with pytest.raises(InputError, match=r"^Standard input cannot be read again from its start"):
        next(again)


def test_a_value_that_no_shard_can_keep_is_told(cut_all: CutAll, tmp_path: Path) -> None:
    table = pa.table({"when": pa.array([0, 1 << 62], pa.timestamp("s"))})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(
        InputError, match=r"^The input holds a value that cannot be kept: Integer overflow when casting"
    ):
        cut_all(str(tmp_path / "a.arrow"))


def test_a_full_disk_is_a_matter_of_the_moment(write: Write, cut_all: CutAll, tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    (folder / "00000.parquet.tmp").symlink_to("/dev/full")
    with pytest.raises(TryAgain) as caught:
        cut_all(write("a.txt", texts(3)))
    assert str(caught.value) == (
        f"The disk is full: shards cannot be written to {folder} (No space left on device). "
        "Free some space, then give the same command again."
    )
    assert list(folder.iterdir()) == []


def test_a_file_where_the_folder_should_be(write: Write, cut_all: CutAll) -> None:
    folder = write("shards", b"")
    with pytest.raises(JobError) as caught:
        cut_all(write("a.txt", texts(3)))
    assert str(caught.value) == f"Shards cannot be written to {folder}: File exists."
