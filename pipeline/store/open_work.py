"""Stage 7: what of the fleet's jobs is still to be done, and how quickly it was done lately."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlalchemy import ColumnElement, Engine, Select, and_, func, select

from pipeline.store.records import BatchState, JobState, Progress, ShardState
from pipeline.store.schema import batches, jobs, shards
from pipeline.store.transactions import reading

OPEN_SHARDS = (ShardState.PENDING, ShardState.ENQUEUED, ShardState.LEASED)
OPEN_BATCHES = (BatchState.PENDING, BatchState.ENQUEUED, BatchState.LEASED)
#: Shards that tell how quickly a job is encoded.
_LATEST = 20


@dataclass(frozen=True, slots=True)
class Amount:
    """So many shards or batches, with so many rows; own prompt tokens are known of batches alone."""

    parts: int = 0
    rows: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class OpenWork:
    """Of one job, by each state that waits or is under way."""

    shards: dict[ShardState, Amount] = field(default_factory=lambda: dict.fromkeys(OPEN_SHARDS, Amount()))
    batches: dict[BatchState, Amount] = field(default_factory=lambda: dict.fromkeys(OPEN_BATCHES, Amount()))
    begun_at: dict[int, float] = field(default_factory=dict)  #: when the batches that are being answered were begun

    @property
    def to_encode(self) -> Amount:
        return total(self.shards.values())

    @property
    def to_answer(self) -> Amount:
        """Of what is encoded."""
        return total(self.batches.values())


def open_work(engine: Engine) -> dict[str, OpenWork]:
    """By id of the job: of all that the fleet is to answer and that are not paused."""
    found: dict[str, OpenWork] = defaultdict(OpenWork)
    with reading(engine) as connection:
        for row in connection.execute(_open_shards(_of_the_fleet())):
            found[row.job_id].shards[row.state] = Amount(row.parts, int(row.rows))
        for row in connection.execute(_open_batches(_of_the_fleet())):
            found[row.job_id].batches[row.state] = Amount(row.parts, int(row.rows), int(row.tokens))
    return found


def work_of(engine: Engine, job_id: str, figures: Progress) -> OpenWork:
    """Of one job, whose batches its figures have counted already; neither their rows nor their tokens."""
    found = OpenWork(batches={state: Amount(figures.batches[state]) for state in OPEN_BATCHES})
    with reading(engine) as connection:
        for row in connection.execute(_open_shards(jobs.c.id == job_id)):
            found.shards[row.state] = Amount(row.parts, int(row.rows))
        begun = select(batches.c.batch_no, batches.c.begun_at).where(
            batches.c.job_id == job_id, batches.c.lease_until.is_not(None), batches.c.begun_at.is_not(None)
        )
        found.begun_at.update((row.batch_no, row.begun_at) for row in connection.execute(begun))
    return found


def encode_rate(engine: Engine, job_id: str) -> float | None:
    """Rows a second of one process, over the job's latest shards; None before the first."""
    latest = (
        select((shards.c.row_to - shards.c.row_from).label("rows"), shards.c.encode_s)
        .where(shards.c.job_id == job_id, shards.c.state == ShardState.ENCODED)
        .order_by(shards.c.shard_no.desc())
        .limit(_LATEST)
        .subquery()
    )
    with reading(engine) as connection:
        rows, seconds = connection.execute(select(func.sum(latest.c.rows), func.sum(latest.c.encode_s))).one()
    return float(rows) / seconds if seconds else None


def _of_the_fleet() -> ColumnElement[bool]:
    alive = jobs.c.state.in_([JobState.CUTTING, JobState.RUNNING])
    return and_(jobs.c.fleet, alive, jobs.c.paused_at.is_(None))


def _open_shards(which: ColumnElement[bool]) -> Select[tuple[object, ...]]:
    rows = func.sum(shards.c.row_to - shards.c.row_from)
    return (
        select(shards.c.job_id, shards.c.state, func.count().label("parts"), rows.label("rows"))
        .join(jobs, jobs.c.id == shards.c.job_id)
        .where(which, shards.c.state != ShardState.ENCODED)
        .group_by(shards.c.job_id, shards.c.state)
    )


def _open_batches(which: ColumnElement[bool]) -> Select[tuple[object, ...]]:
    return (
        select(
            batches.c.job_id,
            batches.c.state,
            func.count().label("parts"),
            func.sum(batches.c.n_rows).label("rows"),
            func.sum(batches.c.n_tokens).label("tokens"),
        )
        .join(jobs, jobs.c.id == batches.c.job_id)
        .where(which, batches.c.finished_at.is_(None))
        .group_by(batches.c.job_id, batches.c.state)
    )


def total(amounts: Iterable[Amount]) -> Amount:
    every = list(amounts)
    return Amount(
        sum(amount.parts for amount in every),
        sum(amount.rows for amount in every),
        sum(amount.tokens for amount in every),
    )
