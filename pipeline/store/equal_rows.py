"""Stage 6: rows of several shards with the same prompt. The first of them that is encoded leads: it is answered. Those
that are encoded while its answer is on its way follow it: they get that answer once it is there."""

import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from sqlalchemy import Connection, Row, and_, bindparam, delete, exists, insert, or_, select, update

from pipeline.rows import Completion, Follower, Status
from pipeline.store.entries import NewBatch, hold_job, insert_batches, insert_results
from pipeline.store.records import ShardState
from pipeline.store.schema import batches, followers, jobs, results, shards
from pipeline.store.work import UNDER_WAY, is_open

#: Followers that are settled in one transaction.
_AT_ONCE = 1024
#: And leaders: SQLite's older versions take 999 values in a statement.
_LEADERS_AT_ONCE = 400
#: A prompt's hash (pipeline/identity.py), and the row that leads those of that prompt.
_LEADER = struct.Struct("<16sQ")
_ANSWERED = (Status.OK, Status.TRUNCATED)
_COMPLETION = [results.c[field.name] for field in fields(Completion)]

_Follower = Row[tuple[Any, ...]]


def lead(connection: Connection, job_id: str, shard_no: int, row_ids: Mapping[bytes, int]) -> dict[bytes, int]:
    """The leaders, by hash, of those prompts that another shard leads; the shard's own `row_ids` lead the others.

    A shard is remembered until all its batches are closed: the job's answers have the hashes from then on. The job is
    held, so that no two shards lead the same prompt.
    """
    hold_job(connection, job_id)
    _forget_closed(connection, job_id)
    others = connection.scalars(
        select(shards.c.leaders).where(
            shards.c.job_id == job_id, shards.c.shard_no != shard_no, shards.c.leaders.is_not(None)
        )
    )
    found = {
        prompt_hash: row_id
        for leaders in others
        for prompt_hash, row_id in _LEADER.iter_unpack(leaders)
        if prompt_hash in row_ids
    }
    own = b"".join(_LEADER.pack(*pair) for pair in row_ids.items() if pair[0] not in found)
    here = and_(shards.c.job_id == job_id, shards.c.shard_no == shard_no)
    connection.execute(update(shards).where(here).values(leaders=own))
    return found


def follow(connection: Connection, job_id: str, shard_no: int, rows: Sequence[Follower]) -> None:
    """The caller holds the job."""
    if rows:
        here = {"job_id": job_id, "shard_no": shard_no}
        connection.execute(insert(followers), [here | asdict(row) for row in rows])


def waiting_jobs(connection: Connection) -> list[str]:
    """The fleet's jobs that have followers."""
    has_some = exists().where(followers.c.job_id == jobs.c.id)
    return list(connection.scalars(select(jobs.c.id).where(jobs.c.fleet, jobs.c.state.in_(UNDER_WAY), has_some)))


def settle(connection: Connection, job_id: str, now: float) -> int:
    """Of followers whose leaders have ended, so many at most: they have the same answer, or, after an error, are to be
    answered by themselves. How many they were."""
    if hold_job(connection, job_id).state not in UNDER_WAY:
        return 0
    ready = _ready(connection, job_id)
    _copy(connection, job_id, [(row, status) for row, status in ready if status in _ANSWERED], now)
    alone = defaultdict[tuple[int, int], list[int]](list)
    for row, status in ready:
        if status not in _ANSWERED:
            alone[row.shard_no, row.leader].append(row.row_id)
    insert_batches(connection, job_id, [NewBatch(shard_no, tuple(its)) for (shard_no, _), its in alone.items()], now)
    if ready:
        named = and_(followers.c.leader == bindparam("its_leader"), followers.c.row_id == bindparam("its_row"))
        gone = [{"its_leader": row.leader, "its_row": row.row_id} for row, _ in ready]
        connection.execute(delete(followers).where(followers.c.job_id == job_id, named), gone)
    return len(ready)


def _forget_closed(connection: Connection, job_id: str) -> None:
    its_open_batch = exists().where(
        batches.c.job_id == job_id, batches.c.shard_no == shards.c.shard_no, batches.c.finished_at.is_(None)
    )
    closed = and_(shards.c.leaders.is_not(None), shards.c.state == ShardState.ENCODED, ~its_open_batch)
    connection.execute(update(shards).where(shards.c.job_id == job_id, closed).values(leaders=None))


def _ready(connection: Connection, job_id: str) -> list[tuple[_Follower, Status | None]]:
    """Each with the status of its leader. Where nothing of the job is under way any more, no leader is waited for."""
    mine = followers.c.job_id == job_id
    leader = select(followers.c.leader).where(mine).distinct().subquery().c.leader
    # Asked leader by leader, for a join might read all of the job's results.
    status = select(results.c.status).where(results.c.job_id == job_id, results.c.row_id == leader).scalar_subquery()
    has_ended = or_(status.is_not(None), ~is_open(job_id))
    some = select(leader, status.label("status")).where(has_ended).order_by(leader).limit(_LEADERS_AT_ONCE)
    ended = {row.leader: row.status for row in connection.execute(some)}
    named = select(followers).where(mine, followers.c.leader.in_(ended)).limit(_AT_ONCE)
    return [(row, ended[row.leader]) for row in connection.execute(named)]


def _copy(connection: Connection, job_id: str, rows: Sequence[tuple[_Follower, Status | None]], now: float) -> None:
    answers = _answers(connection, job_id, sorted({row.leader for row, _ in rows}))
    copies, tokens = [], defaultdict[tuple[int, Status | None], list[int]](list)
    for row, status in rows:
        answer, own = answers[row.leader], {"row_id": row.row_id, "key": row.key, "cut_tokens": row.cut_tokens}
        copies.append(replace(answer, **own, reused_tokens=answer.prompt_tokens, prompt_hash=None))
        tokens[row.shard_no, status].append(answer.prompt_tokens)
    insert_results(connection, job_id, None, 1, copies, now)
    for (shard_no, status), reused in tokens.items():
        column = shards.c.n_ok if status is Status.OK else shards.c.n_truncated
        here = and_(shards.c.job_id == job_id, shards.c.shard_no == shard_no)
        sums = {column: column + len(reused), shards.c.reused_tokens: shards.c.reused_tokens + sum(reused)}
        connection.execute(update(shards).where(here).values(sums))


def _answers(connection: Connection, job_id: str, row_ids: Sequence[int]) -> dict[int, Completion]:
    rows = connection.execute(select(*_COMPLETION).where(results.c.job_id == job_id, results.c.row_id.in_(row_ids)))
    return {row.row_id: Completion(**row._mapping) for row in rows}
