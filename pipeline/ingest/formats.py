"""Which file is read how: the one table of the extensions that are known."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.ingest import delimited, json_lines, parquet, plain_text
from pipeline.ingest.files import InputFile


@dataclass(frozen=True, slots=True)
class Format:
    """How to see a file's own schema, and how to read it once the schema of all inputs is known."""

    schema: Callable[[Any], pa.Schema]
    batches: Callable[[Any, pa.Schema], Iterator[pa.RecordBatch]]


JSON_LINES = Format(json_lines.schema, json_lines.batches)
_CSV = Format(partial(delimited.schema, delimiter=","), partial(delimited.batches, delimiter=","))
_TSV = Format(partial(delimited.schema, delimiter="\t"), partial(delimited.batches, delimiter="\t"))
_TEXT = Format(plain_text.schema, plain_text.batches)

_LINE_WISE = {".csv": _CSV, ".tsv": _TSV, ".jsonl": JSON_LINES, ".ndjson": JSON_LINES, ".txt": _TEXT}
_COMPRESSIONS = {"": None, ".gz": "gzip", ".zst": "zstd"}


def file_and_format(path: Path) -> tuple[InputFile, Format]:
    """Raises InputError with the extensions that are known."""
    name = path.name.lower()
    if name.endswith(".parquet"):
        return InputFile(path), Format(parquet.schema, parquet.batches)
    for suffix, form in _LINE_WISE.items():
        for ending, compression in _COMPRESSIONS.items():
            if name.endswith(suffix + ending):
                return InputFile(path, compression), form
    raise InputError(
        f"{path} has no extension that is known. Supported are .parquet and {', '.join(_LINE_WISE)}, "
        "these also with .gz or .zst behind."
    )


def is_supported(path: Path) -> bool:
    try:
        file_and_format(path)
    except InputError:
        return False
    return True
