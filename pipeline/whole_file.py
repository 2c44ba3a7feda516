"""Small files that others may read at any time: whole or not there at all."""

import tempfile
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """The last of several processes wins. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        unfinished = Path(directory, path.name)
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
