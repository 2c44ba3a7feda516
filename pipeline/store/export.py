"""Stage 7: results joined back to the rows that they answer, as a file, a stream, or a few rows to look at."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet
from sqlalchemy import Engine

from pipeline.errors import InputError, JobError, SpecError, nearest
from pipeline.ingest.expression import columns_of
from pipeline.ingest.places import opened
from pipeline.ingest.strange import readable
from pipeline.ingest.values import rows_of
from pipeline.rows import Status
from pipeline.store.columns import (
    ResultColumn,
    columns_behind,
    nameable_columns,
    result_column,
    result_columns,
    rows_at_once,
)
from pipeline.store.lookup import read_job
from pipeline.store.purged import require_shards, require_unchanged
from pipeline.store.queries import embedding_width, list_pages
from pipeline.store.records import JobRecord
from pipeline.store.result_condition import ResultCondition
from pipeline.store.result_rows import by_question, read_columns
from pipeline.store.row_condition import chosen_by
from pipeline.store.table_files import WRITERS, Format
from pipeline.store.target_file import opened_target

#: Without their rows.
_ROWS_AT_ONCE = 1 << 14
_NO_ROW = 1 << 62  #: behind the last of any job
_JOIN = " With --join-input, it may ask of the input's columns too."

#: Rows of the input, and the columns of the answers to each question about them.
Piece = tuple[pa.Table | None, Sequence[Mapping[str, Sequence[Any]]]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of a job's results: which rows, and which columns."""

    status: Status | None = None
    condition: ResultCondition | None = None
    where: str | None = None  #: also these, of which it is asked when the input is beside them
    limit: int | None = None
    columns: tuple[str, ...] | None = None  #: of the result, in this order; None: row_id, and all that was asked for
    with_input: bool = True  #: and those of the input before them

    @property
    def rows(self) -> dict[str, Any]:
        return {"status": self.status, "condition": self.condition}


def export(
    engine: Engine,
    job: JobRecord,
    file_format: Format,
    target: Path | BinaryIO,
    *,
    status: Status | None = None,
    limit: int | None = None,
) -> int:
    """Write all columns of the rows that have a result, in the order of the input; how many.

    The columns are row_id, the input's, then the result's (those that the job asked for, columns.py). With a status,
    only rows are written of which an answer, where there are several, ended so. A column
    of ours whose name the input has already gets the prefix `result_`. A file appears whole or not at all. In CSV and
    JSON lines, bytes are base64; a nested CSV cell is JSON. Raises InputError for a shard that is gone, JobError or
    TryAgain where the target cannot be written.
    """
    return export_wanted(engine, job, file_format, target, Wanted(status, limit=limit))


def export_wanted(engine: Engine, job: JobRecord, file_format: Format, target: Path | BinaryIO, wanted: Wanted) -> int:
    """The same for some of the rows and columns. Also raises SpecError for a column that is not there, RefusedError
    where the input is asked for and was purged."""
    schema = wanted_schema(engine, job, wanted)
    n_rows = 0
    with opened_target(target) as stream, closing(WRITERS[file_format](stream, schema)) as writer:
        for table in joined(engine, job, schema, wanted):
            try:
                writer.write_table(table)
            except pa.ArrowException as error:
                raise JobError(
                    f"The results cannot be written as {file_format}: {error}. Take another format."
                ) from error
            n_rows += table.num_rows
    return n_rows


def preview(engine: Engine, job: JobRecord, wanted: Wanted) -> list[dict[str, Any]]:
    """The rows themselves, under the columns of an export."""
    return [row for table in joined(engine, job, wanted_schema(engine, job, wanted), wanted) for row in rows_of(table)]


def joined(engine: Engine, job: JobRecord, schema: pa.Schema, wanted: Wanted) -> Iterator[pa.Table]:
    """A table for each run of rows that have results; no more than one page is in memory, and no transaction is open
    for as long as it takes.

    Raises SpecError where `wanted.where` asks of a column that is not there, InputError for a shard that is gone, and
    RefusedError or TryAgain where the input, or at the end answers, went meanwhile.
    """
    try:
        yield from _chosen(engine, job, schema, wanted)
    except InputError:
        require_shards(read_job(engine, job.id))
        raise
    require_unchanged(engine, job)


def _chosen(engine: Engine, job: JobRecord, schema: pa.Schema, wanted: Wanted) -> Iterator[pa.Table]:
    if wanted.where is None:
        yield from _joined(engine, job, schema, wanted)
        return
    known, choose, left = nameable_columns(job.spec_json), None, wanted.limit
    asked = [f"{name}." for name in columns_of(wanted.where)]
    wide = _with_columns(schema, [known[name] for name in known if any(each.startswith(f"{name}.") for each in asked)])
    for table in _joined(engine, job, wide, replace(wanted, limit=None)):
        choose = choose or chosen_by(wanted.where, wide, known, "" if wanted.with_input else _JOIN)
        chosen = choose(table)[:left].select(range(len(schema)))
        if chosen.num_rows:
            yield chosen
        left = None if left is None else left - chosen.num_rows
        if left == 0:
            return


