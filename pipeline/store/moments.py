"""Stage 7: when what happened to a batch, from its job's submission on, for whoever draws its way."""

from dataclasses import dataclass

from sqlalchemy import Connection, Engine, and_, select

from pipeline.store.records import BatchState
from pipeline.store.schema import batches, jobs, shards
from pipeline.store.transactions import reading


@dataclass(frozen=True, slots=True)
class Moments:
    """All by the clock of the ledger. Of a shard that an older version cut or encoded, these two are not known."""

    job: str  #: its name
    submitted_at: float
    shard_rows: int
    prompt_tokens: int  #: of all rows of the shard
    cut_at: float | None  #: when the shard was there
    cut_s: float
    encoded_at: float | None  #: when the shard's batches were there
    encode_s: float
    fence: int
    crashes: int  #: of workers that had begun it, those that were heard no more of among them
    created_at: float  #: when the batch was there: with its shard's others, or later, where rows are answered again
    enqueued_at: float | None  #: of a leased batch; without a broker, when it was claimed
    claimed_at: float | None  #: the last time
    half_of: int | None  #: the batch that killed its workers and was halved into this one and another


def moments(engine: Engine, job_id: str, batch_no: int) -> Moments | None:
    """None where the batch is gone."""
    shard, batch = shards.c, batches.c
    query = (
        select(
            jobs.c.name.label("job"),
            jobs.c.submitted_at,
            (shard.row_to - shard.row_from).label("shard_rows"),
            shard.prompt_tokens,
            shard.cut_at,
            shard.cut_s,
            shard.encoded_at,
            shard.encode_s,
            batch.fence,
            (batch.crashes + batch.silences).label("crashes"),
            batch.created_at,
            batch.enqueued_at,
            batch.started_at.label("claimed_at"),
        )
        .join_from(batches, shards, and_(shard.job_id == batch.job_id, shard.shard_no == batch.shard_no))
        .join(jobs, jobs.c.id == batch.job_id)
        .where(batch.job_id == job_id, batch.batch_no == batch_no)
    )
    with reading(engine) as connection:
        row = connection.execute(query).one_or_none()
        if row is None:
            return None
        # Halves take the blame with them; to look for whose they are costs a walk over the job's batches.
        half_of = _whole(connection, job_id, row.created_at) if row.crashes else None
        return Moments(**row._mapping, half_of=half_of)


def _whole(connection: Connection, job_id: str, created_at: float) -> int | None:
    """Halves are made in the transaction that closes what they are halves of, and at its moment."""
    split = and_(batches.c.job_id == job_id, batches.c.state == BatchState.SPLIT, batches.c.finished_at == created_at)
    return connection.scalar(select(batches.c.batch_no).where(split).limit(1))
