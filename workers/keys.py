"""A shard's rows by their keys, for results that no worker can give: those of cancelled rows, and of deadly ones."""

from collections.abc import Iterator

from pipeline.ingest.rows import read_rows
from pipeline.spec import JobSpec
from pipeline.store.database import Database
from pipeline.store.lookup import read_job
from pipeline.store.records import ShardRecord


def keys_of(database: Database, shard: ShardRecord) -> Iterator[tuple[int, str]]:
    """(row_id, key) of each. Raises InputError or TryAgain where the shard cannot be read."""
    key = JobSpec.model_validate_json(read_job(database, shard.job_id).spec_json).key
    return ((row.row_id, row.key) for row in read_rows(shard.path, shard.row_from, columns=(), key=key))
