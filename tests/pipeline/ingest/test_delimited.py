import csv
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.ingest import delimited
from pipeline.ingest.inputs import resolve

Write = Callable[[str, bytes], str]
RowsOf = Callable[..., list[dict[str, Any]]]


def test_every_cell_is_text_as_written(write: Write, rows_of: RowsOf) -> None:
    name = write("a.csv", b'zip,price,name\n007,1.10,NA\n1,true,null\n2020-01-01, x ,"say ""hi"""\n')
    assert rows_of(name) == [
        {"zip": "007", "price": "1.10", "name": "NA"},
        {"zip": "1", "price": "true", "name": "null"},
        {"zip": "2020-01-01", "price": " x ", "name": 'say "hi"'},
    ]


def test_an_empty_cell_is_an_empty_text_quoted_or_not(write: Write, rows_of: RowsOf) -> None:
    assert rows_of(write("a.csv", b'a,b\n"",x\n,""\n')) == [{"a": "", "b": "x"}, {"a": "", "b": ""}]


def test_a_cell_may_hold_line_breaks_and_delimiters(write: Write, rows_of: RowsOf) -> None:
    assert rows_of(write("a.csv", b'a,b\n"x,\ny",1\n')) == [{"a": "x,\ny", "b": "1"}]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    table=st.integers(1, 3).flatmap(
        lambda width: st.lists(
            st.lists(st.text(st.sampled_from('a",\n\r\t é😀')), min_size=width, max_size=width), min_size=1, max_size=6
        )
    ),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_what_a_csv_writer_writes_is_read_back(
    tmp_path: Path, rows_of: RowsOf, table: list[list[str]], quoting: Literal[0, 1]
) -> None:
    header = [f"column {n}" for n in range(len(table[0]))]
    path = tmp_path / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=quoting).writerows([header, *table])
    assert rows_of(str(path)) == [dict(zip(header, row, strict=True)) for row in table]


def test_a_stray_quote_within_a_cell_is_kept(write: Write, rows_of: RowsOf) -> None:
    assert rows_of(write("a.csv", b'a,b\n5" disk,1\n7,2\n')) == [{"a": '5" disk', "b": "1"}, {"a": "7", "b": "2"}]


@pytest.mark.parametrize(
    "data",
    [b"a,b\r\n1,2\r\n", b"\xef\xbb\xbfa,b\n1,2\n", b"\n\na,b\n\n1,2\n\n", b"a,b\n1,2", b"a,b\r1,2\r"],
    ids=["crlf", "byte order mark", "blank lines", "no final newline", "cr"],
)
def test_line_ends_blank_lines_and_byte_order_mark(write: Write, rows_of: RowsOf, data: bytes) -> None:
    assert rows_of(write("a.csv", data)) == [{"a": "1", "b": "2"}]


def test_tabs_delimit_tsv(write: Write, rows_of: RowsOf) -> None:
    assert rows_of(write("a.tsv", b"a\tb\n1,5\t2\n")) == [{"a": "1,5", "b": "2"}]


@pytest.mark.parametrize("data", [b"", b"\n", b"a,b", b"a,b\n", b"a,b\n\r\n"])
def test_a_file_without_rows_has_none(write: Write, rows_of: RowsOf, data: bytes) -> None:
    assert rows_of(write("a.csv", data)) == []


def test_the_header_gives_the_columns(write: Write) -> None:
    assert resolve([write("a.csv", b'"first\nname",b\n1,2\n')]).columns() == ["first\nname", "b"]


def test_a_cell_of_five_megabytes(write: Write, rows_of: RowsOf) -> None:
    long = "x" * (5 << 20)
    rows = rows_of(write("a.csv", f"a,b\n1,{long}\n2,y\n".encode()))
    assert rows == [{"a": "1", "b": long}, {"a": "2", "b": "y"}]


