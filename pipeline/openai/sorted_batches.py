"""What stays of files that were given to `run-batch`, sorted into lines that one job can answer; and its end."""

import shutil
import time
from collections.abc import Set as AbstractSet
from pathlib import Path

from pipeline.ingest.faults import writing

#: Of each, in a directory of its own: the last that is written, the first that is deleted, as new as its latest use.
MANIFEST = "groups.json"


def sorted_batches(home: Path) -> Path:
    """Where all of them lie, each in a directory of its own."""
    return home / "batches"


def unused(home: Path, age_s: float, inputs: AbstractSet[str]) -> list[Path]:
    """The directories of those that nobody asked for in so long, and in which none of `inputs` lies."""
    read = {Path(place).parent.name for place in inputs}
    found = sorted(path for path in sorted_batches(home).glob("*") if path.is_dir())
    return [path for path in found if path.name not in read and _used_at(path) < time.time() - age_s]


def taken_up(directory: Path) -> int:
    """Bytes."""
    return sum(path.stat().st_size for path in directory.iterdir())


def delete_batch(directory: Path) -> bool:
    """True: it is gone. Interrupted, it leaves nothing that is taken for whole. Raises JobError."""
    with writing(directory):
        (directory / MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(directory)
    return True


def _used_at(directory: Path) -> float:
    manifest = directory / MANIFEST
    return (manifest if manifest.exists() else directory).stat().st_mtime
