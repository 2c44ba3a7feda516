from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.ingest.rows import read_rows
from pipeline.ingest.shards import Shard
from pipeline.ingest.sorted_shards import Sorting, sort_into_shards
from pipeline.rows import Row

PAGES = ["b", "a", "c"] * 4
CutAll = Callable[..., list[Shard]]


@pytest.fixture
def sorted_shards(tmp_path: Path, cut_all: CutAll) -> Callable[..., list[Shard]]:
    """A file's rows in pages of three, sorted by the columns into shards of `most` rows."""

    def sort(path: Path, *by: str, most: int = 3, key: str | None = None, **done: int) -> list[Shard]:
        sorting = Sorting(by, key, most, tmp_path)
        return list(sort_into_shards(cut_all(str(path)), str(tmp_path / "shards"), sorting, **done))

    return sort


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    def write(**columns: Sequence[object]) -> Path:
        pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
        return tmp_path / "rows.parquet"

    return write


def read(shard: Shard, *columns: str, key: str | None = None) -> list[Row]:
    return list(read_rows(shard.path, shard.row_from, columns=columns, key=key))


def test_rows_keep_their_ids_and_keys(table, sorted_shards):
    path = table(text=PAGES, id=[f"k{row}" for row in range(12)], other=range(12))
    shards = sorted_shards(path, "text", key="id", most=4)
    assert [(shard.shard_no, shard.row_from, shard.row_to) for shard in shards] == [(0, 0, 4), (1, 4, 8), (2, 8, 12)]
    assert [shard.row_ids for shard in shards] == [(1, 4, 7, 10), (0, 3, 6, 9), (2, 5, 8, 11)]
    for shard in shards:
        for row in read(shard, "text", key="id"):
            assert (row.row_id in shard.row_ids, row.key) == (True, f"k{row.row_id}")
            assert row.values == {"text": PAGES[row.row_id]}
    assert "other" not in pq.read_schema(shards[0].path).names
    some = list(read_rows(shards[1].path, 4, columns=["text"], key=None, row_ids=[0, 4, 9]))
    assert some == [Row(0, "0", {"text": "b"}), Row(9, "9", {"text": "b"})]


@pytest.mark.parametrize(
    ("texts", "most", "sizes"),
    [
        ("abcabcabcabc", 5, [4, 4, 4]),
        ("abcabcabcabc", 9, [8, 4]),
        ("aaaabbbbbbbb", 5, [4, 5, 3]),  # the bs are more than fill a shard
        ("abbbbbbbbbbb", 5, [1, 5, 5, 1]),
        ("aaaaaaaaaaaa", 5, [5, 5, 2]),
        ("abcdefghijkl", 5, [5, 5, 2]),
    ],
)
def test_rows_of_one_key_are_in_one_shard_unless_they_are_more_than_fill_it(table, sorted_shards, texts, most, sizes):
    shards = sorted_shards(table(text=list(texts)), "text", most=most)
    assert [shard.row_to - shard.row_from for shard in shards] == sizes
    assert sorted(row_id for shard in shards for row_id in shard.row_ids) == list(range(12))


@pytest.mark.parametrize("most", [4, 5, 7])
def test_an_interrupted_sort_goes_on_behind_its_shards(table, sorted_shards, most):
    path = table(text=PAGES)
    whole = sorted_shards(path, "text", most=4)
    rest = sorted_shards(path, "text", most=most, skip_shards=1, skip_rows=4)
    assert rest[0].shard_no == 1
    assert [row_id for shard in rest for row_id in sorted(shard.row_ids)] == [
        row_id for shard in whole[1:] for row_id in shard.row_ids
    ]


def test_what_is_within_columns_and_lists_and_a_column_of_the_name_of_ours(table, sorted_shards):
    chats = [[{"role": "user", "content": "BA"[row % 2]}] for row in range(6)]
    path = table(row_id=[{"n": row % 2} for row in range(6)], chat=chats)
    by_field, by_list = (sorted_shards(path, by) for by in ("row_id.n", "chat"))
    assert [shard.row_ids for shard in by_field] == [(0, 2, 4), (1, 3, 5)]
    assert [shard.row_ids for shard in by_list] == [(1, 3, 5), (0, 2, 4)]
    assert [row.values["row_id.n"] for row in read(sorted_shards(path, "row_id.n")[1], "row_id.n")] == [1, 1, 1]


@pytest.mark.parametrize("kind", [pa.int8(), pa.bool_(), pa.float32(), pa.date32(), pa.timestamp("us", "UTC")])
def test_values_that_are_no_texts_are_told_apart(tmp_path, sorted_shards, kind):
    values = pa.array([1, 0, None] * 3, pa.int32())
    cast = values.cast(pa.int64()).cast(kind) if kind == pa.timestamp("us", "UTC") else values.cast(kind)
    pq.write_table(pa.table({"v": cast}), tmp_path / "rows.parquet")
    shards = sorted_shards(tmp_path / "rows.parquet", "v")
    assert sorted(shard.row_ids for shard in shards) == [(0, 3, 6), (1, 4, 7), (2, 5, 8)]


def test_words_of_a_dictionary(tmp_path, sorted_shards):
    pq.write_table(pa.table({"v": pa.array(PAGES).dictionary_encode()}), tmp_path / "rows.parquet")
    shards = sorted_shards(tmp_path / "rows.parquet", "v", most=4)
    assert [{row.values["v"] for row in read(shard, "v")} for shard in shards] == [{"a"}, {"b"}, {"c"}]
