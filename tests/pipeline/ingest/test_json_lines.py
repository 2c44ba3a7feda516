import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.ingest import lines
from pipeline.ingest.inputs import resolve

Write = Callable[[str, bytes], str]
RowsOf = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block is a few lines, so that faults can lie behind the first."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 64)


def fault_of(rows_of: RowsOf, name: str) -> str:
    with pytest.raises(InputError) as caught:
        rows_of(name)
    return str(caught.value).replace(name, "FILE")


def test_values_keep_their_types(write: Write, rows_of: RowsOf) -> None:
    row = {"n": 1, "x": 1.5, "ok": True, "s": "é", "list": ["a"], "deep": {"k": [1, 2]}, "none": None}
    assert rows_of(write("a.jsonl", json.dumps(row).encode())) == [row]


def test_text_that_looks_like_a_date_stays_text(write: Write, rows_of: RowsOf) -> None:
    assert rows_of(write("a.ndjson", b'{"d":"2020-01-01","l":[{"d":"2020-01-01"}]}\n')) == [
        {"d": "2020-01-01", "l": [{"d": "2020-01-01"}]}
    ]


def test_a_missing_field_is_null_and_blank_lines_are_none(write: Write, rows_of: RowsOf) -> None:
    name = write("a.jsonl", b'\xef\xbb\xbf{"a":1}\r\n\n  \n{"b":"x"}\n')
    assert rows_of(name) == [{"a": 1, "b": None}, {"a": None, "b": "x"}]


def test_a_column_of_nulls_may_become_text_later(write: Write, rows_of: RowsOf, small_blocks: None) -> None:
    name = write("a.jsonl", b'{"a":1,"b":null,"l":[]}\n' * 6 + b'{"a":2,"b":"x","l":["y"]}\n')
    assert rows_of(name)[-1] == {"a": 2, "b": "x", "l": ["y"]}


def test_many_blocks_are_one_table(write: Write, rows_of: RowsOf, small_blocks: None) -> None:
    rows = [{"a": n, "text": "x" * (n % 90)} for n in range(200)]
    assert rows_of(write("a.jsonl", "\n".join(map(json.dumps, rows)).encode())) == rows


def test_a_line_of_five_megabytes_and_more_than_a_block(write: Write, rows_of: RowsOf) -> None:
    rows = [{"a": "x"}, {"a": "y" * (5 << 20)}, {"a": "z" * (9 << 20)}, {"a": "x"}]
    assert rows_of(write("a.jsonl", "\n".join(map(json.dumps, rows)).encode())) == rows


def test_a_file_of_blank_lines_has_no_rows(write: Write, rows_of: RowsOf) -> None:
    assert rows_of(write("a.jsonl", b"\n \n")) == []


def test_a_malformed_line(write: Write, rows_of: RowsOf) -> None:
    name = write("a.jsonl", b'{"a":1}\n\n{"a":2\n{"a":3}\n')
    assert fault_of(rows_of, name) == (
        "Line 3 of FILE is not JSON: Expecting ',' delimiter at character 7. Write one whole object on each line."
    )


def test_a_malformed_line_far_down(write: Write, rows_of: RowsOf, small_blocks: None) -> None:
    name = write("a.jsonl", b'{"a":"some text"}\n' * 50 + b"oops\n" + b'{"a":"b"}\n')
    assert fault_of(rows_of, name).startswith("Line 51 of FILE is not JSON: Expecting value at character 1.")


@pytest.mark.parametrize(
    ("line", "kind"),
    [(b"[1]", "a list"), (b"3", "a whole number"), (b'"x"', "text"), (b"null", "null"), (b"true", "true or false")],
)
def test_a_line_that_is_no_object(write: Write, rows_of: RowsOf, line: bytes, kind: str) -> None:
    name = write("a.jsonl", b'{"a":1}\n' + line + b"\n")
    assert fault_of(rows_of, name) == (
        f'Line 2 of FILE is {kind}, not an object. Write each row as an object, such as {{"text": "..."}}.'
    )


@pytest.mark.parametrize("deep", [b"[" * 100_000, b'{"a":' * 900 + b"1" + b"}" * 900])
def test_what_is_nested_without_end_is_told_before_a_reader_goes_down(
    write: Write, rows_of: RowsOf, deep: bytes
) -> None:
    name = write("a.jsonl", b'{"t":null}\n{"t":' + deep + b"}\n")
    assert fault_of(rows_of, name).startswith("Line 2 of FILE holds lists or objects within each other that are more ")


def test_two_objects_on_a_line(write: Write, rows_of: RowsOf) -> None:
    name = write("a.jsonl", b'{"a":1}\n{"a":2}{"a":3}\n')
    assert fault_of(rows_of, name).startswith("Line 2 of FILE is not JSON: Extra data at character 8.")


def test_an_object_over_two_lines(write: Write, rows_of: RowsOf) -> None:
    assert fault_of(rows_of, write("a.jsonl", b'{"a":1}\n{\n"a":2}\n')).startswith("Line 2 of FILE is not JSON: ")


