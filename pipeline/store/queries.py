"""Stage 7: what a person asks about jobs. Nothing here writes."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Row, Select, Table, func, select

from pipeline.errors import NotFoundError, nearest
from pipeline.rows import Completion, Status
from pipeline.store.database import none_yet
from pipeline.store.entries import NEWEST, SHARD, job_record, shard_record
from pipeline.store.records import BatchState, JobRecord, JobState, PageRecord, Progress, ShardRecord
from pipeline.store.schema import batches, jobs, pages, results, shards
from pipeline.store.transactions import database_name, reading

STAGES = ("encode", "queue", "load", "prefix", "prefill", "decode", "detokenize", "record")
TOKENS = ("computed_tokens", "reused_tokens", "output_tokens")

#: Batches that tell how quickly a model answers.
_LATEST = 50
#: Fields of a job that decide how long a row takes, besides its length.
_WORK = ("prompt", "system", "choices", "multi_label", "score", "embed", "max_tokens", "n", "logprobs", "dtype")

_BATCH_SUMS = ("n_ok", "n_truncated", "n_error", *TOKENS, *(f"{stage}_s" for stage in STAGES))
_SHARD_SUMS = (
    *("n_ok", "n_truncated", "n_error", "n_cut", "n_neutralised"),
    *("prompt_tokens", "planned_tokens", "reused_tokens"),
)
_COMPLETION = [results.c[field.name] for field in fields(Completion)]


@dataclass(frozen=True, slots=True)
class Rate:
    """What one device did in so many seconds."""

    rows: int
    prompts: int  #: of these, without those that share another one's answer
    tokens: int  #: of prompts, reused ones too, and of answers
    own_tokens: int  #: of prompts, without what all rows of the job share
    seconds: float


def find_job(engine: Engine, ref: str) -> JobRecord:
    """By name, by id or the start of one, or `last` for the newest. Raises NotFoundError, which helps."""
    with reading(engine) as connection:
        for query in _lookups(ref):
            found = connection.execute(query).all()
            if len(found) == 1:
                return job_record(found[0])
            if found:
                raise NotFoundError(f'Several jobs have an id that starts with "{ref}". Give more of it.')
        names = list(connection.scalars(select(jobs.c.name)))
    if not names:
        raise NotFoundError(none_yet(engine))
    hint = nearest(ref, names) or f" `pipeline jobs` lists those in {database_name(engine)}."
    raise NotFoundError(f'There is no job "{ref}".{hint}')


def list_jobs(engine: Engine) -> list[JobRecord]:
    """The newest first."""
    with reading(engine) as connection:
        return [job_record(row) for row in connection.execute(_newest_first())]


def newest_jobs(engine: Engine, limit: int | None = None) -> list[tuple[JobRecord, Progress]]:
    """The newest first, each with its progress, in as many statements for a thousand of them as for one."""
    ids = _newest_first().with_only_columns(jobs.c.id).limit(limit).scalar_subquery()
    with reading(engine) as connection:
        found = [job_record(row) for row in connection.execute(_newest_first().limit(limit))]
        of_shards = {row.id: row for row in connection.execute(_shard_sums(jobs.c.id.in_(ids)))}
        by_state = defaultdict(list)
        for row in connection.execute(_batch_sums(batches.c.job_id.in_(ids))):
            by_state[row.job_id].append(row)
    return [(job, _progress(of_shards[job.id], by_state[job.id])) for job in found]


def count_jobs(engine: Engine) -> dict[JobState, int]:
    """By state; without those of which there is none."""
    with reading(engine) as connection:
        return {
            row.state: row.n
            for row in connection.execute(select(jobs.c.state, func.count().label("n")).group_by(jobs.c.state))
        }


def progress(engine: Engine, job_id: str) -> Progress:
    """Of one moment, and as quick for ten million rows as for ten. Raises NotFoundError."""
    with reading(engine) as connection:
        return read_progress(connection, job_id)


def read_progress(connection: Connection, job_id: str) -> Progress:
    """The same, within a transaction that asks more."""
    job = connection.execute(_shard_sums(jobs.c.id == job_id)).one_or_none()
    if job is None:
        raise NotFoundError(f"There is no job {job_id}.")
    return _progress(job, connection.execute(_batch_sums(batches.c.job_id == job_id)).all())


def _progress(job: Row[*tuple[Any, ...]], by_state: Sequence[Row[*tuple[Any, ...]]]) -> Progress:
    """Of the sums over its shards, and of those over its batches in each state."""

    def total(name: str) -> int:
        return int(sum(getattr(row, name) for row in by_state))

    ok, truncated, error = (total(name) + getattr(job, name) for name in ("n_ok", "n_truncated", "n_error"))
    cut = job.cut if job.n_rows is None else job.n_rows
    seconds = {stage: float(sum(getattr(row, f"{stage}_s") for row in by_state)) for stage in STAGES}
    seconds["encode"] += job.encode_s
    return Progress(
        total=job.n_rows,
        ok=ok,
        truncated=truncated,
        error=error,
        cancelled=cut - ok - truncated - error if job.state is JobState.CANCELLED else 0,
        batches=dict.fromkeys(BatchState, 0) | {row.state: row.n for row in by_state},
        computed_tokens=total("computed_tokens"),
        reused_tokens=total("reused_tokens") + int(job.reused_tokens),
        output_tokens=total("output_tokens"),
        copied=job.n_ok + job.n_truncated,
        cut=job.n_cut,
        neutralised=job.n_neutralised,
        prompt_tokens=int(job.prompt_tokens),
        planned_tokens=int(job.planned_tokens),
        seconds=seconds,
        started_at=min((row.started_at for row in by_state if row.started_at is not None), default=None),
        finished_at=max((row.finished_at for row in by_state if row.state is BatchState.DONE), default=None),
    )


def stream_results(
    engine: Engine, job_id: str, status: Status | None = None, limit: int | None = None
) -> Iterator[Completion]:
    """In the order of the input, a thousand in memory at a time."""
    with reading(engine) as connection:
        for row in connection.execution_options(yield_per=1000).execute(_results(job_id, status, limit)):
            yield Completion(**row._mapping)


def list_shards(engine: Engine, job_id: str) -> list[ShardRecord]:
    """In the order of their rows."""
    query = select(*SHARD).where(shards.c.job_id == job_id).order_by(shards.c.shard_no)
    with reading(engine) as connection:
        return [shard_record(row) for row in connection.execute(query)]


def list_pages(engine: Engine, job_id: str) -> list[PageRecord]:
    """In the order of their rows. Shards of rows that were not sorted are pages."""

    def of(table: Table) -> Select[tuple[object, ...]]:
        columns = (table.c.path, table.c.row_from, table.c.row_to)
        return select(*columns).where(table.c.job_id == job_id).order_by(table.c.row_from)

    with reading(engine) as connection:
        found = connection.execute(of(pages)).all() or connection.execute(of(shards)).all()
    return [PageRecord(**row._mapping) for row in found]


def read_results(
    engine: Engine, job_id: str, rows: range, status: Status | None = None, limit: int | None = None
) -> list[Completion]:
    """Of a run of the job's rows, in their order."""
    query = _results(job_id, status, limit).where(results.c.row_id >= rows.start, results.c.row_id < rows.stop)
    with reading(engine) as connection:
        return [Completion(**row._mapping) for row in connection.execute(query)]


