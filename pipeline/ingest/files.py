"""One input as bytes: a file, compressed or not, or standard input. What the bytes mean is for the formats to say."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.ingest.faults import reading
from pipeline.ingest.lines import Block, Readable, line_blocks
from pipeline.ingest.places import facts, open_file, open_stream


class LineInput(Protocol):
    """An input that is read line by line."""

    @property
    def name(self) -> str: ...

    def head(self) -> Block | None:
        """The first block, None where there is none; asked for as often as one likes."""

    def blocks(self) -> Iterator[Block]:
        """All of it, from the first block on."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file on disk, or behind a URL; may be read any number of times."""

    name: str  #: its place
    compression: str | None = None  #: gzip | zstd

    def open(self) -> pa.NativeFile:
        return open_stream(self.name, self.compression)

    def open_anywhere(self) -> pa.NativeFile:
        """To be read from wherever one likes, packed as it is."""
        return open_file(self.name)

    def facts(self) -> tuple[str, int, int]:
        """What changes where the file does. Raises InputError."""
        return facts(self.name)

    def head(self) -> Block | None:
        return next(self.blocks(), None)

    def blocks(self) -> Iterator[Block]:
        with reading(self.name), self.open() as stream:
            yield from line_blocks(stream, self.name)


class StandardInput:
    """May be read once; its first block is read at once and kept, so that the columns can be seen before."""

    name = "standard input"

    def __init__(self, stream: Readable) -> None:
        self._rest: Iterator[Block] | None = line_blocks(stream, self.name)
        with reading(self.name):
            self._head = next(self._rest, None)

    def head(self) -> Block | None:
        return self._head

    def blocks(self) -> Iterator[Block]:
        if self._rest is None:
            raise InputError("Standard input was read already and cannot be read again. Write it to a file first.")
        rest, self._rest = self._rest, None
        with reading(self.name):
            yield from chain([self._head] if self._head else [], rest)
