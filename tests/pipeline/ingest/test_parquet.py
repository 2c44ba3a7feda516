from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.ingest.inputs import resolve

RowsOf = Callable[..., list[dict[str, Any]]]


def save(path: Path, table: pa.Table, **options: Any) -> str:
    pq.write_table(table, path, **options)
    return str(path)


def test_types_pass_through_over_row_groups(tmp_path: Path, rows_of: RowsOf) -> None:
    rows = [{"n": n, "s": f"{n}", "deep": {"k": [n]}, "none": None} for n in range(10)]
    name = save(tmp_path / "a.parquet", pa.Table.from_pylist(rows), row_group_size=3)
    assert rows_of(name) == rows
    assert resolve([name]).schema.field("deep").type == pa.struct([("k", pa.list_(pa.int64()))])


def test_other_ways_to_store_text_are_text(tmp_path: Path, rows_of: RowsOf) -> None:
    columns = {
        "dictionary": pa.array(["x", "y", None, "x"]).dictionary_encode(),
        "large": pa.array(["x", "y", None, "x"], pa.large_string()),
        "view": pa.array(["x", "y", None, "x"], pa.string_view()),
        "numbers": pa.array([1, 2, None, 1]).dictionary_encode(),
    }
    name = save(tmp_path / "a.parquet", pa.table(columns))
    assert [str(field.type) for field in resolve([name]).schema] == ["string", "string", "string", "int64"]
    assert rows_of(name)[1:3] == [
        {"dictionary": "y", "large": "y", "view": "y", "numbers": 2},
        {"dictionary": None, "large": None, "view": None, "numbers": None},
    ]


def test_required_columns_and_fields_are_read_as_they_are(tmp_path: Path, rows_of: RowsOf) -> None:
    deep = pa.struct([pa.field("k", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False)])
    schema = pa.schema([pa.field("n", pa.int32(), nullable=False), pa.field("deep", deep, nullable=False)])
    rows = [{"n": 1, "deep": {"k": [1, 2]}}, {"n": 2, "deep": {"k": []}}]
    assert rows_of(save(tmp_path / "a.parquet", pa.Table.from_pylist(rows, schema))) == rows


def test_columns_of_one_name(tmp_path: Path) -> None:
    name = save(tmp_path / "a.parquet", pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]))
    with pytest.raises(InputError) as caught:
        resolve([name])
    assert str(caught.value) == f'There are 2 columns named "a" in {name}. Rename all but one.'


def test_a_truncated_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    save(path, pa.table({"a": [1, 2]}))
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"a\.parquet cannot be read: Parquet magic bytes not found .*write it again"):
        resolve([str(path)])


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.touch()
    with pytest.raises(InputError, match=r"a\.parquet cannot be read: Parquet file size is 0 bytes\."):
        resolve([str(path)])


def test_a_damaged_page(tmp_path: Path, rows_of: RowsOf) -> None:
    path = tmp_path / "a.parquet"
    save(path, pa.table({"a": [f"text {n}" for n in range(1000)]}), use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[40:400] = bytes(360)
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.parquet cannot be read: .*incomplete, damaged"):
        rows_of(str(path))