def embedding_width(engine: Engine, job_id: str) -> int | None:
    """Numbers in each of the job's embeddings; None where it has none yet."""
    query = select(results.c.embedding).where(results.c.job_id == job_id, results.c.embedding.is_not(None)).limit(1)
    with reading(engine) as connection:
        found = connection.scalar(query)
    return None if found is None else len(found) // 4


def active_owners(engine: Engine, job_id: str) -> list[str]:
    """Whoever holds a batch of the job, also where the lease has run out: alive or dead, the caller may know."""
    with reading(engine) as connection:
        return list(
            connection.scalars(
                select(batches.c.lease_owner)
                .where(
                    batches.c.job_id == job_id,
                    batches.c.finished_at.is_(None),
                    batches.c.state == BatchState.LEASED,
                )
                .distinct()
                .order_by(batches.c.lease_owner)
            )
        )


def recent_rate(engine: Engine, job: JobRecord) -> Rate | None:
    """Of the latest batches answered of the job, or else of the newest other job that asked the same of the same model;
    None where there is none."""
    with reading(engine) as connection:
        for job_id in _alike(connection, job):
            latest = connection.execute(_latest(job_id)).all()
            if any(batch.seconds for batch in latest):
                return _rate(latest)
    return None


def _alike(connection: Connection, job: JobRecord) -> Iterator[str]:
    yield job.id
    others = connection.execute(
        select(jobs.c.id, jobs.c.spec_json)
        .where(jobs.c.model_digest == job.model_digest, jobs.c.id != job.id)
        .order_by(jobs.c.submitted_at.desc())
        .limit(_LATEST)
    )
    asked = _work_asked(job.spec_json)
    yield from (other.id for other in others if _work_asked(other.spec_json) == asked)


