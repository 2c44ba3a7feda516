"""Stage 7: rows as a database gives them, as a file or a stream."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import pyarrow.parquet

from pipeline.errors import SpecError
from pipeline.ingest import selected
from pipeline.ingest.selected import Rows, Selected
from pipeline.store.plain import as_json, cell
from pipeline.store.table_files import Format
from pipeline.store.target_file import opened_target


def write_rows(source: Selected, file_format: Format, target: Path | BinaryIO) -> int:
    """How many. A file appears whole or not at all. For Parquet, the first block tells the types that the database
    does not; raises InputError for a later row that does not fit.

    Also raises SpecError for two columns of one name, JobError or TryAgain where the target cannot be written.
    """
    rest = source.blocks()
    once = _Once(source, next(rest), rest)
    _require_one_of_each(once.head.names)
    with opened_target(target) as stream:
        return _WRITERS[file_format](once, stream)


class _Once:
    """The same rows, asked for a single time; their head may be looked at before."""

    def __init__(self, source: Selected, head: Rows, rest: Iterator[Rows]) -> None:
        self.name, self.head = source.name, head
        self._source, self._rest = source, rest

    def facts(self) -> tuple[str, str]:
        return self._source.facts()

    def blocks(self) -> Iterator[Rows]:
        yield self.head
        yield from self._rest


def _require_one_of_each(names: tuple[str, ...]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise SpecError(f'The answer has {names.count(name)} columns named "{name}". Rename all but one, with AS.')


def _write_csv(rows: _Once, stream: BinaryIO) -> int:
    text = io.TextIOWrapper(stream, "utf-8", newline="", write_through=True)
    writer, n_rows = csv.writer(text, lineterminator="\n"), 0
    writer.writerow(rows.head.names)
    for block in rows.blocks():
        writer.writerows([cell(value) for value in row] for row in block.rows)
        n_rows += len(block.rows)
    text.detach()
    return n_rows


def _write_json_lines(rows: _Once, stream: BinaryIO) -> int:
    n_rows = 0
    for block in rows.blocks():
        objects = (dict(zip(block.names, row, strict=True)) for row in block.rows)
        stream.write("".join(as_json(one) + "\n" for one in objects).encode())
        n_rows += len(block.rows)
    return n_rows


def _write_parquet(rows: _Once, stream: BinaryIO) -> int:
    schema, n_rows = selected.schema(rows), 0
    with pyarrow.parquet.ParquetWriter(stream, schema, compression="zstd") as writer:
        for batch in selected.batches(rows, schema):
            writer.write_batch(batch)
            n_rows += batch.num_rows
    return n_rows


_WRITERS: Mapping[str, Callable[[_Once, BinaryIO], int]] = {
    "csv": _write_csv,
    "jsonl": _write_json_lines,
    "parquet": _write_parquet,
}
