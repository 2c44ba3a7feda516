"""Blocks of whole lines: how line-wise input comes off the disk, checked to be UTF-8 on the way."""

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
    """A byte order mark is dropped. Raises InputError for the first byte that is not UTF-8."""
    line = 1
    for data in _whole_lines(stream):
        text = data.removeprefix(codecs.BOM_UTF8) if line == 1 else data
        if text:
            _check_utf8(text, line, name)
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


def _check_utf8(data: bytes, first_line: int, name: str) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        byte = error.start - data.rfind(b"\n", 0, error.start)
        raise InputError(
            f"Line {line} of {name} is not UTF-8 text: byte {byte} of the line is 0x{data[error.start]:02x}. "
            "Save the file as UTF-8, for example with iconv."
        ) from error
