"""Stage 6: shards, who encodes which, and what that leaves behind: batches to answer, and rows that cannot be."""

from collections.abc import Sequence
from typing import TypedDict

from sqlalchemy import ColumnElement, Connection, and_, insert, select, update

from pipeline.buckets import PlannedBatch
from pipeline.errors import RefusedError
from pipeline.rows import Completion, Follower, Status
from pipeline.store import equal_rows
from pipeline.store.entries import SHARD, NewBatch, hold_job, insert_batches, insert_results, row_ids_of, shard_record
from pipeline.store.records import JobState, ShardClaim, ShardRecord, ShardState
from pipeline.store.schema import pages, shards
from pipeline.store.work import FREE, UNDER_WAY, free, is_on, ran_out, take


class Counts(TypedDict, total=False):
    """Of a shard, besides its rows."""

    n_cut: int  #: rows whose text was cut
    n_neutralised: int  #: rows whose text held special tokens
    prompt_tokens: int
    planned_tokens: int  #: of these, those that are to be computed


def add_page(connection: Connection, job_id: str, page_no: int, path: str, row_from: int, row_to: int) -> None:
    _require_cutting(connection, job_id)
    page = {"job_id": job_id, "page_no": page_no, "path": path, "row_from": row_from, "row_to": row_to}
    connection.execute(insert(pages).values(page))


def add_shard(
    connection: Connection,
    job_id: str,
    shard_no: int,
    path: str,
    row_from: int,
    row_to: int,
    row_ids: Sequence[int] | None,
    cut_s: float,
    now: float,
) -> None:
    _require_cutting(connection, job_id)
    connection.execute(
        insert(shards).values(
            job_id=job_id,
            shard_no=shard_no,
            path=path,
            row_from=row_from,
            row_to=row_to,
            state=ShardState.PENDING,
            encode_s=0.0,
            n_error=0,
            row_ids=row_ids,
            cut_at=now,
            cut_s=cut_s,
        )
    )


def next_unencoded(connection: Connection, job_id: str) -> ShardRecord | None:
    row = connection.execute(
        select(*SHARD)
        .where(shards.c.job_id == job_id, shards.c.state == ShardState.PENDING, is_on(job_id, *UNDER_WAY))
        .order_by(shards.c.shard_no)
        .limit(1)
    ).one_or_none()
    return None if row is None else shard_record(row)


def claim(
    connection: Connection, job_id: str, shard_no: int, owner: str, lease_s: float, now: float
) -> ShardClaim | None:
    named = _named(job_id, shard_no)
    free(connection, shards, and_(named, ran_out(shards, now)), None)
    row = take(connection, shards, and_(named, is_on(job_id, *UNDER_WAY)), owner, now + lease_s, now)
    return None if row is None else ShardClaim(job_id, shard_no, row.fence, row.attempts)


def record(
    connection: Connection,
    job_id: str,
    shard_no: int,
    planned: Sequence[PlannedBatch],
    failures: Sequence[Completion],
    copies: Sequence[Completion],
    followers: Sequence[Follower],
    encode_s: float,
    tokens: str | None,
    counts: Counts,
    now: float,
) -> list[int]:
    if hold_job(connection, job_id).state is JobState.CANCELLED:
        return []
    here = _named(job_id, shard_no)
    shard = connection.execute(select(shards).where(here)).one()
    if shard.state is ShardState.ENCODED:
        return []
    _require_whole(shard_no, row_ids_of(shard), planned, failures, copies, followers)
    n_ok = sum(copy.status is Status.OK for copy in copies)
    ended = {"n_error": len(failures), "n_ok": n_ok, "n_truncated": len(copies) - n_ok}
    ended["reused_tokens"] = sum(copy.reused_tokens for copy in copies)
    encoded = {"state": ShardState.ENCODED, "encode_s": encode_s, "encoded_at": now, "tokens": tokens, **ended}
    connection.execute(update(shards).where(here).values(FREE[shards] | encoded | {**counts}))
    insert_results(connection, job_id, None, 1, [*failures, *copies], now)
    equal_rows.follow(connection, job_id, shard_no, followers)
    new = [
        NewBatch(
            shard_no,
            batch.row_ids,
            batch.n_tokens,
            part=None if tokens is None else part,
            prompt_rows=batch.prompt_rows,
        )
        for part, batch in enumerate(planned)
    ]
    return insert_batches(connection, job_id, new, now)


def _require_cutting(connection: Connection, job_id: str) -> None:
    job = hold_job(connection, job_id)
    if job.state is not JobState.CUTTING:
        raise RefusedError(f'Job "{job.name}" is not being cut any more: it was cancelled, or another run cut it.')


def _named(job_id: str, shard_no: int) -> ColumnElement[bool]:
    return and_(shards.c.job_id == job_id, shards.c.shard_no == shard_no)


def _require_whole(
    shard_no: int,
    expected: Sequence[int],
    planned: Sequence[PlannedBatch],
    failures: Sequence[Completion],
    copies: Sequence[Completion],
    followers: Sequence[Follower],
) -> None:
    row_ids = [row_id for batch in planned for row_id in batch.row_ids]
    row_ids += [ended.row_id for ended in (*failures, *copies)]
    row_ids += [follower.row_id for follower in followers]
    if sorted(row_ids) != sorted(expected):
        raise ValueError(f"the batches, failures, copies and followers of shard {shard_no} are not its rows, each once")
    if any(failure.status is not Status.ERROR for failure in failures):
        raise ValueError(f"a failure of shard {shard_no} has another status than error")
    if any(copy.status not in (Status.OK, Status.TRUNCATED) for copy in copies):
        raise ValueError(f"a copy of shard {shard_no} is no answer")
