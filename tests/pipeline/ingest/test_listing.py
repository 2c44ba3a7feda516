"""Inputs behind a URL: on this disk, and in a file system that lives in memory in place of a store."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from pipeline.errors import InputError, SpecError
from pipeline.ingest.inputs import is_input, resolve
from pipeline.ingest.listing import listed
from pipeline.ingest.places import join, written

RowsOf = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def bucket(store: fs.FileSystem) -> str:
    """A folder of files of several kinds, by its URL."""
    folder = "mock:///bucket/in"
    contents = {
        "b.csv": b"text\nb\n",
        "a.jsonl.gz": pa.compress(b'{"text":"a"}\n', codec="gzip", asbytes=True),
        "deep/c 1.txt": b"c\n",
        "_notes.csv": b"no,table\n",
        "readme.md": b"#",
    }
    for name, data in contents.items():
        with written(join(folder, name.replace(" ", "%20"))) as file:
            file.write(data)
    with written(join(folder, "deep", "d.parquet")) as file, pq.ParquetWriter(file, SCHEMA) as parquet:
        parquet.write_table(pa.table({"text": ["d"]}))
    with written(join(folder, "e.arrow")) as file, pa.ipc.new_file(file, SCHEMA) as arrow:
        arrow.write_table(pa.table({"text": ["e"]}))
    return folder


SCHEMA = pa.schema([("text", pa.string())])


def fault(*inputs: str) -> str:
    with pytest.raises((InputError, SpecError)) as caught:
        resolve(inputs)
    return str(caught.value)


def test_a_folder_behind_a_url_is_all_its_files(bucket: str, rows_of: RowsOf) -> None:
    assert listed(bucket) == [
        f"{bucket}/{name}" for name in ("a.jsonl.gz", "b.csv", "deep/c%201.txt", "deep/d.parquet", "e.arrow")
    ]
    assert [row["text"] for row in rows_of(bucket)] == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.csv", ["_notes.csv", "b.csv"]),
        ("[a-b].*", ["a.jsonl.gz", "b.csv"]),
        ("*/*.parquet", ["deep/d.parquet"]),
        ("**/*.[tc][xs][tv]", ["_notes.csv", "b.csv", "deep/c%201.txt"]),
        ("d*/*", ["deep/c%201.txt", "deep/d.parquet"]),
    ],
)
def test_a_pattern_behind_a_url(bucket: str, pattern: str, names: list[str]) -> None:
    assert listed(f"{bucket}/{pattern}") == [f"{bucket}/{name}" for name in names]


def test_several_urls_and_a_local_file_are_one_table(bucket: str, rows_of: RowsOf, write: Any) -> None:
    found = rows_of(f"{bucket}/e.arrow", write("z.csv", b"text\nz\n"), f"{bucket}/deep/c%201.txt")
    assert [row["text"] for row in found] == ["e", "z", "c"]


def test_what_is_not_there(bucket: str) -> None:
    assert fault(f"{bucket}/z.csv") == f"{bucket}/z.csv does not exist. Check the name."
    assert fault(f"{bucket}/*.tsv").startswith(f"No file matches the pattern {bucket}/*.tsv.")
    assert fault(f"{bucket}/b.csv", f"{bucket}/*.csv").startswith(f"{bucket}/b.csv is given twice")
    with written(f"{bucket}/none/of.md") as file:
        file.write(b"#")
    assert fault(f"{bucket}/none") == f"There is no file of a supported kind in the folder {bucket}/none."


def test_the_options_of_a_url_go_with_every_file(bucket: str) -> None:
    assert listed(f"{bucket}/deep?x=1") == [f"{bucket}/deep/c%201.txt?x=1", f"{bucket}/deep/d.parquet?x=1"]
    assert [str(form.schema(part)) for part, form in resolve([f"{bucket}/b.csv?x=1"]).parts] == ["text: string"]


def test_a_secret_in_a_url_is_refused_and_not_told(bucket: str) -> None:
    for url in ("s3://user:hunter2@bucket/a.csv", "s3://bucket/a.csv?secret_key=hunter2"):
        told = fault(url)
        assert "hunter2" not in told
        assert "holds a secret" in told


def test_the_digest_tells_a_changed_file(bucket: str) -> None:
    before = resolve([bucket]).digest()
    assert resolve([bucket]).digest() == before
    with written(f"{bucket}/b.csv") as file:
        file.write(b"text\nother\n")
    assert resolve([bucket]).digest() != before


def test_a_file_url_is_the_file(tmp_path: Path, write: Any) -> None:
    name = write("a b.csv", b"text\nx\n")
    url = Path(name).as_uri()
    assert listed(url) == [name]
    assert listed(f"{tmp_path.as_uri()}/*.csv") == [name]
    assert resolve([url]).digest() == resolve([name]).digest()
    assert is_input([url], Path(name))
    assert fault(url, name).startswith(f"{name} is given twice")
    os.utime(name, ns=(1, 1))
    assert resolve([url]).digest() == resolve([name]).digest()


def test_a_scheme_that_nobody_knows() -> None:
    assert fault("zz://a/b.csv").startswith("zz://a/b.csv is no place that files can lie at: ")