def _joined(engine: Engine, job: JobRecord, schema: pa.Schema, wanted: Wanted) -> Iterator[pa.Table]:
    names = columns_behind([name for field in schema if (name := result_name(field))])
    pieces = _with_rows if wanted.with_input else _alone
    for rows, answers in pieces(engine, job, names, wanted):
        columns = iter(rows.columns if rows is not None else ())
        arrays = [
            result_column(name, field.type, answers[int(field.metadata[b"place"])])
            if (name := result_name(field))
            else next(columns)
            for field in schema
        ]
        yield pa.table(arrays, schema=schema)


def wanted_schema(engine: Engine, job: JobRecord, wanted: Wanted) -> pa.Schema:
    """Each column of ours remembers under `result` what it is, whatever its name had to become."""
    of_input = _input_columns(engine, job) if wanted.with_input else []
    taken = {field.name for field in of_input}
    known = nameable_columns(job.spec_json)
    if any(column.field == "embedding" for column in known.values()):
        known = nameable_columns(job.spec_json, embedding_width(engine, job.id))
    for name in wanted.columns or ():
        if name not in known and name in taken:
            raise SpecError(f'The column "{name}" is of the input, which --join-input writes whole. Take it out.')
        if name not in known:
            raise SpecError(
                f'The results of {job.name} have no column "{name}".{nearest(name, list(known))} '
                f"Their columns are: {', '.join(known)}."
            )
    if wanted.columns is None:
        first, others = ["row_id"], [column.name for column in result_columns(job.spec_json)]
    else:
        first, others = [], list(wanted.columns)
    fields = {name: _field(known[name], taken) for name in first + others}
    return pa.schema([*(fields[name] for name in first), *of_input, *(fields[name] for name in others)])


def _with_columns(schema: pa.Schema, more: Sequence[ResultColumn]) -> pa.Schema:
    there = {(result_name(field), field.metadata[b"place"]) for field in schema if result_name(field)}
    new = [column for column in more if (column.field, str(column.place).encode()) not in there]
    return pa.schema([*schema, *(_field(column, schema.names) for column in new)])


def _field(column: ResultColumn, taken: Collection[str]) -> pa.Field:
    told = {"result": column.field, "place": str(column.place), "name": column.name}
    return pa.field(free_name(column.name, taken), column.kind, metadata=told)


def _with_rows(engine: Engine, job: JobRecord, names: Sequence[str], wanted: Wanted) -> Iterator[Piece]:
    left, count = math.inf if wanted.limit is None else wanted.limit, job.n_questions
    for page in list_pages(engine, job.id):
        whole = None
        for run in _runs(page.rows, count * rows_at_once(job.spec_json, len(page.rows) // count)):
            if left <= 0:
                return
            most = int(min(left, len(run) // count))
            found = read_columns(engine, job, names, most, rows=run, **wanted.rows)
            if found:
                rows, answers = by_question(names, found, count)
                left -= len(rows)
                whole = whole or _read(page.path, lambda file: readable(file.read()))
                yield _answered(whole, page.row_from // count, rows), answers


def _alone(engine: Engine, job: JobRecord, names: Sequence[str], wanted: Wanted) -> Iterator[Piece]:
    """The results as they are, without a look at the input."""
    left, most, count = wanted.limit, rows_at_once(job.spec_json, _ROWS_AT_ONCE), job.n_questions
    run = range(_NO_ROW)
    while left is None or left > 0:
        found = read_columns(engine, job, names, most if left is None else min(left, most), rows=run, **wanted.rows)
        if not found:
            return
        rows, answers = by_question(names, found, count)
        left = None if left is None else left - len(rows)
        run = range((rows[-1] + 1) * count, _NO_ROW)
        yield None, answers


def _runs(rows: range, length: int) -> Iterator[range]:
    return (rows[start : start + length] for start in range(0, len(rows), length))


def _answered(page: pa.Table, row_from: int, rows: Sequence[int]) -> pa.Table:
    """Those of the page's rows that have results."""
    return page if len(rows) == page.num_rows else page.take([row - row_from for row in rows])


def _input_columns(engine: Engine, job: JobRecord) -> list[pa.Field]:
    require_shards(job)
    pages = list_pages(engine, job.id)
    return list(_read(pages[0].path, lambda file: file.schema_arrow)) if pages else []


def result_name(field: pa.Field) -> str:
    """Empty for a column of the input."""
    return str((field.metadata or {}).get(b"result", b"").decode())


def free_name(name: str, taken: Collection[str]) -> str:
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
