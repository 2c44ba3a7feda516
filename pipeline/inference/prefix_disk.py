"""The prefix store's directory: what a restarted worker or the next night need not compute again."""

import errno
import hashlib
import logging
import os
import shutil
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from pipeline.inference.lanes import LaneShape
from pipeline.inference.prefix_file import TokenIds, Unusable, read_prefix, write_prefix
from pipeline.inference.stem import Node

#: A node of fewer tokens is computed in one small forward, about as soon as its file is found, read and checked.
LEAST_TOKENS = 64
#: Never taken from the disk, for what may not be lost is written there too.
_RESERVE_BYTES = 1 << 30
#: Unfinished files so old are of a process that was killed.
_ABANDONED_S = 3600.0
_FINISHED, _UNFINISHED = ".safetensors", ".tmp"
_NAMES = "?" * 64 + _FINISHED

_log = logging.getLogger(__name__)


class PrefixDisk:
    """Files of one model among those of others. Several processes may share the directory; a file's time is its use.

    Whatever goes wrong is a warning, and the node is computed. A disk that fails is left alone from then on.
    """

    def __init__(
        self,
        directory: Path,
        origin: str,
        shape: LaneShape,
        max_bytes: int,
        ttl_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`origin` names all that decides the numbers in the files, but for their precision."""
        self._directory, self._origin, self._shape = directory, origin, shape
        self._max_bytes, self._ttl_s, self._clock = max_bytes, ttl_s, clock
        self._known: set[Path] = set()  # files that this process has read or written
        self._works = True
        with self._giving_up():
            self._clear(0)

    def read(self, path: TokenIds, start: int) -> Node | None:
        """None where there is no such file, or none that may be used."""
        if len(path) - start < LEAST_TOKENS or not self._works:
            return None
        file = self._file(path, start)
        with self._giving_up():
            try:
                return self._read(file, path, start)
            except FileNotFoundError:
                return None
            except Unusable as error:
                _log.warning("The stored prefix %s is ignored and deleted. %s", file, error)
                file.unlink(missing_ok=True)
        return None

    def keep(self, path: TokenIds, node: Node) -> None:
        """Writes it; marks it as used where that was done before. Numbers that are not finite are not kept."""
        if node.lanes.capacity < LEAST_TOKENS or node.lanes.nbytes > self._max_bytes or not self._works:
            return
        file = self._file(path, node.start)
        with self._giving_up():
            if file in self._known and self._touch(file):
                return
            self._known.discard(file)
            if self._is_finite(node):
                self._write(file, path, node)
                self._known.add(file)

    def _read(self, file: Path, path: TokenIds, start: int) -> Node | None:
        if file.stat().st_mtime < self._clock() - self._ttl_s:
            return None
        node = read_prefix(file, self._origin, path, start, self._shape)
        self._known.add(file)
        self._touch(file)
        return node

    def _write(self, file: Path, path: TokenIds, node: Node) -> None:
        """Not synced: what a power cut tears is found out by its checksum."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if shutil.disk_usage(self._directory).free - node.lanes.nbytes < _RESERVE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        descriptor, name = tempfile.mkstemp(suffix=_UNFINISHED, dir=self._directory)
        os.close(descriptor)
        unfinished = Path(name)
        try:
            write_prefix(unfinished, self._origin, path, node, self._shape)
            self._touch(unfinished)
            self._clear(unfinished.stat().st_size)
            unfinished.replace(file)
        finally:
            unfinished.unlink(missing_ok=True)

    def _clear(self, room: int) -> None:
        """Deletes what is too old, and then what was used longest ago, until `room` more bytes fit."""
        for used_s, _, file in self._files(f"*{_UNFINISHED}"):
            if used_s < self._clock() - _ABANDONED_S:
                file.unlink(missing_ok=True)
        for used_s, size, file in sorted(self._files(_NAMES), reverse=True):
            room += size
            if room > self._max_bytes or used_s < self._clock() - self._ttl_s:
                file.unlink(missing_ok=True)

    def _files(self, pattern: str) -> Iterator[tuple[float, int, Path]]:
        """Time of last use, bytes, and name. Another process may delete one meanwhile."""
        for file in self._directory.glob(pattern):
            with suppress(FileNotFoundError):
                facts = file.stat()
                yield facts.st_mtime, facts.st_size, file

    def _file(self, path: TokenIds, start: int) -> Path:
        digest = hashlib.sha256(f"{self._origin}\0{self._shape.dtype}\0{start}\0".encode())
        digest.update(array("q", path).tobytes())
        return self._directory / f"{digest.hexdigest()}{_FINISHED}"

    def _touch(self, file: Path) -> bool:
        """False where it is not there any more, since a process has cleared it away."""
        try:
            with suppress(PermissionError):
                os.utime(file, (self._clock(), self._clock()))
        except FileNotFoundError:
            return False
        return True

    def _is_finite(self, node: Node) -> bool:
        blocks = (node.lanes.read(layer, 1, node.lanes.capacity) for layer in range(self._shape.layers))
        return bool(torch.stack([block.isfinite().all() for both in blocks for block in both]).all())

    @contextmanager
    def _giving_up(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._works = False
            reason = error.strerror or error
            _log.warning("Prefixes are neither kept in %s nor read from there any more: %s.", self._directory, reason)
