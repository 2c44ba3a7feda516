"""Stage 6: the tables, described in this one place. `batches` is the queue of record; `results` holds the answers.

A row's way through them: its shard is pending, then encoded, which puts the row into a batch; the batch is pending,
leased under a fence, then done, and in the transaction that closes it the row gets its one result.
"""

import struct
from collections.abc import Sequence
from enum import StrEnum

from sqlalchemy import (
    BigInteger,
    Column,
    Dialect,
    Double,
    Enum,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
)

from pipeline.rows import Sample, Status, TokenLogprob
from pipeline.store import nested
from pipeline.store.records import BatchState, JobState, ShardState

#: The newest migration. A database that carries it needs no look at the migrations.
SCHEMA_VERSION = "0002"

metadata = MetaData()


class RowIds(TypeDecorator[tuple[int, ...]]):
    """Row ids as little-endian uint64, end to end."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Sequence[int] | None, dialect: Dialect) -> bytes | None:
        return None if value is None else struct.pack(f"<{len(value)}Q", *value)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> tuple[int, ...] | None:
        return None if value is None else struct.unpack(f"<{len(value) // 8}Q", value)


class Samples(TypeDecorator[tuple[Sample, ...]]):
    """As JSON text; NULL where there are none."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: tuple[Sample, ...] | None, dialect: Dialect) -> str | None:
        return nested.to_json(value or ())

    def process_result_value(self, value: str | None, dialect: Dialect) -> tuple[Sample, ...]:
        return nested.samples(value)


class Logprobs(TypeDecorator[tuple[TokenLogprob, ...]]):
    """As JSON text; NULL where there are none."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: tuple[TokenLogprob, ...] | None, dialect: Dialect) -> str | None:
        return nested.to_json(value or ())

    def process_result_value(self, value: str | None, dialect: Dialect) -> tuple[TokenLogprob, ...]:
        return nested.logprobs(value)


def _word(words: type[StrEnum]) -> Enum:
    """The enum's values as plain text, so that a new state needs no migration."""
    return Enum(words, native_enum=False, length=16, values_callable=lambda kind: [word.value for word in kind])


jobs = Table(
    "jobs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("spec_json", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("model_digest", Text, nullable=False),
    Column("input_digest", Text, nullable=False),
    Column("state", _word(JobState), nullable=False),
    Column("n_rows", BigInteger),
    Column("submitted_at", Double, nullable=False),
    Column("finished_at", Double),
    Column("error", Text),
)

shards = Table(
    "shards",
    metadata,
    Column("job_id", Text, ForeignKey("jobs.id"), primary_key=True),
    Column("shard_no", Integer, primary_key=True),
    Column("path", Text, nullable=False),
    Column("row_from", BigInteger, nullable=False),
    Column("row_to", BigInteger, nullable=False),
    Column("state", _word(ShardState), nullable=False),
    Column("encode_s", Double, nullable=False),
    Column("n_error", Integer, nullable=False),
)

batches = Table(
    "batches",
    metadata,
    Column("job_id", Text, ForeignKey("jobs.id"), primary_key=True),
    Column("batch_no", Integer, primary_key=True),
    Column("shard_no", Integer, nullable=False),
    Column("n_rows", Integer, nullable=False),
    Column("n_tokens", BigInteger, nullable=False),
    Column("state", _word(BatchState), nullable=False),
    Column("fence", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("lease_until", Double),
    Column("lease_owner", Text),
    Column("n_ok", Integer, nullable=False),
    Column("n_truncated", Integer, nullable=False),
    Column("n_error", Integer, nullable=False),
    Column("computed_tokens", BigInteger, nullable=False),
    Column("reused_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("encode_s", Double, nullable=False),
    Column("prefix_s", Double, nullable=False),
    Column("prefill_s", Double, nullable=False),
    Column("decode_s", Double, nullable=False),
    Column("detokenize_s", Double, nullable=False),
    Column("record_s", Double, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("started_at", Double),
    Column("finished_at", Double),
    Column("device", Text),
    Column("row_ids", RowIds, nullable=False),
    ForeignKeyConstraint(["job_id", "shard_no"], ["shards.job_id", "shards.shard_no"]),
)

# Open batches are the ones without a finished_at; a test of null, unlike one of a bound state, lets both databases
# use the index, so that a claim does not walk over a job's finished batches.
Index(
    "batches_open",
    batches.c.job_id,
    batches.c.batch_no,
    sqlite_where=batches.c.finished_at.is_(None),
    postgresql_where=batches.c.finished_at.is_(None),
)

results = Table(
    "results",
    metadata,
    Column("job_id", Text, ForeignKey("jobs.id"), primary_key=True),
    Column("row_id", BigInteger, primary_key=True, autoincrement=False),
    Column("key", Text, nullable=False),
    Column("status", _word(Status), nullable=False),
    Column("output", Text),
    Column("label", Text),
    Column("score", Double),
    Column("parsed", Text),
    Column("finish_reason", Text),
    Column("error_type", Text),
    Column("error", Text),
    Column("prompt_tokens", Integer, nullable=False),
    Column("reused_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("batch_no", Integer),
    Column("created_at", Double, nullable=False),
    Column("samples", Samples),
    Column("logprobs", Logprobs),
)
