import gzip
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from pipeline.errors import InputError
from pipeline.ingest import lines

Write = Callable[[str, bytes], str]
RowsOf = Callable[..., list[dict[str, Any]]]


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\ntwo", ["one", "two"]),
        (b"one\n\ntwo\n\n", ["one", "", "two", ""]),
        (b"\n", [""]),
        (b"one\r\n\r\ntwo\r\n", ["one", "", "two"]),
        (b'\xef\xbb\xbfone, "two"\t\n', ['one, "two"\t']),
        ("a\x0bb\u2028c\n".encode(), ["a\x0bb\u2028c"]),
        (b"", []),
    ],
)
def test_every_line_is_a_row(write: Write, rows_of: RowsOf, data: bytes, texts: list[str]) -> None:
    assert [row["text"] for row in rows_of(write("a.txt", data))] == texts


@pytest.mark.parametrize("size", [1, 3, 7, 16])
def test_blocks_do_not_show(write: Write, rows_of: RowsOf, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", size)
    texts = ["é" * (n % 9) for n in range(60)]
    name = write("a.txt", "".join(f"{text}\r\n" for text in texts).encode())
    assert [row["text"] for row in rows_of(name)] == texts


def test_compressed(write: Write, rows_of: RowsOf) -> None:
    data = b"one\ntwo\n"
    names = [
        write("a.txt.gz", gzip.compress(data[:4]) + gzip.compress(data[4:])),
        write("b.TXT.zst", pa.compress(data, codec="zstd", asbytes=True)),
    ]
    assert [row["text"] for row in rows_of(*names)] == ["one", "two", "one", "two"]


@pytest.mark.parametrize("data", ["näh\n".encode("utf-16"), b"\x1f\x8b\x08\n", b"caf\xe9\ntea\n"])
def test_a_file_whose_first_line_is_no_utf8_is_refused(write: Write, rows_of: RowsOf, data: bytes) -> None:
    with pytest.raises(InputError, match=r"^Line 1 of .*a\.txt is not UTF-8 text: byte \d of the line is 0x"):
        rows_of(write("a.txt", data))
