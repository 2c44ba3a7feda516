import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.ingest import rows
from pipeline.ingest.inputs import resolve
from pipeline.ingest.rows import peek, read_rows
from pipeline.rows import Row

Write = Callable[[str, bytes], str]


@pytest.fixture
def shard(tmp_path: Path) -> str:
    path = tmp_path / "00001.parquet"
    pq.write_table(pa.table({"id": [7, 8, None, 9], "text": ["a", "b", "c", None], "n": [1, 2, 3, 4]}), path)
    return str(path)


def test_rows_hold_the_columns_asked_for(shard: str) -> None:
    assert list(read_rows(shard, 100, columns=["text"], key=None)) == [
        Row(100, "100", {"text": "a"}),
        Row(101, "101", {"text": "b"}),
        Row(102, "102", {"text": "c"}),
        Row(103, "103", {"text": None}),
    ]


def test_the_key_is_text_and_not_among_the_values(shard: str) -> None:
    found = list(read_rows(shard, 0, columns=["n", "text"], key="id"))
    assert found[0] == Row(0, "7", {"n": 1, "text": "a"})
    assert [row.key for row in found] == ["7", "8", "2", "9"]


def test_the_key_may_be_a_column_of_the_prompt(shard: str) -> None:
    assert next(read_rows(shard, 0, columns=["id"], key="id")) == Row(0, "7", {"id": 7})


def test_a_static_prompt_needs_no_column(shard: str) -> None:
    assert [(row.row_id, row.values) for row in read_rows(shard, 5, columns=[], key=None)] == [
        (row_id, {}) for row_id in (5, 6, 7, 8)
    ]


@pytest.mark.parametrize("size", [1, 2, 100])
def test_only_some_rows(shard: str, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(rows, "_BATCH_ROWS", size)
    found = list(read_rows(shard, 100, columns=["text"], key="id", row_ids=[103, 101, 999]))
    assert found == [Row(101, "8", {"text": "b"}), Row(103, "9", {"text": None})]
    assert list(read_rows(shard, 100, columns=["text"], key=None, row_ids=[])) == []


def test_a_column_that_the_shard_lacks(shard: str) -> None:
    with pytest.raises(InputError, match=r'has no column "texts". Did you mean "text"'):
        list(read_rows(shard, 0, columns=["texts"], key=None))


def test_a_shard_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"00009\.parquet, .* does not exist on this machine\. If it was moved"):
        list(read_rows(str(tmp_path / "00009.parquet"), 0, columns=[], key=None))


def test_a_column_with_a_dot_in_its_name_and_nested_values(tmp_path: Path) -> None:
    path = tmp_path / "0.parquet"
    pq.write_table(pa.table({"a.b": ["dot"], "a": [{"b": 1}]}), path)
    assert [dict(row.values) for row in read_rows(str(path), 0, columns=["a.b", "a"], key=None)] == [
        {"a.b": "dot", "a": {"b": 1}}
    ]
    assert [dict(row.values) for row in read_rows(str(path), 0, columns=["a.b"], key=None)] == [{"a.b": "dot"}]


def test_nanoseconds_are_cut_to_what_python_has(tmp_path: Path) -> None:
    path = tmp_path / "0.parquet"
    columns = {"when": pa.array([1999], pa.timestamp("ns", "UTC")), "long": pa.array([1999], pa.duration("ns"))}
    pq.write_table(pa.table(columns), path)
    [row] = read_rows(str(path), 0, columns=["when", "long"], key=None)
    assert row.values == {"when": datetime(1970, 1, 1, 0, 0, 0, 1, UTC), "long": timedelta(microseconds=1)}


def test_a_year_that_python_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "0.parquet"
    pq.write_table(pa.table({"day": pa.array([10_000_000], pa.date32())}), path)
    assert [dict(row.values) for row in read_rows(str(path), 0, columns=["day"], key=None)] == [{"day": "29349-01-26"}]


def test_peek_gives_the_first_rows(write: Write) -> None:
    source = resolve([write("a.csv", b"a,b\n1,x\n"), write("b.csv", b"b,a\ny,2\nz,3\n")])
    assert peek(source, 2) == [{"a": "1", "b": "x"}, {"a": "2", "b": "y"}]
    assert peek(source, 9) == [{"a": "1", "b": "x"}, {"a": "2", "b": "y"}, {"a": "3", "b": "z"}]


def test_what_is_within_a_column_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "0.parquet"
    chats = [[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}], [{"role": "user"}], None]
    pq.write_table(pa.table({"id": [{"n": 7}, {"n": 8}, None], "chat": chats, "other": [1, 2, 3]}), path)
    found = list(read_rows(str(path), 0, columns=["chat.1.content", "chat.0.role"], key="id.n"))
    assert found == [
        Row(0, "7", {"chat.1.content": "Ho", "chat.0.role": "user"}),
        Row(1, "8", {"chat.1.content": None, "chat.0.role": "user"}),
        Row(2, "2", {"chat.1.content": None, "chat.0.role": None}),
    ]


def test_peek_gives_what_is_at_paths_beside_the_columns(write: Write) -> None:
    source = resolve([write("a.jsonl", b'{"a": {"b": 1}, "c": "x"}\n')])
    assert peek(source, 1, ["a.b", "c"]) == [{"a": {"b": 1}, "c": "x", "a.b": 1}]


def test_peek_leaves_standard_input_alone() -> None:
    source = resolve(["-"], io.BytesIO(b'{"a":1}\n'))
    with pytest.raises(InputError, match=r"^Standard input cannot be looked at before it is answered"):
        peek(source, 1)
    assert [batch.to_pylist() for _, batch in source.batches()] == [[{"a": 1}]]
