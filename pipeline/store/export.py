"""Stage 7: results joined back to the rows that they answer, as a file, a stream, or a few rows to look at."""

import base64
import errno
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from sqlalchemy import Engine

from pipeline.errors import InputError, JobError, PipelineError, TryAgain
from pipeline.ingest.places import opened
from pipeline.ingest.values import rows_of, values_of
from pipeline.rows import Status
from pipeline.store.answers import Answers, read_answers
from pipeline.store.columns import result_column, result_columns, rows_at_once
from pipeline.store.queries import embedding_width, list_pages
from pipeline.store.records import JobRecord

Format = Literal["csv", "jsonl", "parquet"]


def export(
    engine: Engine,
    job: JobRecord,
    file_format: Format,
    target: Path | BinaryIO,
    *,
    status: Status | None = None,
    limit: int | None = None,
) -> int:
    """Write the rows that have a result, in the order of the input; how many.

    The columns are row_id, the input's, then the result's (those that the job asked for, columns.py). With a status,
    only rows are written of which an answer, where there are several, ended so. A column
    of ours whose name the input has already gets the prefix `result_`. A file appears whole or not at all. In CSV and
    JSON lines, bytes are base64; a nested CSV cell is JSON. Raises InputError for a shard that is gone, JobError or
    TryAgain where the target cannot be written.
    """
    n_rows = 0
    schema = _schema(engine, job)
    with opened_target(target) as stream, closing(_WRITERS[file_format](stream, schema)) as writer:
        for table in _joined(engine, job, schema, status, limit):
            try:
                writer.write_table(table)
            except pa.ArrowException as error:
                raise JobError(
                    f"The results cannot be written as {file_format}: {error}. Take another format."
                ) from error
            n_rows += table.num_rows
    return n_rows


def preview(engine: Engine, job: JobRecord, limit: int, status: Status | None = None) -> list[dict[str, Any]]:
    """The first rows that have a result, under the columns of an export."""
    tables = _joined(engine, job, _schema(engine, job), status, limit)
    return [row for table in tables for row in rows_of(table)]


