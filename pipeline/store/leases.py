"""Stage 6: who answers which batch, from the claim to the answers that close it."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict

from sqlalchemy import ColumnElement, Connection, Row, and_, case, or_, select, update

from pipeline.rows import BatchTiming, Completion, Status
from pipeline.store.entries import insert_results
from pipeline.store.records import BatchState, Claim, JobState
from pipeline.store.schema import batches
from pipeline.store.work import UNDER_WAY, forgive, free, hold, is_free, is_held, is_on, ran_out, take, write

#: How a row may end in a batch.
ANSWERS = frozenset({Status.OK, Status.TRUNCATED, Status.ERROR})


def claim(connection: Connection, job_id: str, owner: str, lease_s: float, now: float) -> Claim | None:
    """The lowest batch of a job that is cut."""
    free(connection, batches, and_(batches.c.job_id == job_id, ran_out(batches, now)), None)
    lowest = (
        select(batches.c.batch_no)
        .where(_open_of(job_id), is_free(batches), is_on(job_id, JobState.RUNNING))
        .order_by(batches.c.batch_no)
        .limit(1)
        .with_for_update(skip_locked=True)
        .scalar_subquery()
    )
    return _claim(connection, and_(_open_of(job_id), batches.c.batch_no == lowest), owner, lease_s, now)


def claim_named(
    connection: Connection, job_id: str, batch_no: int, owner: str, lease_s: float, now: float
) -> Claim | None:
    named = and_(batches.c.job_id == job_id, batches.c.batch_no == batch_no)
    free(connection, batches, and_(named, ran_out(batches, now)), None)
    return _claim(connection, and_(named, is_on(job_id, *UNDER_WAY)), owner, lease_s, now)


def begin(connection: Connection, claim: Claim, now: float) -> bool:
    # A holder is at one batch at a time: what it began before is answered, and must not be blamed for its death now.
    owner = select(batches.c.lease_owner).where(is_held(claim)).scalar_subquery()
    before = and_(batches.c.lease_until.is_not(None), batches.c.begun_at.is_not(None), batches.c.lease_owner == owner)
    # All in one order, as others hold them who renew the same leases.
    held = hold(connection, batches, or_(is_held(claim), before), wait=True)
    write(connection, batches, [key for key in held if key != (claim.job_id, claim.batch_no)], begun_at=None)
    begun = connection.execute(
        update(batches).where(is_held(claim), is_on(claim.job_id, *UNDER_WAY)).values(begun_at=now)
    )
    return begun.rowcount == 1


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
        .where(is_held(claim))
        .values(
            state=BatchState.DONE,
            enqueued_at=None,
            lease_until=None,
            lease_owner=None,
            worker=batches.c.lease_owner,  # as it was until now
            begun_at=None,
            n_ok=counts[Status.OK],
            n_truncated=counts[Status.TRUNCATED],
            n_error=counts[Status.ERROR],
            finished_at=now,
            device=device,
            **asdict(timing),
        )
    )
    if closed.rowcount != 1:
        forgive(connection, claim)
        return False
    insert_results(connection, claim.job_id, claim.batch_no, claim.attempts, completions, now)
    named = and_(batches.c.job_id == claim.job_id, batches.c.batch_no == claim.batch_no)
    connection.execute(update(batches).where(named).values(record_s=clock() - now))
    return True


def release(connection: Connection, job_id: str, is_dead: Callable[[str], bool], now: float) -> int:
    silent = free(connection, batches, and_(batches.c.job_id == job_id, ran_out(batches, now)), None)
    leased = and_(_open_of(job_id), batches.c.state == BatchState.LEASED)
    owners = connection.scalars(select(batches.c.lease_owner).where(leased).distinct()).all()
    dead = [owner for owner in owners if is_dead(owner)]
    gone = free(connection, batches, and_(leased, batches.c.lease_owner.in_(dead)), "gone without a word", wait=True)
    return silent + gone


def _open_of(job_id: str) -> ColumnElement[bool]:
    return and_(batches.c.job_id == job_id, batches.c.finished_at.is_(None))


def _claim(connection: Connection, which: ColumnElement[bool], owner: str, lease_s: float, now: float) -> Claim | None:
    in_queue = case((batches.c.state == BatchState.ENQUEUED, now - batches.c.enqueued_at), else_=0.0)
    row = take(
        connection, batches, which, owner, now + lease_s, now, started_at=now, queue_s=batches.c.queue_s + in_queue
    )
    return None if row is None else _record(row)


def _record(row: Row[tuple[object, ...]]) -> Claim:
    return Claim(row.job_id, row.batch_no, row.shard_no, row.row_ids, row.fence, row.attempts, row.lease_owner)


def _require_answers(claim: Claim, completions: Sequence[Completion]) -> None:
    row_ids = sorted(completion.row_id for completion in completions)
    if row_ids != sorted(claim.row_ids):
        raise ValueError(f"the completions of batch {claim.batch_no} are not its rows, each once")
    odd = {completion.status for completion in completions} - ANSWERS
    if odd:
        raise ValueError(f"a row of batch {claim.batch_no} ends as {', '.join(sorted(odd))}")
