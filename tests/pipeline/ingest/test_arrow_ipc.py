import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pytest

from pipeline.errors import InputError
from pipeline.ingest import arrow_ipc
from pipeline.ingest.inputs import resolve

RowsOf = Callable[..., list[dict[str, Any]]]


def save(path: Path, *batches: pa.RecordBatch, stream: bool = False, **options: Any) -> str:
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as file, new(file, batches[0].schema, **options) as arrow:
        for batch in batches:
            arrow.write_batch(batch)
    return str(path)


def table(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("codec", [None, "zstd"])
def test_both_formats_give_all_rows_of_all_batches(tmp_path: Path, rows_of: RowsOf, stream: bool, codec: str) -> None:
    name = save(
        tmp_path / "a.arrow",
        table(text=["a", None], n=[1, 2]),
        table(text=["c"], n=[3]),
        stream=stream,
        options=pa.ipc.IpcWriteOptions(compression=codec),
    )
    assert rows_of(name) == [{"text": "a", "n": 1}, {"text": None, "n": 2}, {"text": "c", "n": 3}]


def test_a_large_batch_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_ipc, "_BATCH_ROWS", 4)
    name = save(tmp_path / "a.feather", table(n=list(range(10))))
    assert [batch.num_rows for _, batch in resolve([name]).batches()] == [4, 4, 2]


def test_every_way_to_store_a_thing_is_the_thing(tmp_path: Path, rows_of: RowsOf) -> None:
    words = pa.array(["x", "y"])
    deep = pa.StructArray.from_arrays([words.dictionary_encode()], ["k"])
    columns = {
        "dictionary": words.dictionary_encode(),
        "deep": deep,
        "list": pa.ListArray.from_arrays([0, 1, 2], words.dictionary_encode()),
        "runs": pa.RunEndEncodedArray.from_arrays([1, 2], words),
        "view": words.cast(pa.string_view()),
        "large": pa.array([["x"], ["y"]], pa.large_list(pa.large_string())),
        "of_views": pa.array([["x"], ["y"]], pa.list_view(pa.string())),
        "id": pa.array([uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes], pa.uuid()),
    }
    name = save(tmp_path / "a.arrow", table(**columns), stream=True)
    assert resolve([name]).schema.field("deep").type == pa.struct([("k", pa.string())])
    assert rows_of(name) == [
        {"dictionary": word, "deep": {"k": word}, "list": [word], "runs": word, "view": word, "large": [word],
         "of_views": [word], "id": uuid.UUID(int=number)}
        for number, word in ((1, "x"), (2, "y"))
    ]  # fmt: skip


def test_an_extension_that_nobody_here_knows_is_what_it_is_stored_as(tmp_path: Path, rows_of: RowsOf) -> None:
    field = pa.field("a", pa.string(), metadata={"ARROW:extension:name": "made.up", "ARROW:extension:metadata": ""})
    batch = pa.RecordBatch.from_arrays([pa.array(["x"])], schema=pa.schema([field]))
    assert rows_of(save(tmp_path / "a.arrow", batch)) == [{"a": "x"}]


def test_dictionaries_that_change_from_batch_to_batch_are_cut_into_one_shard(
    tmp_path: Path, cut_all: Callable[..., list[Any]]
) -> None:
    batches = [table(deep=pa.StructArray.from_arrays([pa.array([w]).dictionary_encode()], ["k"])) for w in "ab"]
    cut_all(save(tmp_path / "a.arrow", *batches, stream=True))
    assert pa.parquet.read_table(tmp_path / "shards" / "00000.parquet").to_pylist() == [
        {"deep": {"k": "a"}},
        {"deep": {"k": "b"}},
    ]


def fault(name: str) -> str:
    with pytest.raises(InputError) as caught:
        list(resolve([name]).batches())
    return str(caught.value)


def test_a_type_that_no_shard_keeps_is_told_before_anything_is_read(tmp_path: Path) -> None:
    either = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1]), pa.array(["b"])])
    name = save(tmp_path / "a.arrow", table(either=either))
    assert fault(name) == (
        f'The column "either" of {name} is sparse_union<0: int64=0, 1: string=1>, which cannot be kept. '
        "Leave it out, or write it as text."
    )


def test_the_first_version_of_feather(tmp_path: Path) -> None:
    (tmp_path / "a.feather").write_bytes(b"FEA1 and so on")
    name = str(tmp_path / "a.feather")
    assert fault(name) == f"{name} is of Feather's first version. Write it again with version=2."


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kept", [0, 3, 300])
def test_a_damaged_file_is_named(tmp_path: Path, stream: bool, kept: int) -> None:
    name = save(tmp_path / "a.arrow", table(text=["a" * 1000]), stream=stream)
    Path(name).write_bytes(Path(name).read_bytes()[:kept])
    assert f"{name} cannot be read: " in fault(name)
