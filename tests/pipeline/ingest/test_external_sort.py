import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.errors import TryAgain
from pipeline.ingest import external_sort as sorting
from pipeline.ingest.external_sort import external_sort
from pipeline.ingest.paths import find_path
from pipeline.ingest.sort_key import key_of

SCHEMA = pa.schema([("row_id", pa.int64()), ("text", pa.string()), ("n", pa.int64())])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So little memory that a hundred rows take several levels of runs."""
    monkeypatch.setattr(sorting, "RUN_BYTES", 200)
    monkeypatch.setattr(sorting, "_BLOCK_BYTES", 60)
    monkeypatch.setattr(sorting, "FAN_IN", 3)


def batches(rows: list[tuple[int, str | None, int | None]], size: int = 4) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), size):
        columns = zip(*rows[start : start + size], strict=True)
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA
        )


def sort(rows: list[tuple[int, str | None, int | None]], scratch: Path, *by: str) -> list[tuple[object, ...]]:
    found = external_sort(batches(rows), key_of([find_path(SCHEMA, name) for name in by]), scratch, len(rows))
    return [tuple(row.values()) for batch in found for row in batch.to_pylist()]


@pytest.mark.parametrize("n_rows", [1, 5, 100, 331])
def test_rows_come_in_the_order_of_their_keys_each_once(small: None, tmp_path: Path, n_rows: int) -> None:
    numbers = random.Random(n_rows)
    rows = [(row, "".join(numbers.choices("aä\0", k=numbers.randrange(4))), row % 3) for row in range(n_rows)]
    assert sort(rows, tmp_path, "text") == sorted(rows, key=lambda row: (row[1].encode(), row[0]))


def test_the_first_column_counts_first_and_like_rows_are_neighbours(small: None, tmp_path: Path) -> None:
    rows = [(row, (None, "b", "a")[row % 3], (7, None)[row % 2]) for row in range(36)]
    found = sort(rows, tmp_path, "text", "n")
    assert [row[1] for row in found] == [None] * 12 + ["a"] * 12 + ["b"] * 12
    assert sum(one[1:] != other[1:] for one, other in pairwise(found)) == 5
    assert sorted(found) == rows


def test_no_file_is_left_behind_wherever_it_ends(small: None, tmp_path: Path) -> None:
    """Not even where the process is killed: the files have no names."""
    rows = [(row, f"{row % 7}", row) for row in range(100)]
    found = external_sort(batches(rows), key_of([find_path(SCHEMA, "text")]), tmp_path, 100)
    next(found)
    assert list(tmp_path.iterdir()) == []


def wide(n_batches: int) -> Iterator[pa.RecordBatch]:
    """Each of 48 kB, in an order that is none."""
    for start in range(0, 200 * n_batches, 200):
        row_ids = range(start, start + 200)
        columns = {"row_id": row_ids, "text": [f"{row * 7919 % 1000:4}" * 60 for row in row_ids], "n": [1] * 200}
        yield pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def peak(n_batches: int, scratch: Path) -> int:
    """Bytes in Arrow's memory, as they are between one batch and the next."""
    before, found, n_rows = pa.total_allocated_bytes(), 0, 0
    for batch in external_sort(wide(n_batches), key_of([find_path(SCHEMA, "text")]), scratch, 200 * n_batches):
        found = max(found, pa.total_allocated_bytes() - before)
        n_rows += batch.num_rows
    assert n_rows == 200 * n_batches
    return found


def test_memory_does_not_grow_with_the_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sorting, "RUN_BYTES", 1 << 18)
    monkeypatch.setattr(sorting, "_BLOCK_BYTES", 1 << 14)
    monkeypatch.setattr(sorting, "FAN_IN", 8)
    small, large = peak(20, tmp_path), peak(160, tmp_path)
    assert large < 2 * small < 48_000 * 160 / 8


def test_a_disk_without_room_is_told_before_it_is_full(
    small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda place: type("Usage", (), {"free": 900}))
    with pytest.raises(TryAgain) as caught:
        sort([(row, f"{row}", row) for row in range(100)], tmp_path, "text")
    assert str(caught.value) == (
        f"To sort the rows takes about 0.0 GB where {tmp_path} lies; 0.0 GB are free. Free some space, then give the "
        "same command again; or submit it under another name with --keep-order."
    )


def test_a_disk_that_is_full_is_a_matter_of_the_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "TemporaryFile", lambda **place: Path("/dev/full").open("wb", buffering=0))  # noqa: SIM115
    with pytest.raises(TryAgain, match="The disk is full"):
        sort([(0, "a", 1)], tmp_path, "text")
