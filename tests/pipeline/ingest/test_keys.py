from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.ingest import keys
from pipeline.ingest.keys import KeyCheck, Places
from pipeline.ingest.shards import Shard

Write = Callable[[str, bytes], str]
CutAll = Callable[..., list[Shard]]


def check_of(values: list[str]) -> None:
    column = pa.array(values)
    places = Places()
    check = KeyCheck(pa.schema([("id", pa.string())]), "id", places)
    check.add(pa.RecordBatch.from_pydict({"id": column}), places.add("x.csv", len(values)))
    check.finish(lambda: [column.slice(0, 2), column.slice(2)])


def test_a_missing_key_column_names_the_nearest(write: Write, cut_all: CutAll) -> None:
    with pytest.raises(InputError) as caught:
        cut_all(write("a.csv", b"ident,text\n1,x\n"), key="idnt")
    assert str(caught.value) == ('The input has no column "idnt". Did you mean "ident"? Its columns are: ident, text.')


@pytest.mark.parametrize("line", [b'{"id":null}', b'{"id":""}', b"{}"])
def test_a_row_without_a_key_is_named(write: Write, cut_all: CutAll, line: bytes) -> None:
    first, second = write("1.jsonl", b'{"id":"a"}\n' * 4), write("2.jsonl", b'{"id":"b"}\n\n' + line + b"\n")
    with pytest.raises(InputError) as caught:
        cut_all(first, second, key="id")
    assert str(caught.value) == (
        f'The key column "id" is empty in row 2 of {second} (rows counted from 1, a header not counted). '
        "Fill it in, choose another column, or submit without a key."
    )


def test_a_key_twice_is_named_with_both_rows(write: Write, cut_all: CutAll) -> None:
    first, second = write("1.csv", b"id\na\nb\nc\nd\n"), write("2.csv", b"id\ne\nf\nb\n")
    with pytest.raises(InputError) as caught:
        cut_all(first, second, key="id")
    assert str(caught.value) == (
        f'The key column "id" holds "b" twice: in row 2 of {first} and in row 3 of {second} '
        "(rows counted from 1, a header not counted). "
        "Every row needs a key of its own: choose another column, or submit without a key."
    )


def test_numbers_are_keys_too(tmp_path: Path, cut_all: CutAll) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [7, 8, 7]}), path)
    with pytest.raises(InputError, match=r'holds "7" twice: in row 1 of .* and in row 3 of'):
        cut_all(str(path), key="id")


def test_keys_of_rows_beyond_the_limit_do_not_count(write: Write, cut_all: CutAll) -> None:
    assert [shard.row_to for shard in cut_all(write("a.csv", b"id\na\nb\na\n"), key="id", limit=2)] == [2]


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.binary()])
def test_a_column_that_cannot_be_a_key(kind: pa.DataType) -> None:
    with pytest.raises(InputError) as caught:
        KeyCheck(pa.schema([("id", kind)]), "id", Places())
    assert str(caught.value) == (
        f'The column "id" is {kind}, which cannot be a key. Choose one of text or whole numbers.'
    )


def test_keys_that_only_share_a_hash_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "hash", len, raising=False)
    check_of(["aa", "bb", "c", "dd"])
    with pytest.raises(InputError, match=r'holds "bb" twice: in row 2 of x\.csv and in row 5 of x\.csv'):
        check_of(["aa", "bb", "c", "dd", "bb"])


def test_more_shared_hashes_than_are_looked_into_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "hash", len, raising=False)
    monkeypatch.setattr(keys, "_SUSPECTS", 1)
    with pytest.raises(InputError, match=r'holds "ccc" twice'):
        check_of(["a", "b", "cc", "dd", "ccc", "ccc"])


def test_places_count_from_one_in_each_file() -> None:
    places = Places()
    assert [places.add("x", 3), places.add("x", 2), places.add("y", 1)] == [0, 3, 5]
    assert [places.of(0), places.of(4), places.of(5)] == ["row 1 of x", "row 5 of x", "row 1 of y"]
    assert places.n_rows == 6
