"""Values that a column of text cannot hold reach the row that has them, and no other."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.ingest import lines
from pipeline.ingest.inputs import resolve
from pipeline.ingest.rows import peek, read_rows
from pipeline.ingest.shards import Shard, cut
from pipeline.ingest.strange import readable
from pipeline.ingest.taking import Tally

BROKEN = pa.array([b"good", b"ba\xffd", None, b"\xff[1]", b"\xed\xa0\x80"]).view(pa.string())
READ = ["good", "ba\udcffd", None, [1], "\ud800"]


@pytest.fixture
def values_of(cut_all: Callable[..., list[Shard]]) -> Callable[..., list[Any]]:
    """Of a column of the file, through shards, after a look at them."""

    def _values_of(name: str, column: str) -> list[Any]:
        looked = [row[column] for row in peek(resolve([name]), 1000)]
        shards = cut_all(name)
        kept = [row for shard in shards for row in read_rows(shard.path, shard.row_from, columns=[column], key=None)]
        assert [row.values[column] for row in kept] == looked
        return looked

    return _values_of


def write(path: Path, rows: list[Any]) -> str:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


STRANGE = [["a", {"b": "\ud83d"}], {"x": "y"}, "half \ud83d", 5, 1.5, True, None]


@pytest.mark.parametrize("block", [1 << 20, 64], ids=["one block", "many blocks"])
def test_what_is_no_text_behind_texts(tmp_path, monkeypatch, values_of, block):
    monkeypatch.setattr(lines, "BLOCK_BYTES", block)
    texts = ["text", "é", *(part for each in STRANGE for part in (each, "and text"))]
    name = write(tmp_path / "a.jsonl", [{"t": text, "n": n} for n, text in enumerate(texts)])
    assert values_of(name, "t") == texts
    assert values_of(name, "n") == list(range(len(texts)))


def test_within_lists_and_objects(tmp_path, values_of):
    chats = [
        [{"role": "user", "content": "text"}],
        [{"role": "user", "content": [{"type": "text"}]}, {"role": "user", "content": "half \udfff"}],
        None,
        [{"role": "user", "content": "more text"}],
    ]
    assert values_of(write(tmp_path / "a.jsonl", [{"m": chat} for chat in chats]), "m") == chats


def test_blank_lines_are_no_rows(tmp_path, values_of):
    path = tmp_path / "a.jsonl"
    path.write_text('{"t": "a"}\n\n  \n{"t": []}\n\n{"t": "b"}')
    assert values_of(str(path), "t") == ["a", [], "b"]


def test_the_line_of_another_fault_is_told(tmp_path):
    name = write(tmp_path / "a.jsonl", [{"t": "a", "n": 1}, {"t": [], "n": 1}, {"t": "b", "n": "two"}])
    with pytest.raises(InputError, match=r'^Line 3 of .* holds text in the column "n": "two"'):
        list(resolve([name]).batches())


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize(
    ("column", "read"),
    [
        (BROKEN, READ),
        (BROKEN.cast(pa.large_string()), READ),
        (BROKEN.dictionary_encode(), READ),
        (pa.StructArray.from_arrays([BROKEN], ["x"]), [{"x": value} for value in READ]),
        (pa.ListArray.from_arrays([0, 2, 5], BROKEN), [READ[:2], READ[2:]]),
    ],
    ids=["text", "large text", "dictionary", "object", "list"],
)
def test_bytes_that_are_no_utf8(tmp_path, values_of, ending, column, read):
    table, name = pa.table({"t": column, "n": range(len(column))}), tmp_path / f"a.{ending}"
    if ending == "parquet":
        pq.write_table(table, name)
    else:
        with pa.ipc.new_file(name, table.schema) as file:
            file.write_table(table)
    assert values_of(str(name), "t") == read
    assert values_of(str(name), "n") == list(range(len(column)))


@pytest.mark.parametrize(
    ("ending", "line"), [("csv", "{}\n"), ("tsv", "{}\n"), ("txt", "{}\n"), ("jsonl", '{{"text": "{}"}}\n')]
)
@pytest.mark.parametrize("block", [1 << 20, 64], ids=["one block", "many blocks"])
def test_bytes_that_are_no_utf8_in_lines(tmp_path, monkeypatch, values_of, ending, line, block):
    monkeypatch.setattr(lines, "BLOCK_BYTES", block)
    texts = [*(f"text {n} é" for n in range(9)), "caf\udce9", "half of é: \udcc3", "more", "\udcff", "the end"]
    data = ("text\n" if ending in ("csv", "tsv") else "") + "".join(map(line.format, texts))
    (tmp_path / f"a.{ending}").write_bytes(data.encode(errors="surrogateescape"))
    assert values_of(str(tmp_path / f"a.{ending}"), "text") == texts


def test_rows_with_what_is_no_text_are_counted_and_the_first_is_told_as_far_as_rows_are_taken(tmp_path):
    names = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    Path(names[0]).write_bytes(b"id,text,more\n1,a,b\n")
    Path(names[1]).write_bytes(b"id,text,more\n2,good,good\n3,good,ba\xffd\n4,good,good\n5,ba\xffd,ba\xffd\n6,a,\xff\n")
    told = f'row 2 of {names[1]} (rows counted from 1, a header not counted), column "more"'
    for limit, count, first in ((None, 3, told), (5, 2, told), (2, 0, None)):
        tally = Tally()
        list(cut(resolve(names), str(tmp_path / "shards"), shard_rows=9, key=None, limit=limit, tally=tally))
        assert (tally.strange, tally.first_strange) == (count, first)


def test_numbers_amid_texts_are_no_fault(tmp_path):
    tally = Tally()
    name = write(tmp_path / "a.jsonl", [{"t": each} for each in ("a", 1, True, 1.5, None, ["b"], {"c": 1}, "\ud800")])
    list(cut(resolve([name]), str(tmp_path / "shards"), shard_rows=9, key=None, limit=None, tally=tally))
    assert (tally.strange, tally.first_strange) == (
        3,
        f'row 6 of {name} (rows counted from 1, a header not counted), column "t"',
    )


def test_what_is_written_out_is_text():
    table = readable(pa.table({"a": pa.StructArray.from_arrays([BROKEN], ["x"]), "b": ["good"] * 5}))
    table.validate(full=True)
    assert [each["x"] for each in table["a"].to_pylist()] == ["good", "ba\ufffdd", None, "[1]", "\ufffd"]
    assert table["b"].to_pylist() == ["good"] * 5


def test_what_cannot_be_kept_is_told_with_its_column(tmp_path):
    lines_ = b'{"m":{"t":"a","n":1}}\n{"m":{"t":[],"n":99999999999999999999}}\n'
    with pytest.raises(InputError, match='column "m"'):
        list(resolve(["-"], io.BytesIO(lines_)).batches())
