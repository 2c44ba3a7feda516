import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.ingest import lines
from pipeline.ingest.inputs import bytes_of, is_same, resolve

Write = Callable[[str, bytes], str]
RowsOf = Callable[..., list[dict[str, Any]]]


def names(*inputs: str) -> list[str]:
    return [Path(part.name).name for part, _ in resolve(inputs).parts]


def fault(*inputs: str) -> str:
    with pytest.raises(InputError) as caught:
        resolve(inputs)
    return str(caught.value)


def test_every_format_gives_the_same_rows(write: Write, rows_of: RowsOf, tmp_path: Path) -> None:
    contents = {".csv": b"text\na\nb\n", ".tsv": b"text\na\nb\n", ".txt": b"a\nb\n"}
    contents |= dict.fromkeys([".jsonl", ".ndjson"], b'{"text":"a"}\n{"text":"b"}\n')
    for suffix, data in contents.items():
        write(f"in/plain{suffix}", data)
        write(f"in/gz{suffix}.gz", gzip.compress(data))
        write(f"in/zst{suffix}.zst", pa.compress(data, codec="zstd", asbytes=True))
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "in" / "p.parquet")
    assert len(names(str(tmp_path / "in"))) == 16
    assert rows_of(str(tmp_path / "in")) == [{"text": "a"}, {"text": "b"}] * 16


def test_a_folder_gives_its_supported_files_sorted_by_path(write: Write, tmp_path: Path) -> None:
    for name in ("b.txt", "a/c.txt", "a/.hidden.txt", "_temporary/x.txt", "a/_SUCCESS", "notes.md", "c.txt"):
        write(f"in/{name}", b"x\n")
    assert names(str(tmp_path / "in")) == ["c.txt", "b.txt", "c.txt"]


def test_a_folder_without_a_supported_file(write: Write, tmp_path: Path) -> None:
    write("in/notes.md", b"x")
    assert fault(str(tmp_path / "in")) == f"There is no file of a supported kind in the folder {tmp_path / 'in'}."


def test_a_pattern_gives_its_files_sorted(write: Write, tmp_path: Path) -> None:
    for name in ("3.txt", "1.txt", "2.csv", "sub/4.txt", "x.txt/5.csv"):
        write(name, b"text\n")
    assert names(str(tmp_path / "*.txt")) == ["1.txt", "3.txt"]
    assert names(str(tmp_path / "**" / "*.txt")) == ["1.txt", "3.txt", "4.txt"]


def test_a_pattern_that_matches_nothing() -> None:
    assert fault("nowhere/*.csv") == (
        "No file matches the pattern nowhere/*.csv. Check it, and the folder that you are in."
    )


def test_a_file_whose_name_looks_like_a_pattern(write: Write) -> None:
    assert names(write("a[1].txt", b"x\n")) == ["a[1].txt"]


def test_a_missing_file() -> None:
    assert fault("missing.csv") == "missing.csv does not exist. Check the name, and the folder that you are in."


@pytest.mark.parametrize(
    ("ending", "remedy"),
    [
        ("doc", ""),
        ("json", " Write JSON as .jsonl, an object on each line."),
        ("XLSX", " Save the sheet as .csv, in UTF-8."),
    ],
)
def test_an_unknown_extension_lists_the_known_ones(write: Write, ending: str, remedy: str) -> None:
    name = write(f"a.{ending}", b"")
    assert fault(name) == (
        f"{name} has no extension that is known. Supported are .parquet, .arrow, .feather, .ipc, and .csv, .tsv, "
        f".jsonl, .ndjson, .txt, the latter also with .gz or .zst behind.{remedy}"
    )


def test_a_pipe_by_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    assert fault(str(tmp_path / "a.jsonl")).startswith(f"{tmp_path / 'a.jsonl'} is neither a file nor a folder.")


def test_a_name_that_the_system_refuses() -> None:
    assert fault("x" * 300 + ".csv") == f"{'x' * 300}.csv cannot be read: File name too long."


def test_a_file_given_twice(write: Write, tmp_path: Path) -> None:
    name = write("a.txt", b"x\n")
    assert fault(name, str(tmp_path / "*.txt")).startswith(f"{name} is given twice")


def test_several_inputs_are_one_table(write: Write, rows_of: RowsOf, tmp_path: Path) -> None:
    one = write("1.jsonl", b'{"n":1,"t":null}\n')
    pq.write_table(pa.table({"t": ["x"], "n": [0.5]}), tmp_path / "2.parquet")
    empty = write("3.csv", b"")
    assert rows_of(one, str(tmp_path / "2.parquet"), empty) == [{"n": 1.0, "t": None}, {"n": 0.5, "t": "x"}]


def test_inputs_that_disagree_are_named(write: Write) -> None:
    one, two = write("1.jsonl", b'{"n":1}\n'), write("2.csv", b"n\n1\n")
    assert fault(one, two).startswith(f'The column "n" is int64 in {one} but string in {two}.')


def test_the_digest_is_of_path_size_and_time(write: Write) -> None:
    name, other = write("a.txt", b"one\n"), write("b.txt", b"one\n")
    before = resolve([name]).digest()
    assert len(before) == 66
    assert (bytes_of(before), bytes_of(before[:64]), bytes_of("stdin")) == (4, None, None)
    assert is_same(resolve([name]).digest(), before)
    assert is_same(before[:64], before)
    assert not is_same(resolve([other]).digest(), before)
    os.utime(name, ns=(1, 1))
    after = resolve([name]).digest()
    assert after != before
    write("a.txt", b"longer\n")
    os.utime(name, ns=(1, 1))
    assert resolve([name]).digest() not in (before, after)


def test_the_digest_of_a_file_that_is_gone(write: Write) -> None:
    name = write("a.txt", b"one\n")
    source = resolve([name])
    Path(name).unlink()
    with pytest.raises(InputError, match=r"a\.txt does not exist"):
        source.digest()


def test_standard_input_is_json_lines_and_read_once() -> None:
    source = resolve(["-"], io.BytesIO(b'{"a":1}\n'))
    assert (source.is_stream, source.digest(), source.columns()) == (True, "stdin", ["a"])
    assert [batch.to_pylist() for _, batch in source.batches()] == [[{"a": 1}]]
    with pytest.raises(InputError, match=r"^Standard input was read already and cannot be read again"):
        list(source.batches())


def test_standard_input_stands_alone(write: Write) -> None:
    assert fault("-", write("a.txt", b"x\n")).startswith("Standard input (-) cannot be joined with other inputs.")


def test_files_are_no_stream(write: Write) -> None:
    assert not resolve([write("a.txt", b"x\n")]).is_stream


@pytest.mark.parametrize(
    ("name", "data", "rows"),
    [
        ("a.csv", b'a,b\n1,"two\nlines"\n\n2,"x, y"\n', 2),
        ("a.csv", b"", 0),
        ("a.tsv", b"a\n" + b"1\n" * 3, 3),
        ("a.txt", b"one\n\nthree\n", 3),
        ("a.jsonl", b'{"a": 1}\n\n{"a": 2}\n', 2),
        ("a.csv.gz", gzip.compress(b"a\n1\n", mtime=0), None),
    ],
)
def test_about_how_many_rows_there_are(write: Write, name: str, data: bytes, rows: int | None) -> None:
    assert resolve([write(name, data)]).about_rows() == rows


def test_rows_of_several_files_by_their_heads(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 1000)
    parts = [write("a.csv", b"a\n" + b"text\n" * 5000), write("b.jsonl", b'{"a": "text"}\n' * 100)]
    assert resolve(parts).about_rows() == pytest.approx(5100, rel=0.02)