def _work_asked(spec_json: str) -> tuple[object, ...]:
    spec = json.loads(spec_json)
    return (*(spec.get(name) for name in _WORK), spec.get("questions") or None)


def _latest(job_id: str) -> Select[tuple[object, ...]]:
    done = batches.c
    return (
        select(
            done.n_rows,
            done.prompt_rows,
            (done.computed_tokens + done.reused_tokens + done.output_tokens).label("tokens"),
            done.n_tokens,
            (done.prefix_s + done.prefill_s + done.decode_s).label("seconds"),
        )
        .where(done.job_id == job_id, done.state == BatchState.DONE)
        .order_by(done.finished_at.desc())
        .limit(_LATEST)
    )


def _rate(latest: Sequence[Row[tuple[object, ...]]]) -> Rate:
    return Rate(
        rows=sum(batch.n_rows for batch in latest),
        prompts=sum(len(batch.prompt_rows) if batch.prompt_rows else batch.n_rows for batch in latest),
        tokens=sum(batch.tokens for batch in latest),
        own_tokens=sum(batch.n_tokens for batch in latest),
        seconds=sum(batch.seconds for batch in latest),
    )


def _lookups(ref: str) -> Iterator[Select[tuple[object, ...]]]:
    yield select(jobs).where(jobs.c.name == ref)
    if ref == NEWEST:
        yield _newest_first().limit(1)
    yield select(jobs).where(jobs.c.id == ref)
    if ref:
        yield select(jobs).where(jobs.c.id.startswith(ref, autoescape=True))


def _newest_first() -> Select[tuple[object, ...]]:
    return select(jobs).order_by(jobs.c.submitted_at.desc(), jobs.c.name.desc())


def _results(job_id: str, status: Status | None, limit: int | None) -> Select[tuple[object, ...]]:
    query = select(*_COMPLETION).where(results.c.job_id == job_id).order_by(results.c.row_id).limit(limit)
    return query if status is None else query.where(results.c.status == status)


def _batch_sums(which: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    return (
        select(
            batches.c.job_id,
            batches.c.state,
            func.count().label("n"),
            func.min(batches.c.started_at).label("started_at"),
            func.max(batches.c.finished_at).label("finished_at"),
            *(func.sum(batches.c[name]).label(name) for name in _BATCH_SUMS),
        )
        .where(which)
        .group_by(batches.c.job_id, batches.c.state)
    )


def _shard_sums(which: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    """A row for each job, also for one that has no shards yet."""
    return (
        select(
            jobs.c.id,
            jobs.c.state,
            jobs.c.n_rows,
            *(func.coalesce(func.sum(shards.c[name]), 0).label(name) for name in _SHARD_SUMS),
            func.coalesce(func.sum(shards.c.encode_s), 0.0).label("encode_s"),
            func.coalesce(func.max(shards.c.row_to), 0).label("cut"),
        )
        .outerjoin_from(jobs, shards, shards.c.job_id == jobs.c.id)
        .where(which)
        .group_by(jobs.c.id)
    )
