"""Which file is read how: the one table of the extensions that are known."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.ingest import arrow_ipc, delimited, json_lines, parquet, plain_text
from pipeline.ingest.files import InputFile
from pipeline.ingest.lines import Block
from pipeline.ingest.places import is_url


@dataclass(frozen=True, slots=True)
class Format:
    """How to see a file's own schema, and how to read it once the schema of all inputs is known."""

    schema: Callable[[Any], pa.Schema]
    batches: Callable[[Any, pa.Schema], Iterator[pa.RecordBatch]]
    #: Where stretches of rows may begin far behind the first row, and what is there (parquet.py).
    edges: Callable[[Any, Collection[str]], list[int]] | None = None
    stretches: Callable[[Any, Sequence[int], Collection[str]], Iterator[pa.RecordBatch]] | None = None
    #: How many rows a block of lines has, the first of a file.
    rows_in: Callable[[Block], int] | None = None


def _delimited_by(delimiter: str) -> Format:
    return Format(
        partial(delimited.schema, delimiter=delimiter),
        partial(delimited.batches, delimiter=delimiter),
        rows_in=partial(delimited.rows_in, delimiter=delimiter),
    )


JSON_LINES = Format(json_lines.schema, json_lines.batches, rows_in=json_lines.rows_in)
_CSV = _delimited_by(",")
_TSV = _delimited_by("\t")
_TEXT = Format(plain_text.schema, plain_text.batches, rows_in=plain_text.rows_in)
_ARROW = Format(arrow_ipc.schema, arrow_ipc.batches)

_WITH_TYPES = {
    ".parquet": Format(parquet.schema, parquet.batches, parquet.edges, parquet.stretches),
    ".arrow": _ARROW,
    ".feather": _ARROW,
    ".ipc": _ARROW,
}
_LINE_WISE = {".csv": _CSV, ".tsv": _TSV, ".jsonl": JSON_LINES, ".ndjson": JSON_LINES, ".txt": _TEXT}
_REMEDIES = {
    ".json": "Write JSON as .jsonl, an object on each line.",
    ".xlsx": "Save the sheet as .csv, in UTF-8.",
    ".xls": "Save the sheet as .csv, in UTF-8.",
}
_COMPRESSIONS = {"": None, ".gz": "gzip", ".zst": "zstd"}


def file_and_format(place: str) -> tuple[InputFile, Format]:
    """Of a path or a URL. Raises InputError with the extensions that are known."""
    name = place.lower()
    if is_url(place):
        name = name.partition("?")[0]
    for suffix, form in _WITH_TYPES.items():
        if name.endswith(suffix):
            return InputFile(place), form
    for suffix, form in _LINE_WISE.items():
        for ending, compression in _COMPRESSIONS.items():
            if name.endswith(suffix + ending):
                return InputFile(place, compression), form
    remedy = next((f" {remedy}" for suffix, remedy in _REMEDIES.items() if name.endswith(suffix)), "")
    raise InputError(
        f"{place} has no extension that is known. Supported are {', '.join(_WITH_TYPES)}, and {', '.join(_LINE_WISE)}, "
        f"the latter also with .gz or .zst behind.{remedy}"
    )


def is_supported(place: str) -> bool:
    try:
        file_and_format(place)
    except InputError:
        return False
    return True
