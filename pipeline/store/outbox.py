"""Stage 4: the ledger as the fleet's outbox: what of its jobs the broker is to be told of, was told of, or missed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, func, or_, select, tuple_

from pipeline.store.records import BatchState, Bell, ShardState
from pipeline.store.schema import batches, jobs, shards
from pipeline.store.turns import Waiting
from pipeline.store.work import UNDER_WAY, Key, goes_on, is_blamed, is_free, number

#: Work of one job that is read at once.
_PAGE = 64

#: Of those batches which wait.
MOST_COUNTED = 10_000

_IS_READY = and_(jobs.c.fleet, goes_on(*UNDER_WAY))
_READY = select(jobs.c.id).where(_IS_READY)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What of the fleet's jobs is still to be done; of paused ones, only what is enqueued or leased."""

    shards_pending: int = 0
    shards_enqueued: int = 0
    shards_leased: int = 0
    batches_pending: int = 0  #: no more than MOST_COUNTED, as there may be very many
    batches_enqueued: int = 0
    batches_leased: int = 0


def backlog(connection: Connection) -> Backlog:
    by_state = [
        *((f"shards_{state.value}", n) for state, n in connection.execute(_open_shards())),
        *((f"batches_{state.value}", n) for state, n in connection.execute(_batches_in_flight())),
    ]
    of_ready = select(batches.c.batch_no).where(batches.c.job_id.in_(_READY))
    in_flight = _count(connection, of_ready.where(batches.c.enqueued_at.is_not(None)))
    is_open = of_ready.where(batches.c.finished_at.is_(None)).limit(in_flight + MOST_COUNTED)
    return Backlog(**dict(by_state), batches_pending=_count(connection, is_open) - in_flight)


def waiting(connection: Connection, table: Table) -> list[Waiting]:
    """The jobs that may take their turn, whether or not they have shards, or batches, to hand out."""
    found = connection.execute(
        select(jobs.c.id, jobs.c.priority, jobs.c.submitted_at, func.count(table.c.job_id))
        .outerjoin(table, and_(table.c.job_id == jobs.c.id, table.c.enqueued_at.is_not(None)))
        .where(_IS_READY)
        .group_by(jobs.c.id, jobs.c.priority, jobs.c.submitted_at)
    )
    return [Waiting(*row) for row in found]


def pending_batches(connection: Connection, job_id: str) -> Iterator[Bell]:
    """The lowest first, read and held as they are asked for, less those that another transaction holds."""
    after = -1
    while page := connection.execute(
        select(batches.c.batch_no, batches.c.shard_no, batches.c.part, shards.c.tokens)
        .join(shards, and_(shards.c.job_id == batches.c.job_id, shards.c.shard_no == batches.c.shard_no))
        .where(batches.c.job_id == job_id, batches.c.finished_at.is_(None), batches.c.batch_no > after)
        .where(batches.c.state == BatchState.PENDING, is_free(batches))
        .order_by(batches.c.batch_no)
        .limit(_PAGE)
        .with_for_update(of=batches, skip_locked=True)
    ).all():
        yield from (Bell(job_id, *row) for row in page)
        after = page[-1].batch_no


def pending_shards(connection: Connection, job_id: str) -> Iterator[Key]:
    """The same for shards."""
    after = -1
    while page := connection.scalars(
        select(shards.c.shard_no)
        .where(shards.c.job_id == job_id, shards.c.shard_no > after)
        .where(shards.c.state == ShardState.PENDING, is_free(shards))
        .order_by(shards.c.shard_no)
        .limit(_PAGE)
        .with_for_update(skip_locked=True)
    ).all():
        yield from ((job_id, shard_no) for shard_no in page)
        after = page[-1]


def is_short(connection: Connection, job_id: str, ahead: int) -> bool:
    """Whether fewer batches of the job than that wait to be enqueued."""
    waiting = select(batches.c.batch_no).where(
        batches.c.job_id == job_id, batches.c.finished_at.is_(None), batches.c.state == BatchState.PENDING
    )
    return _count(connection, waiting.limit(ahead)) < ahead


def token_files(connection: Connection, job_ids: Sequence[str]) -> list[tuple[str, int]]:
    """Where the prompts of each shard of these jobs lie, and the fence of the last attempt to write them."""
    found = select(shards.c.tokens, shards.c.fence).where(shards.c.job_id.in_(job_ids), shards.c.tokens.is_not(None))
    return [(row.tokens, row.fence) for row in connection.execute(found)]


def named(table: Table, keys: Sequence[Key]) -> ColumnElement[bool]:
    return tuple_(table.c.job_id, number(table)).in_(keys)


def of_fleet(table: Table) -> ColumnElement[bool]:
    return table.c.job_id.in_(select(jobs.c.id).where(jobs.c.fleet, jobs.c.state.in_(UNDER_WAY)))


def stuck_jobs(connection: Connection) -> dict[str, str]:
    """Jobs that cannot go on since a shard of theirs is given to nobody any more, and why that is."""
    found = connection.execute(
        select(shards.c.job_id, shards.c.shard_no, shards.c.row_from, shards.c.row_to, shards.c.crashes)
        .join(jobs, jobs.c.id == shards.c.job_id)
        .where(_IS_READY, shards.c.state == ShardState.PENDING, is_blamed(shards))
    )
    return {
        shard.job_id: (
            f"Each process that was to encode the {shard.row_to - shard.row_from} rows of shard {shard.shard_no} died "
            f"or fell silent, {shard.crashes} in a row. Look whether a text among them is very large, and whether the "
            "tokenizer workers have memory for it."
        )
        for shard in found
    }


def _count(connection: Connection, query: Select[int]) -> int:
    return connection.execute(select(func.count()).select_from(query.subquery())).scalar_one()


def _open_shards() -> Select[ShardState, int]:
    is_wanted = or_(shards.c.state != ShardState.PENDING, jobs.c.paused_at.is_(None))
    return (
        select(shards.c.state, func.count())
        .join(jobs, jobs.c.id == shards.c.job_id)
        .where(jobs.c.fleet, jobs.c.state.in_(UNDER_WAY), shards.c.state != ShardState.ENCODED, is_wanted)
        .group_by(shards.c.state)
    )


def _batches_in_flight() -> Select[BatchState, int]:
    return (
        select(batches.c.state, func.count())
        .where(of_fleet(batches), batches.c.enqueued_at.is_not(None))
        .group_by(batches.c.state)
    )
