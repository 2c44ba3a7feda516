"""CSV and TSV as input. Every column is text, exactly as it is written.

Such a file has no types, and whoever guesses them from its head turns the zip code "007" into 7, the price
"1.10" into 1.1 and the name "NA" into nothing, or fails at row 4 million. A prompt is text, so text it stays;
an empty cell is an empty text, quoted or not.
"""

import csv
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.csv as pa_csv

from pipeline.errors import InputError
from pipeline.ingest.faults import reading
from pipeline.ingest.files import InputFile
from pipeline.ingest.lines import Block
from pipeline.ingest.strange import is_torn

#: The longest row that can be read. pyarrow reads up to 32 blocks ahead, so this bounds the memory, too.
_BLOCK_BYTES = 8 << 20


def schema(file: InputFile, delimiter: str) -> pa.Schema:
    header, _ = _head(file, delimiter)
    return pa.schema([(name, pa.string()) for name in header])


def batches(file: InputFile, schema: pa.Schema, delimiter: str) -> Iterator[pa.RecordBatch]:
    """Raises InputError that names the line for a row of another width and for a quote left open."""
    header, has_rows = _head(file, delimiter)
    if not has_rows:
        return
    with reading(file.name):
        try:
            # The stream is not closed here: pyarrow's threads may still read ahead when the rows wanted are through.
            yield from pa_csv.open_csv(
                file.open(),
                read_options=pa_csv.ReadOptions(block_size=_BLOCK_BYTES),
                parse_options=pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False, check_utf8=False
                ),
            )
        except pa.ArrowInvalid as error:
            raise _explained(file, delimiter, error) from error
    if _has_odd_quotes(file) and (fault := _open_quote(file, delimiter)):
        raise fault


def rows_in(block: Block, delimiter: str) -> int:
    """Behind the header."""
    with _cells_of_any_length():
        return max(0, sum(1 for _ in filter(None, csv.reader(_lines_of(block), delimiter=delimiter))) - 1)


def _head(file: InputFile, delimiter: str) -> tuple[list[str], bool]:
    """The names in the header, and whether a row follows it."""
    lines = _lines(file)
    try:
        header = next(filter(None, csv.reader(lines, delimiter=delimiter)), [])
    except csv.Error as error:
        raise InputError(f"The header of {file.name} cannot be read: {error}.") from error
    if any(map(is_torn, header)):
        raise InputError(
            f"The header of {file.name} is not UTF-8 text. Save the file as UTF-8, for example with iconv."
        )
    return header, any(line.strip("\r\n") for line in lines)


def _has_odd_quotes(file: InputFile) -> bool:
    """A sign, quickly seen, of a quote never closed: pyarrow takes one for a long cell that ends with the file."""
    return sum(block.data.count(b'"') for block in file.blocks()) % 2 == 1


def _explained(file: InputFile, delimiter: str, error: Exception) -> InputError:
    """The same fault with the line it is on, found by reading the file again the slow way."""
    fault = _ragged_row(file, delimiter) or _open_quote(file, delimiter)
    if fault is None and "straddles" in str(error):
        fault = InputError(f"{file.name} has a row of more than {_BLOCK_BYTES >> 20} MB, the longest that can be read.")
    return fault or InputError(f"{file.name} cannot be read: {error}.")


def _ragged_row(file: InputFile, delimiter: str) -> InputError | None:
    line, width = 1, 0
    with _cells_of_any_length():
        records = csv.reader(_lines(file), delimiter=delimiter)
        for record in records:
            width = width or len(record)
            if record and len(record) != width:
                return InputError(
                    f"Line {line} of {file.name} has {_cells(len(record))}, but the header has {_cells(width)}. "
                    "Look there for a delimiter or a line break outside of quotes, and for a quote that is not closed."
                )
            line = records.line_num + 1
    return None


def _open_quote(file: InputFile, delimiter: str) -> InputError | None:
    line = 1
    with _cells_of_any_length():
        records = csv.reader(_lines(file), delimiter=delimiter, strict=True)
        try:
            for _ in records:
                line = records.line_num + 1
        except csv.Error:
            return InputError(
                f"The row that begins on line {line} of {file.name} has a quote that is never closed, or text "
                'behind a closing quote. Within a quoted cell, write a quote twice: "".'
            )
    return None


def _lines(file: InputFile) -> Iterator[str]:
    for block in file.blocks():
        yield from _lines_of(block)


def _lines_of(block: Block) -> Iterator[str]:
    return io.StringIO(block.data.decode(errors="surrogateescape"), newline="")


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    usual = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(usual)


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"
