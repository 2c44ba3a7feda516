from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from pipeline.ingest import places
from pipeline.ingest.inputs import resolve
from pipeline.ingest.shards import Shard, cut

Rows = list[dict[str, Any]]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, bytes], str]:
    """Writes a file below the test's folder and returns its name."""

    def _write(name: str, data: bytes) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return str(path)

    return _write


@pytest.fixture
def rows_of() -> Callable[..., Rows]:
    """All rows of the inputs, as dicts."""

    def _rows_of(*inputs: str) -> Rows:
        return [row for _, batch in resolve(inputs).batches() for row in batch.to_pylist()]

    return _rows_of


@pytest.fixture
def cut_all(tmp_path: Path) -> Callable[..., list[Shard]]:
    """Cuts files into shards of three rows below the test's folder."""

    def _cut_all(*inputs: str, key: str | None = None, limit: int | None = None, skip_rows: int = 0) -> list[Shard]:
        shards = cut(resolve(inputs), str(tmp_path / "shards"), shard_rows=3, key=key, limit=limit, skip_rows=skip_rows)
        return list(shards)

    return _cut_all


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> fs.FileSystem:
    """What every `mock://` URL of the test leads to."""
    memory, real = fs._MockFileSystem(), places._remote

    def remote(place: str) -> tuple[fs.FileSystem, str]:
        filesystem, name = real(place)
        return (memory, name) if filesystem.type_name == "mock" else (filesystem, name)

    monkeypatch.setattr(places, "_remote", remote)
    return memory
