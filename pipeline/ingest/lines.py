"""Blocks of whole lines: how line-wise input comes off the disk."""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from pipeline.errors import InputError

BLOCK_BYTES = 8 << 20  #: a block grows beyond this only for a line that is longer


class Readable(Protocol):
    """The least that a byte stream must offer."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, each with its line end but perhaps the last of the input. Never empty."""

    data: bytes
    first_line: int  #: its first line's number in the input, from 1


def line_blocks(stream: Readable, name: str) -> Iterator[Block]:
    """A byte order mark is dropped. Raises InputError where not even the first line is UTF-8; others are left to the
    rows that have them."""
    line = 1
    for data in _whole_lines(stream):
        text = data.removeprefix(codecs.BOM_UTF8) if line == 1 else data
        if text:
            if line == 1:
                _require_utf8(text.partition(b"\n")[0], name)
            yield Block(text, line)
        line += data.count(b"\n")


def _whole_lines(stream: Readable) -> Iterator[bytes]:
    begun: list[bytes] = []
    while chunk := stream.read(BLOCK_BYTES):
        lines, newline, rest = chunk.rpartition(b"\n")
        if newline:
            yield b"".join([*begun, lines, newline])
            begun = [rest]
        else:
            begun.append(rest)
    if last := b"".join(begun):
        yield last


def _require_utf8(first_line: bytes, name: str) -> None:
    """A file in another encoding, or no text at all, shows there most often: in a byte order mark, a header, a name."""
    try:
        first_line.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"Line 1 of {name} is not UTF-8 text: byte {error.start + 1} of the line is "
            f"0x{first_line[error.start]:02x}. Save the file as UTF-8, for example with iconv."
        ) from error
