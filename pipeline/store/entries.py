"""Stage 6: single entries of the ledger, shared by the writes that are made of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, Row, Table, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from pipeline.errors import NotFoundError
from pipeline.rows import Completion
from pipeline.store.records import BatchState, JobRecord, ShardRecord
from pipeline.store.schema import batches, jobs, results, shards

#: What a person may write for the newest job, and so no job's name.
NEWEST = "last"

#: Rows that share one answer may be many, and each has its log-probabilities written out.
_INSERTED_AT_ONCE = 256
_COMPLETION = tuple(field.name for field in fields(Completion))
#: What a ShardRecord is made of. A shard's row ids are many, and few have a need of them.
SHARD = tuple(shards.c[field.name] for field in fields(ShardRecord))

#: SQLAlchemy writes ON CONFLICT through the dialect's own insert; the two read alike.
INSERT: dict[str, Callable[[Table], sqlite.Insert | postgresql.Insert]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}


def hold_job(connection: Connection, job_id: str) -> JobRecord:
    """The job, whose state no other transaction changes until this one ends. Raises NotFoundError."""
    query = select(jobs).where(jobs.c.id == job_id).with_for_update(key_share=True)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise NotFoundError(f"There is no job {job_id}.")
    return job_record(row)


def set_job(connection: Connection, job_id: str, **values: object) -> None:
    connection.execute(update(jobs).where(jobs.c.id == job_id).values(values))


def job_record(row: Row[tuple[object, ...]]) -> JobRecord:
    return JobRecord(**row._mapping)


def shard_record(row: Row[tuple[object, ...]]) -> ShardRecord:
    return ShardRecord(*(getattr(row, column.name) for column in SHARD))


def row_ids_of(row: Row[*tuple[Any, ...]]) -> Sequence[int]:
    """Of a shard, whose `row_ids` are among what was asked for."""
    return range(row.row_from, row.row_to) if row.row_ids is None else row.row_ids


@dataclass(frozen=True, slots=True)
class NewBatch:
    """Rows of one shard that are to be answered together."""

    shard_no: int
    row_ids: tuple[int, ...]
    n_tokens: int = 0  #: 0 where nobody knows the rows' lengths before they are encoded
    part: int | None = None
    crashes: int = 0
    silences: int = 0
    error: str | None = None
    prompt_rows: tuple[int, ...] = ()  #: rows of each prompt, in the order of `row_ids`; empty where each has one


def insert_batches(connection: Connection, job_id: str, planned: Sequence[NewBatch], now: float) -> list[int]:
    """Pending ones, whose numbers go on where the job's end.

    The caller holds the job (hold_job), so that two do not take the same numbers.
    """
    newest = connection.scalar(select(func.max(batches.c.batch_no)).where(batches.c.job_id == job_id))
    first = 0 if newest is None else newest + 1
    rows = [_new_row(job_id, batch_no, batch, now) for batch_no, batch in enumerate(planned, start=first)]
    if rows:
        connection.execute(insert(batches), rows)
    return list(range(first, first + len(rows)))


def insert_results(
    connection: Connection,
    job_id: str,
    batch_no: int | None,
    attempt: int,
    completions: Sequence[Completion],
    now: float,
) -> None:
    """A row that has its result keeps it."""
    names = connection.scalar(select(jobs.c.questions).where(jobs.c.id == job_id)) if completions else ()
    entry = {"job_id": job_id, "batch_no": batch_no, "attempt": attempt, "created_at": now}
    for first in range(0, len(completions), _INSERTED_AT_ONCE):
        some = completions[first : first + _INSERTED_AT_ONCE]
        connection.execute(
            INSERT[connection.dialect.name](results).on_conflict_do_nothing(index_elements=["job_id", "row_id"]),
            [
                {name: getattr(completion, name) for name in _COMPLETION}
                | entry
                | {"question": names[completion.row_id % len(names)] if names else None}
                for completion in some
            ],
        )


def _new_row(job_id: str, batch_no: int, batch: NewBatch, now: float) -> dict[str, object]:
    counts = ("fence", "attempts", "n_ok", "n_truncated", "n_error")
    sums = ("computed_tokens", "reused_tokens", "output_tokens")
    seconds = ("queue_s", "load_s", "encode_s", "prefix_s", "prefill_s", "decode_s", "detokenize_s", "record_s")
    return dict.fromkeys((*counts, *sums, *seconds), 0) | {
        "job_id": job_id,
        "batch_no": batch_no,
        "shard_no": batch.shard_no,
        "row_ids": batch.row_ids,
        "n_rows": len(batch.row_ids),
        "n_tokens": batch.n_tokens,
        "part": batch.part,
        "crashes": batch.crashes,
        "silences": batch.silences,
        "error": batch.error,
        "prompt_rows": batch.prompt_rows or None,
        "state": BatchState.PENDING,
        "created_at": now,
    }
