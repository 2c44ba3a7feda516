"""Stage 6: who answers which batch. A fence that grows with every claim tells the newest holder from all older ones."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict

from sqlalchemy import ColumnElement, Connection, and_, or_, select, update

from pipeline.rows import BatchTiming, Completion, Status
from pipeline.store.entries import insert_results
from pipeline.store.records import BatchState, Claim, JobState
from pipeline.store.schema import batches, jobs

#: How a row may end in a batch.
ANSWERS = frozenset({Status.OK, Status.TRUNCATED, Status.ERROR})


def claim(connection: Connection, job_id: str, owner: str, lease_s: float, now: float) -> Claim | None:
    running = select(jobs.c.state).where(jobs.c.id == job_id).scalar_subquery() == JobState.RUNNING
    lowest = (
        select(batches.c.batch_no)
        .where(batches.c.job_id == job_id, _claimable(now), running)
        .order_by(batches.c.batch_no)
        .limit(1)
        .with_for_update(skip_locked=True)
        .scalar_subquery()
    )
    row = connection.execute(
        update(batches)
        .where(batches.c.job_id == job_id, batches.c.batch_no == lowest)
        .values(
            state=BatchState.LEASED,
            fence=batches.c.fence + 1,
            attempts=batches.c.attempts + 1,
            lease_until=now + lease_s,
            lease_owner=owner,
            started_at=now,
        )
        .returning(batches.c.batch_no, batches.c.shard_no, batches.c.row_ids, batches.c.fence, batches.c.attempts)
    ).one_or_none()
    return None if row is None else Claim(job_id=job_id, **row._mapping)


def renew(connection: Connection, claim: Claim, lease_until: float) -> bool:
    renewed = connection.execute(update(batches).where(_held(claim)).values(lease_until=lease_until))
    return renewed.rowcount == 1


def give_back(connection: Connection, claim: Claim) -> None:
    connection.execute(update(batches).where(_held(claim)).values(_FREE))


def finish(
    connection: Connection,
    claim: Claim,
    completions: Sequence[Completion],
    timing: BatchTiming,
    device: str,
    clock: Callable[[], float],
) -> bool:
    _require_answers(claim, completions)
    counts = Counter(completion.status for completion in completions)
    now = clock()
    closed = connection.execute(
        update(batches)
        .where(_held(claim))
        .values(
            state=BatchState.DONE,
            lease_until=None,
            lease_owner=None,
            n_ok=counts[Status.OK],
            n_truncated=counts[Status.TRUNCATED],
            n_error=counts[Status.ERROR],
            finished_at=now,
            device=device,
            **asdict(timing),
        )
    )
    if closed.rowcount != 1:
        return False
    insert_results(connection, claim.job_id, claim.batch_no, claim.attempts, completions, now)
    connection.execute(update(batches).where(_named(claim)).values(record_s=clock() - now))
    return True


def release(connection: Connection, job_id: str, is_dead: Callable[[str], bool], now: float) -> int:
    leased = (batches.c.job_id == job_id) & _open_in(BatchState.LEASED)
    owners = connection.scalars(select(batches.c.lease_owner).where(leased).distinct()).all()
    dead = [owner for owner in owners if is_dead(owner)]
    over = or_(batches.c.lease_until < now, batches.c.lease_owner.in_(dead))
    return connection.execute(update(batches).where(leased, over).values(_FREE)).rowcount


_FREE = {"state": BatchState.PENDING, "lease_until": None, "lease_owner": None}


def _open_in(*states: BatchState) -> ColumnElement[bool]:
    return and_(batches.c.finished_at.is_(None), batches.c.state.in_(states))


def _claimable(now: float) -> ColumnElement[bool]:
    free = batches.c.state.in_([BatchState.PENDING, BatchState.ENQUEUED])
    abandoned = and_(batches.c.state == BatchState.LEASED, batches.c.lease_until < now)
    return and_(batches.c.finished_at.is_(None), or_(free, abandoned))


def _named(claim: Claim) -> ColumnElement[bool]:
    return and_(batches.c.job_id == claim.job_id, batches.c.batch_no == claim.batch_no)


def _held(claim: Claim) -> ColumnElement[bool]:
    return and_(_named(claim), batches.c.fence == claim.fence, batches.c.state == BatchState.LEASED)


def _require_answers(claim: Claim, completions: Sequence[Completion]) -> None:
    row_ids = sorted(completion.row_id for completion in completions)
    if row_ids != sorted(claim.row_ids):
        raise ValueError(f"the completions of batch {claim.batch_no} are not its rows, each once")
    odd = {completion.status for completion in completions} - ANSWERS
    if odd:
        raise ValueError(f"a row of batch {claim.batch_no} ends as {', '.join(sorted(odd))}")
