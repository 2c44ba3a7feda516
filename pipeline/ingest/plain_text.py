"""Plain text as input: every line is a row, a blank one too; the one column is named `text`."""

from collections.abc import Iterator

import pyarrow as pa

from pipeline.ingest.files import LineInput
from pipeline.ingest.lines import Block


def schema(file: LineInput) -> pa.Schema:
    return pa.schema([("text", pa.string())] if file.head() else [])


def batches(file: LineInput, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for block in file.blocks():
        lines = block.data.removesuffix(b"\n").replace(b"\r\n", b"\n").removesuffix(b"\r").split(b"\n")
        yield pa.RecordBatch.from_pydict({"text": pa.array(lines, pa.binary()).view(pa.string())})


def rows_in(block: Block) -> int:
    return block.data.count(b"\n")
