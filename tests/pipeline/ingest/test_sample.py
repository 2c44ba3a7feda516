"""Rows from all over a table, looked at before it is cut."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.ingest import drawing, parquet, sample
from pipeline.ingest.inputs import resolve
from pipeline.ingest.sample import read_sample
from pipeline.ingest.taking import Tally
from pipeline.rows import Row


@pytest.fixture
def numbers(write):
    """The source of a table of so many numbers, which are the rows' places."""

    def make(count, suffix="jsonl", row_group_size=None):
        name = write(f"{suffix}-{count}.{suffix}", "".join(f"{json.dumps({'n': n})}\n" for n in range(count)).encode())
        if suffix == "parquet":
            pq.write_table(pa.table({"n": range(count), "beside": ["b"] * count}), name, row_group_size=row_group_size)
        return resolve([name])

    return make


def places(found):
    assert [row.values["n"] for row in found.rows] == [row.row_id for row in found.rows]
    return [row.row_id for row in found.rows]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_of_a_small_table_it_is_all_rows(numbers, suffix):
    found = read_sample(numbers(7, suffix), ["n"], 7)
    assert (places(found), found.n_rows, found.is_whole) == (list(range(7)), 7, True)
    assert found.rows[1] == Row(1, "1", {"n": 1})


@pytest.mark.parametrize(("suffix", "row_group_size"), [("jsonl", None), ("parquet", None), ("parquet", 40)])
def test_of_a_large_one_it_is_the_head_and_stretches_from_all_over_it(numbers, monkeypatch, suffix, row_group_size):
    monkeypatch.setattr(parquet, "STRETCH_ROWS", 30)
    source = numbers(3000, suffix, row_group_size)
    found = read_sample(source, ["n"], 80)
    rows = places(found)
    assert (found.n_rows, found.is_whole) == (3000, True)
    assert 60 <= len(rows) <= 85
    assert rows[:2] == [0, 1]
    starts = [one for before, one in zip([None, *rows], rows, strict=False) if before is None or one != before + 1]
    assert all(any(part <= start < part + 400 for start in starts) for part in range(0, 3000, 400))
    assert len(starts) <= 32
    assert places(read_sample(source, ["n"], 80)) == rows


def test_of_few_large_groups_each_gives_more(numbers, monkeypatch):
    monkeypatch.setattr(parquet, "STRETCH_ROWS", 300)
    monkeypatch.setattr(sample, "_FEW_EDGES", 0)
    rows = places(read_sample(numbers(900, "parquet"), ["n"], 80))
    assert rows == [*range(26), *range(300, 326), *range(600, 626)]


def test_up_to_a_limit_and_of_those_that_are_taken(numbers):
    found = read_sample(numbers(3000), ["n"], 80, limit=100)
    assert (len(found.rows), found.n_rows, found.is_whole) == (80, 100, True)
    assert 80 < max(places(found)) < 100
    tally = Tally()
    assert read_sample(numbers(3000), ["n"], 80, limit=100, tally=tally).n_rows == 100
    assert tally.read >= 100


def test_no_more_is_read_than_takes_a_moment(numbers, monkeypatch):
    monkeypatch.setattr(drawing, "_MOST_BYTES", 0)
    names = [part.name for count in (300, 200) for part, _ in numbers(count).parts]
    found = read_sample(resolve(names), ["n"], 80)
    assert (len(places(found)), found.n_rows, found.is_whole) == (60, 300, False)


def test_a_prompt_without_columns(numbers):
    assert [row.values for row in read_sample(numbers(2, "parquet"), [], 2).rows] == [{}, {}]


def test_standard_input_is_left_alone():
    with pytest.raises(InputError, match=r"^Standard input cannot be looked at before it is answered"):
        read_sample(resolve(["-"], io.BytesIO(b'{"a":1}\n')), ["a"], 1)
