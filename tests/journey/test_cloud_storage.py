"""A table, and the shards of its job, in a Google Cloud Storage."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from tests.cloud_storage import cloud_storage

TEXTS = ["a", "b", "c", "d", "e"]


@pytest.fixture
def storage():
    with cloud_storage() as url:
        yield url


def names(url):
    filesystem, folder = fs.FileSystem.from_uri(url)
    return [found.base_name for found in filesystem.get_file_info(fs.FileSelector(folder, recursive=True))]


def test_rows_come_from_there_and_shards_go_there(home, storage, submit):
    filesystem, folder = fs.FileSystem.from_uri(storage("lake/rows"))
    for part, texts in enumerate((TEXTS[:3], TEXTS[3:])):
        pq.write_table(pa.table({"text": texts}), f"{folder}/{part}.parquet", filesystem=filesystem)
    with filesystem.open_output_stream(f"{folder}/readme.md") as file:
        file.write(b"not a table")
    home.variables |= {"PIPELINE_SHARDS": storage("lake/shards"), "PIPELINE_SHARD_ROWS": "2"}
    done = submit(storage("lake/rows/*.parquet"))
    assert done.exit_code == 0, done.output
    assert len([name for name in names(storage("lake/shards")) if name.endswith(".parquet")]) == 3
    told = home.call("results", "night", "--format", "jsonl")
    assert [json.loads(line)["text"] for line in told.stdout.splitlines()] == TEXTS
    assert home.faults("night") == []


def test_what_is_not_there_is_told(storage, submit):
    refused = submit(storage("lake/rows/none.parquet"))
    assert refused.exit_code == 1
    assert "Traceback" not in refused.stderr
    assert "lake/rows/none.parquet" in refused.stderr