def test_a_column_twice_in_an_object(write: Write, rows_of: RowsOf) -> None:
    name = write("a.jsonl", b'{"a":1}\n{"a":1,"a":2}\n')
    assert fault_of(rows_of, name) == 'Line 2 of FILE has the column "a" twice. Rename one of them.'


@pytest.mark.parametrize("line", [b'{"\\ud83d":"a"}', b'{"b\xff":"a"}', b'{"a":"\xff","b":[{"\xff":1}]}'])
def test_a_name_that_is_no_text(write: Write, rows_of: RowsOf, line: bytes) -> None:
    name = write("a.jsonl", b'{"a":"\\ud83d\\ude00"}\n' + line + b"\n")
    assert fault_of(rows_of, name).startswith(
        "Line 2 of FILE has a name with bytes that are no UTF-8, or with half of "
    )


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b'{"n":"\xff"}', 'holds text in the column "n": "\\udcff". The lines before it make the column int64.'),
        (b'{"t":"\xff"}\xff', "is not JSON: Extra data at character 10. "),
    ],
)
def test_other_faults_amid_bytes_that_are_no_utf8(write: Write, rows_of: RowsOf, line: bytes, fault: str) -> None:
    name = write("a.jsonl", b'{"t":"x","n":1}\n' + line + b"\n")
    assert fault_of(rows_of, name).startswith(f"Line 2 of FILE {fault}")


@pytest.mark.parametrize("before", [1, 40], ids=["first block", "later block"])
def test_a_number_then_text(write: Write, rows_of: RowsOf, small_blocks: None, before: int) -> None:
    name = write("a.jsonl", b'{"t":"x","n":1}\n' * before + b'{"t":"x","n":"two"}\n')
    assert fault_of(rows_of, name) == (
        f'Line {before + 1} of FILE holds text in the column "n": "two". The lines before it make the column int64. '
        "Write it with one type throughout, for example as text."
    )


def test_whole_numbers_whose_last_digits_would_be_lost(write: Write, rows_of: RowsOf) -> None:
    lines_of_it = b'{"n": 0.5, "id": 1}\n\n{"n": 1e300, "id": 12345678901234567890123}\n'
    assert fault_of(rows_of, write("in.jsonl", lines_of_it)) == (
        'Line 3 of FILE holds a whole number of more than 64 bits in the column "id": 12345678901234567890123. '
        "Its last digits would be lost; write the column as text."
    )
    kept = b'{"n": 1e300, "id": 9223372036854775807}\n'
    assert rows_of(write("kept.jsonl", kept)) == [{"n": 1e300, "id": (1 << 63) - 1}]


def test_the_column_at_fault_is_named_beside_one_that_may_widen(write: Write, rows_of: RowsOf) -> None:
    name = write("a.jsonl", b'{"w":1,"n":1}\n{"w":1.5,"n":[1]}\n')
    assert fault_of(rows_of, name).startswith('Line 2 of FILE holds a list in the column "n": [1].')


def test_a_broken_number_behind_a_block_of_whole_ones(write: Write, rows_of: RowsOf, small_blocks: None) -> None:
    name = write("a.jsonl", b'{"t":"x","n":1}\n' * 20 + b'{"t":"x","n":1.5}\n')
    assert fault_of(rows_of, name).startswith('Line 21 of FILE holds a number in the column "n": 1.5.')


def test_a_column_that_appears_late(write: Write, rows_of: RowsOf, small_blocks: None) -> None:
    name = write("a.jsonl", b'{"t":"x","n":1}\n' * 20 + b'{"t":"x","new":1}\n')
    assert fault_of(rows_of, name) == (
        'Line 21 of FILE has the column "new", which the first lines do not have. '
        'Put a line that has every column first, such as "new": null.'
    )


def test_a_field_within_an_object_that_appears_late(write: Write, rows_of: RowsOf, small_blocks: None) -> None:
    name = write("a.jsonl", b'{"t":{"x":1}}\n' * 20 + b'{"t":{"x":1,"y":2}}\n')
    assert fault_of(rows_of, name).startswith('Line 21 of FILE holds an object in the column "t": {"x": 1, "y": 2}.')


@pytest.mark.parametrize("value", [b"{}", b"[{}]", b'{"x":{}}'])
def test_objects_without_fields(write: Write, rows_of: RowsOf, value: bytes) -> None:
    name = write("a.jsonl", b'{"t":"x","meta":' + value + b"}\n")
    assert fault_of(rows_of, name) == (
        'The column "meta" of FILE holds objects without any field, which cannot be kept. '
        "Leave it out, or give the first of them a field."
    )


def test_standard_input_in_many_blocks(small_blocks: None) -> None:
    rows = [{"a": n} for n in range(50)]
    source = resolve(["-"], io.BytesIO("".join(f"{json.dumps(row)}\n" for row in rows).encode()))
    assert source.columns() == ["a"]
    assert [row for _, batch in source.batches() for row in batch.to_pylist()] == rows


def test_a_fault_on_standard_input_is_named(small_blocks: None) -> None:
    source = resolve(["-"], io.BytesIO(b'{"a":1}\n' * 50 + b"oops\n"))
    with pytest.raises(InputError, match=r"^Line 51 of standard input is not JSON: "):
        list(source.batches())