def test_a_row_longer_than_can_be_read(write: Write, rows_of: RowsOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "_BLOCK_BYTES", 1 << 20)
    name = write("a.csv", b"a,b\n" + b"1,2\n" * 1000 + b"1," + b"x" * (3 << 20) + b"\n")
    with pytest.raises(InputError, match=r"has a row of more than 1 MB, the longest that can be read"):
        rows_of(name)


def test_a_ragged_row_is_named_by_its_line(write: Write, rows_of: RowsOf) -> None:
    name = write("a.csv", b'a,b\n1,2\n\n"x\ny",3\n1,2,3\n1,2\n')
    with pytest.raises(InputError) as caught:
        rows_of(name)
    assert str(caught.value) == (
        f"Line 6 of {name} has 3 cells, but the header has 2 cells. "
        "Look there for a delimiter or a line break outside of quotes, and for a quote that is not closed."
    )


def test_a_short_row_behind_a_huge_cell_is_named_by_its_line(write: Write, rows_of: RowsOf) -> None:
    name = write("a.csv", b"a,b\n1," + b"x" * (1 << 20) + b"\n1\n")
    with pytest.raises(InputError, match=r"Line 3 of .*a\.csv has 1 cell, but the header has 2 cells\."):
        rows_of(name)


def test_a_ragged_row_far_down_is_named_by_its_line(write: Write, rows_of: RowsOf) -> None:
    rows = b"1," + b"x" * 1000 + b"\n"
    name = write("a.csv.gz", gzip.compress(b"a,b\n" + rows * 20_000 + b"1,2,3\n", 1))
    with pytest.raises(InputError, match=r"Line 20002 of .*a\.csv\.gz has 3 cells, but the header has 2 cells\."):
        rows_of(name)


@pytest.mark.parametrize(
    "data",
    [b'a,b\n1,2\n3,"open\n4,5\n6,7\n', b'a,b\n1,2\n3,"open\n4,"x"\n5,y\n'],
    ids=["to the end", "into the next quote"],
)
def test_a_quote_left_open_swallows_no_rows(write: Write, rows_of: RowsOf, data: bytes) -> None:
    name = write("a.csv", data)
    with pytest.raises(InputError) as caught:
        rows_of(name)
    assert str(caught.value) == (
        f"The row that begins on line 3 of {name} has a quote that is never closed, or text behind a closing quote. "
        'Within a quoted cell, write a quote twice: "".'
    )


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        (b"a,caf\xe9", "Line 1 of {name} is not UTF-8 text: byte 6 of the line is 0xe9."),
        (b'a,"one\ncaf\xe9"', "The header of {name} is not UTF-8 text."),
    ],
)
def test_a_header_that_is_no_utf8(write: Write, rows_of: RowsOf, header: bytes, fault: str) -> None:
    name = write("a.csv", header + b"\n1,2\n")
    with pytest.raises(InputError) as caught:
        rows_of(name)
    assert str(caught.value) == f"{fault.format(name=name)} Save the file as UTF-8, for example with iconv."


@pytest.mark.parametrize("tail", [b"1\n", b'1,"open\n'])
def test_faults_behind_bytes_that_are_no_utf8_are_told_by_their_lines(write: Write, tail: bytes) -> None:
    source = resolve([write("a.csv", b'a,b\n1,caf\xe9\n2,"\xff"\n' + tail)])
    with pytest.raises(InputError, match=r"[Ll]ine 4 of .*a\.csv has "):
        list(source.batches())


def test_columns_of_one_name(write: Write) -> None:
    name = write("a.csv", b"a,b,a\n1,2,3\n")
    with pytest.raises(InputError) as caught:
        resolve([name])
    assert str(caught.value) == f'There are 2 columns named "a" in {name}. Rename all but one.'


def test_a_truncated_gz(write: Write, rows_of: RowsOf) -> None:
    whole = gzip.compress("".join(f"{n},{n * n}\n" for n in range(5000)).encode())
    with pytest.raises(InputError, match=r"a\.csv\.gz cannot be read: Truncated compressed stream\. .*write it again"):
        rows_of(write("a.csv.gz", whole[:-30]))
