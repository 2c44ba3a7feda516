"""A shard's rows by their keys, for results that no worker can give: those of cancelled rows, and of deadly ones."""

from collections.abc import Iterator

from pipeline.ingest.rows import read_rows
from pipeline.spec import JobSpec
from pipeline.store.database import Database
from pipeline.store.lookup import read_job
from pipeline.store.records import ShardRecord


def keys_of(database: Database, shard: ShardRecord) -> Iterator[tuple[int, str]]:
    """(row_id, key) of each. Raises InputError or TryAgain where the shard cannot be read."""
    job = read_job(database, shard.job_id)
    key, count = JobSpec.model_validate_json(job.spec_json).key, job.n_questions
    rows = read_rows(shard.path, shard.row_from // count, columns=(), key=key)
    return ((row.row_id * count + place, row.key) for row in rows for place in range(count))
