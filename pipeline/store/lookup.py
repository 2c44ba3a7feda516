"""Stages 2 and 5: what a fleet's workers ask for by id or number."""

from sqlalchemy import Engine, select

from pipeline.errors import NotFoundError
from pipeline.store.entries import SHARD, job_record, shard_record
from pipeline.store.records import JobRecord, ShardRecord
from pipeline.store.schema import jobs, shards
from pipeline.store.transactions import reading


def read_job(engine: Engine, job_id: str) -> JobRecord:
    """Raises NotFoundError for a job that was discarded meanwhile."""
    with reading(engine) as connection:
        row = connection.execute(select(jobs).where(jobs.c.id == job_id)).one_or_none()
    if row is None:
        raise NotFoundError(f"There is no job {job_id}.")
    return job_record(row)


def find_shard(engine: Engine, job_id: str, shard_no: int) -> ShardRecord:
    """Raises NotFoundError."""
    query = select(*SHARD).where(shards.c.job_id == job_id, shards.c.shard_no == shard_no)
    with reading(engine) as connection:
        row = connection.execute(query).one_or_none()
    if row is None:
        raise NotFoundError(f"There is no shard {shard_no} of job {job_id}.")
    return shard_record(row)
