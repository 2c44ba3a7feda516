"""Folders as `datasets.Dataset.save_to_disk` writes them, version 4."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.errors import InputError
from pipeline.ingest.inputs import resolve

RowsOf = Callable[..., list[dict[str, Any]]]


def save(folder: Path, *files: list[str], **state: Any) -> str:
    folder.mkdir(parents=True)
    names = [f"data-{number:05}-of-{len(files):05}.arrow" for number in range(len(files))]
    for name, texts in zip(names, files, strict=True):
        with pa.OSFile(str(folder / name), "wb") as file:
            batch = pa.RecordBatch.from_pydict({"text": texts})
            with pa.ipc.new_stream(file, batch.schema) as arrow:
                arrow.write_batch(batch)
    facts = {"_data_files": [{"filename": name} for name in names], "_split": "train"}
    (folder / "state.json").write_text(json.dumps(facts | state))
    (folder / "dataset_info.json").write_text('{"features": {"text": {"dtype": "string", "_type": "Value"}}}')
    return str(folder)


def fault(name: str) -> str:
    with pytest.raises(InputError) as caught:
        resolve([name])
    return str(caught.value)


def test_the_files_are_those_that_it_names_in_its_order(tmp_path: Path, rows_of: RowsOf) -> None:
    name = save(tmp_path / "set", ["a", "b"], ["c"])
    (tmp_path / "set" / "cache-0123.arrow").write_bytes(b"what a map() left behind")
    assert rows_of(name) == [{"text": "a"}, {"text": "b"}, {"text": "c"}]
    assert rows_of((tmp_path / "set").as_uri()) == rows_of(name)


def test_of_several_splits_one_must_be_named(tmp_path: Path, rows_of: RowsOf) -> None:
    for split in ("train", "test"):
        save(tmp_path / "all" / split, [split])
    (tmp_path / "all" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    folder = str(tmp_path / "all")
    assert fault(folder) == (
        f"{folder} holds 2 datasets: train, test. Name the one that you mean, such as {folder}/train, or several if "
        "they are one table."
    )
    assert rows_of(f"{folder}/test", f"{folder}/train") == [{"text": "test"}, {"text": "train"}]


def test_rows_that_an_index_beside_the_data_selects_are_refused(tmp_path: Path) -> None:
    name = save(tmp_path / "set", ["a", "b"], _indices_data_files=[{"filename": "indices.arrow"}])
    assert fault(name).startswith(f"{name} holds a dataset that only some rows were selected of")


def test_without_rows_or_without_a_file_that_it_names(tmp_path: Path) -> None:
    empty = save(tmp_path / "empty")
    assert fault(empty) == f"{empty} holds a dataset without any rows."
    name = save(tmp_path / "set", ["a"], ["b"])
    (tmp_path / "set" / "data-00001-of-00002.arrow").unlink()
    assert fault(name).startswith(f"{name}/data-00001-of-00002.arrow does not exist.")


def test_a_state_that_is_no_json(tmp_path: Path) -> None:
    name = save(tmp_path / "set", ["a"])
    (tmp_path / "set" / "state.json").write_text("{")
    assert fault(name).startswith(f"{name}/state.json is not JSON: ")