def _joined(
    engine: Engine, job: JobRecord, schema: pa.Schema, status: Status | None, limit: int | None
) -> Iterator[pa.Table]:
    """A table for each page that has results, or for some rows of it; no more than one page is in memory."""
    wanted, count = math.inf if limit is None else limit, job.n_questions
    for page in list_pages(engine, job.id):
        whole = None
        for row_ids in _runs(page.rows, count * rows_at_once(job.spec_json, len(page.rows) // count)):
            if wanted <= 0:
                return
            answered = read_answers(engine, job, row_ids, status, int(min(wanted, len(row_ids) // count)))
            if answered:
                wanted -= len(answered)
                whole = whole or _read(page.path, lambda file: file.read())
                yield _join(whole, page.row_from // count, answered, schema)


def _runs(rows: range, length: int) -> Iterator[range]:
    return (rows[start : start + length] for start in range(0, len(rows), length))


def _join(rows: pa.Table, first: int, answered: list[tuple[int, Answers]], schema: pa.Schema) -> pa.Table:
    """The rows of a page, of which the first is that of the input, to their answers."""
    if len(answered) < rows.num_rows:
        rows = rows.take([row - first for row, _ in answered])
    columns = [pa.array([row for row, _ in answered], pa.int64()), *rows.columns]
    for field in list(schema)[len(columns) :]:
        name, place = field.metadata[b"result"].decode(), int(field.metadata[b"place"])
        columns.append(result_column(name, field.type, [answers[place] for _, answers in answered]))
    return pa.table(columns, schema=schema)


def _schema(engine: Engine, job: JobRecord) -> pa.Schema:
    """Each column of ours remembers under `result` what it is, whatever its name had to become."""
    pages = list_pages(engine, job.id)
    of_input = list(_read(pages[0].path, lambda file: file.schema_arrow)) if pages else []
    taken = {field.name for field in of_input}
    ours = result_columns(job.spec_json)
    if any(column.field == "embedding" for column in ours):
        ours = result_columns(job.spec_json, embedding_width(engine, job.id))
    of_result = [
        pa.field(_free(column.name, taken), column.kind, metadata={"result": column.field, "place": str(column.place)})
        for column in ours
    ]
    return pa.schema([pa.field(_free("row_id", taken), pa.int64()), *of_input, *of_result])


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name = f"result_{name}"
    return name


def _read(path: str, read: Callable[[pyarrow.parquet.ParquetFile], Any]) -> Any:
    try:
        with opened(path) as file, pyarrow.parquet.ParquetFile(file) as shard:
            return read(shard)
    except InputError as error:
        raise InputError(
            f"The shard {path}, which holds rows of the input, cannot be read: {error} "
            "Results are joined to it, so put it back in its place."
        ) from error


class _Writer(Protocol):
    def write_table(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


class _CsvWriter:
    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self._schema = pa.schema(
            pa.field(field.name, pa.string() if _is_odd(field.type) else field.type) for field in schema
        )
        self._writer = pyarrow.csv.CSVWriter(stream, self._schema)

    def write_table(self, table: pa.Table) -> None:
        columns = [
            pa.array([_cell(value) for value in values_of(column)], pa.string()) if _is_odd(column.type) else column
            for column in table.columns
        ]
        self._writer.write_table(pa.table(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


class _JsonlWriter:
    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self._stream = stream
        self._parsed = [field.name for field in schema if (field.metadata or {}).get(b"result") == b"parsed"]

    def write_table(self, table: pa.Table) -> None:
        rows = [_plain(row) for row in rows_of(table)]
        for row in rows:
            row.update({name: json.loads(row[name]) for name in self._parsed if row[name] is not None})
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        self._stream.write("".join(lines).encode(errors="backslashreplace"))  # which is JSON's form of half a pair

    def close(self) -> None:
        """Nothing is held back."""


def _parquet_writer(stream: BinaryIO, schema: pa.Schema) -> _Writer:
    bare = pa.schema([pa.field(field.name, field.type, field.nullable) for field in schema])
    writer: _Writer = pyarrow.parquet.ParquetWriter(stream, bare, compression="zstd")
    return writer


_WRITERS: Mapping[str, Callable[[BinaryIO, pa.Schema], _Writer]] = {
    "csv": _CsvWriter,
    "jsonl": _JsonlWriter,
    "parquet": _parquet_writer,
}


def _is_odd(kind: pa.DataType) -> bool:
    """Of a type that CSV has no cells for."""
    return pa.types.is_nested(kind) or "binary" in str(kind) or isinstance(kind, pa.BaseExtensionType)


def _cell(value: object) -> str | None:
    plain = _plain(value)
    return plain if plain is None or isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _plain(value: object) -> Any:
    """As JSON knows it: dates as ISO text, bytes as base64, decimals as text, not-a-number as null."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {str(name): _plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


@contextmanager
def opened_target(target: Path | BinaryIO) -> Iterator[BinaryIO]:
    """A file appears whole or not at all, where a link leads to; what is no file is written as a stream.

    Raises JobError, or TryAgain for a full disk.
    """
    try:
        if not isinstance(target, Path):
            yield target
            target.flush()
        elif target.exists() and not target.is_file():
            with target.open("wb") as stream:  # a pipe or a device, which must not be renamed over
                yield stream
        else:
            with _replacing(target.resolve()) as stream:
                yield stream
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _told(target, error) from error


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _told(target: Path | BinaryIO, error: OSError) -> PipelineError:
    name = target if isinstance(target, Path) else "The output"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return TryAgain(
            f"{name} could not be written: the disk is full. Free some space, then give the same command again."
        )
    reason = error.strerror or str(error)
    return JobError(f"{name} cannot be written: {reason}. Give a file in a directory that you may write to.")
