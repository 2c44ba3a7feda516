"""Files told apart by all that is in them. What was read of large ones is remembered, so that they are read once."""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import ModelError
from pipeline.whole_file import write_whole

#: Smaller files are read in less time than it is worth to remember them.
_LARGE_BYTES = 16 << 20
#: What takes a second or so to read is told of.
_LONG_BYTES = 1 << 29
#: Files' times are as coarse as 2 s: what was changed since may change once more, and still have the same time.
_SETTLED_NS = 2 * 10**9


def digest_of(path: Path) -> str:
    """Of all of it: blake2b, which no processor computes slowly. Raises ModelError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest()
    except OSError as error:
        raise ModelError(f"The file {path} cannot be read: {error.strerror}.") from error


@dataclass(frozen=True, slots=True)
class DigestCache:
    """Kept under `home`, by any number of processes; where that is None or cannot be written to, nothing is kept."""

    home: Path | None = None
    tell: Callable[[str], None] = lambda _: None  #: of what takes long
    clock: Callable[[], int] = time.time_ns  #: nanoseconds, as files' times are

    def digests(self, files: Sequence[Path]) -> list[str]:
        """`digest_of` each. Read are those of which it is not known that they are as they were."""
        known = [self._recall(file) for file in files]
        unread = [file for file, digest in zip(files, known, strict=True) if digest is None]
        size = sum(file.stat().st_size for file in unread)
        if size >= _LONG_BYTES:
            self.tell(f"Reading {size / 1e9:,.1f} GB in {unread[0].parent}, to know the model by all that it holds ...")
        return [digest or self._read(file) for file, digest in zip(files, known, strict=True)]

    def _read(self, path: Path) -> str:
        before, began = _state(path), self.clock()
        digest = digest_of(path)
        if before is not None and before == _state(path) and max(before.times) < began - _SETTLED_NS:
            self._remember(path, before, digest)
        return digest

    def _recall(self, path: Path) -> str | None:
        """None also where what is remembered is damaged."""
        state = _state(path)
        if self.home is None or state is None:
            return None
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads(_place(self.home, path).read_text(encoding="utf-8"))
            if kept["state"] == state.facts and len(bytes.fromhex(kept["digest"])) == 32:
                return str(kept["digest"])
        return None

    def _remember(self, path: Path, state: "_State", digest: str) -> None:
        """All processes that do so at once say the same."""
        if self.home is None:
            return
        with contextlib.suppress(OSError):
            write_whole(_place(self.home, path), json.dumps({"state": state.facts, "digest": digest}))


@dataclass(frozen=True, slots=True)
class _State:
    """What is another one once a file's content is: the time of change is the system's, and nobody sets it back."""

    facts: list[str | int]
    times: tuple[int, int]


def _state(path: Path) -> _State | None:
    """None of a small file, and where the file system does not know one of the facts."""
    found = path.stat()
    times = (found.st_mtime_ns, found.st_ctime_ns)
    if found.st_size < _LARGE_BYTES or not all((found.st_ino, *times)):
        return None
    return _State([os.path.realpath(path), found.st_size, *times, found.st_ino], times)


def _place(home: Path, path: Path) -> Path:
    name = hashlib.blake2b(os.fsencode(os.path.realpath(path)), digest_size=16).hexdigest()
    return home / "digests" / f"{name}.json"
