"""Stage 6: shards and batches as work to hand out: both are pending, enqueued, then leased under a fence, which grows
with every claim, and so tells the newest holder from all older ones."""

from collections.abc import Sequence

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Row,
    Table,
    and_,
    bindparam,
    case,
    exists,
    false,
    func,
    not_,
    or_,
    select,
    update,
)

from pipeline.store.column_types import RowIds
from pipeline.store.records import BatchState, Claim, JobState, ShardClaim, ShardState
from pipeline.store.schema import batches, jobs, shards

#: A job's id, and the number of one of its shards or batches.
Key = tuple[str, int]

#: The job's states in which a fleet works on it.
UNDER_WAY = (JobState.CUTTING, JobState.RUNNING)

_FREE: dict[str, object] = {"state": BatchState.PENDING, "enqueued_at": None, "lease_until": None, "lease_owner": None}
#: Free to be handed out, by table.
FREE: dict[Table, dict[str, object]] = {shards: _FREE, batches: _FREE | {"begun_at": None}}

#: Deaths of workers after which nobody is given the work again: a batch is split then, and of a shard a person is told.
MOST_CRASHES = {shards: 3, batches: 2}
#: Holders of a batch of one prompt that fell silent, which nobody saw die: with fewer it is given out again, since a
#: machine may be cut off, frozen or switched off for reasons of its own.
MOST_SILENCES = 4


def number(table: Table) -> Column[int]:
    """What tells shards, or batches, of one job apart."""
    column: Column[int] = table.c.shard_no if table is shards else table.c.batch_no
    return column


def goes_on(*states: JobState) -> ColumnElement[bool]:
    """Jobs in one of these states that are not paused."""
    return and_(jobs.c.state.in_(states), jobs.c.paused_at.is_(None))


def is_on(job_id: str, *states: JobState) -> ColumnElement[bool]:
    """The same, of one job, for a statement about its shards or batches."""
    return exists().where(jobs.c.id == job_id, goes_on(*states))


def is_open(job_id: ColumnElement[str] | str) -> ColumnElement[bool]:
    """Whether a shard of the job is to be encoded, or a batch of it to be answered."""
    open_shard = exists().where(shards.c.job_id == job_id, shards.c.state != ShardState.ENCODED)
    open_batch = exists().where(batches.c.job_id == job_id, batches.c.finished_at.is_(None))
    return or_(open_shard, open_batch)


def ran_out(table: Table, now: float) -> ColumnElement[bool]:
    return table.c.lease_until < now


def is_free(table: Table) -> ColumnElement[bool]:
    """To be claimed, whether the broker was told of it or not."""
    return and_(table.c.state.in_([BatchState.PENDING, BatchState.ENQUEUED]), not_(is_blamed(table)))


def is_blamed(table: Table) -> ColumnElement[bool]:
    """Too many of its holders died, or fell silent, for anybody to be given it again."""
    died = table.c.crashes >= MOST_CRASHES[table]
    if table is shards:
        return died
    ended = batches.c.crashes + batches.c.silences
    many = and_(batches.c.n_rows > 1, not_(func.coalesce(RowIds.is_single(batches.c.prompt_rows), false())))
    return or_(died, batches.c.silences >= MOST_SILENCES, and_(ended >= MOST_CRASHES[table], many))


def is_held(claim: Claim | ShardClaim) -> ColumnElement[bool]:
    table, own = (batches, claim.batch_no) if isinstance(claim, Claim) else (shards, claim.shard_no)
    return and_(
        table.c.job_id == claim.job_id,
        number(table) == own,
        table.c.fence == claim.fence,
        table.c.state == BatchState.LEASED,
    )


def take(
    connection: Connection,
    table: Table,
    which: ColumnElement[bool],
    owner: str,
    lease_until: float,
    now: float,
    **more: object,
) -> Row[tuple[object, ...]] | None:
    """Lease the one that is meant, where it is free; its row then."""
    values = {
        "state": BatchState.LEASED,
        "fence": table.c.fence + 1,
        "attempts": table.c.attempts + 1,
        "enqueued_at": func.coalesce(table.c.enqueued_at, now),
        "lease_until": lease_until,
        "lease_owner": owner,
    }
    taken = update(table).where(which, is_free(table)).values(values | more).returning(table)
    return connection.execute(taken).one_or_none()


def renew(connection: Connection, claim: Claim | ShardClaim, lease_until: float) -> bool:
    table = batches if isinstance(claim, Claim) else shards
    renewed = connection.execute(update(table).where(is_held(claim)).values(lease_until=lease_until))
    return renewed.rowcount == 1


def give_back(connection: Connection, claim: Claim | ShardClaim) -> None:
    table = batches if isinstance(claim, Claim) else shards
    connection.execute(update(table).where(is_held(claim)).values(FREE[table]))


def free(
    connection: Connection, table: Table, which: ColumnElement[bool], what: str | None, *, wait: bool = False
) -> int:
    """Take leases from holders that are dead, or are taken to be; how many.

    `what` tells of their end; None where nobody saw it, and they only fell silent. What they had begun is blamed for
    it: a shard always, a batch once its model ran. With `wait`, also what another transaction has in its hands just
    now, when that one ends.
    """
    keys = hold(connection, table, which, wait=wait)
    write(connection, table, keys, **FREE[table], **_blamed(table, what))
    return len(keys)


def take_back(connection: Connection, table: Table, which: ColumnElement[bool], *, wait: bool = False) -> int:
    """What the broker was told of is pending again; how much."""
    enqueued = and_(which, table.c.state == BatchState.ENQUEUED, table.c.enqueued_at.is_not(None))
    keys = hold(connection, table, enqueued, wait=wait)
    write(connection, table, keys, **FREE[table])
    return len(keys)


def let_go(connection: Connection, table: Table, which: ColumnElement[bool]) -> int:
    """Leases end, and nobody is blamed; how many."""
    keys = hold(connection, table, and_(which, table.c.lease_until.is_not(None)), wait=True)
    write(connection, table, keys, **FREE[table])
    return len(keys)


def hold(connection: Connection, table: Table, which: ColumnElement[bool], *, wait: bool = False) -> list[Key]:
    """Until the transaction ends, and all in the same order, so that no two wait for each other."""
    order = (table.c.job_id, number(table))
    found = connection.execute(select(*order).where(which).order_by(*order).with_for_update(skip_locked=not wait))
    return [(row[0], row[1]) for row in found]


def write(connection: Connection, table: Table, keys: Sequence[Key], **values: object) -> None:
    """To all of `keys`, which the caller holds."""
    if not keys:
        return
    named = and_(table.c.job_id == bindparam("its_job"), number(table) == bindparam("its_number"))
    connection.execute(
        update(table).where(named).values(values),
        [{"its_job": job_id, "its_number": its_number} for job_id, its_number in keys],
    )


def forgive(connection: Connection, claim: Claim) -> None:
    """Its holder, which had fallen silent, is alive after all: then it was not for the batch."""
    named = and_(batches.c.job_id == claim.job_id, batches.c.batch_no == claim.batch_no)
    blamed = and_(batches.c.finished_at.is_(None), batches.c.silences > 0)
    connection.execute(update(batches).where(named, blamed).values(silences=batches.c.silences - 1))


def _blamed(table: Table, what: str | None) -> dict[str, object]:
    if table is shards:
        return {"crashes": shards.c.crashes + 1}
    begun = batches.c.begun_at.is_not(None)
    once = case((begun, 1), else_=0)
    if what is None:
        return {"silences": batches.c.silences + once}
    return {"crashes": batches.c.crashes + once, "error": case((begun, what), else_=batches.c.error)}
