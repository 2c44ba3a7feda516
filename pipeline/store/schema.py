"""Stage 6: the tables, described in this one place. `batches` is the queue of record; `results` holds the answers.

A row's way through them: its shard is pending, then encoded, which puts the row into a batch; the batch is pending,
leased under a fence, then done, and in the transaction that closes it the row gets its one result. A row whose answer
is on its way to a row of another shard is in `followers` instead (equal_rows.py). A fleet's broker is told of shards
and batches in between: those are enqueued. They and leased ones have an `enqueued_at`, leased ones a `lease_until`.

Where a job has several questions, each question of a row of the input is a row in all of these tables (rows.Questions).
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    UniqueConstraint,
    and_,
    false,
    literal_column,
    text,
)

from pipeline.rows import Status
from pipeline.store.column_types import AnyText, Embedding, Labels, Logprobs, RowIds, Samples, Scores, word
from pipeline.store.records import BatchState, JobState, Role, ShardState, WorkerState
from pipeline.store.schedule_records import Event, NoticeState, Overlap, RunState

#: The newest migration. A database that carries it needs no look at the migrations.
SCHEMA_VERSION = "0014"

metadata = MetaData()

jobs = Table(
    "jobs",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("name", AnyText, nullable=False, unique=True),
    Column("spec_json", AnyText, nullable=False),
    Column("fingerprint", AnyText, nullable=False),
    Column("model_digest", AnyText, nullable=False),
    Column("input_digest", AnyText, nullable=False),
    Column("state", word(JobState), nullable=False),
    Column("n_rows", BigInteger),
    Column("submitted_at", Double, nullable=False),
    Column("finished_at", Double),
    Column("error", AnyText),
    Column("fleet", Boolean, nullable=False, server_default=false()),
    Column("priority", Integer, nullable=False, server_default=text("0")),
    Column("paused_at", Double),
    Column("context", Integer),
    Column("tokenizer", AnyText),
    Column("utc_offset_s", Integer),
    Column("questions", Labels()),
    Column("sorts_rows", Boolean),
    Column("shards_purged_at", Double),
    Column("results_purged_at", Double),
    Column("predicted_reuse", Double),
)

#: Of a job whose rows are sorted into shards: the whole rows as they were before, in the order of the input.
pages = Table(
    "pages",
    metadata,
    Column("job_id", AnyText, ForeignKey("jobs.id"), primary_key=True),
    Column("page_no", Integer, primary_key=True),
    Column("path", AnyText, nullable=False),
    Column("row_from", BigInteger, nullable=False),
    Column("row_to", BigInteger, nullable=False),
)

shards = Table(
    "shards",
    metadata,
    Column("job_id", AnyText, ForeignKey("jobs.id"), primary_key=True),
    Column("shard_no", Integer, primary_key=True),
    Column("path", AnyText, nullable=False),
    Column("row_from", BigInteger, nullable=False),
    Column("row_to", BigInteger, nullable=False),
    Column("state", word(ShardState), nullable=False),
    Column("encode_s", Double, nullable=False),
    Column("n_error", Integer, nullable=False),
    Column("fence", Integer, nullable=False, server_default=text("0")),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("crashes", Integer, nullable=False, server_default=text("0")),
    Column("tokens", AnyText),
    Column("enqueued_at", Double),
    Column("lease_until", Double),
    Column("lease_owner", AnyText),
    Column("n_cut", Integer, nullable=False, server_default=text("0")),
    Column("n_neutralised", Integer, nullable=False, server_default=text("0")),
    Column("n_ok", Integer, nullable=False, server_default=text("0")),
    Column("n_truncated", Integer, nullable=False, server_default=text("0")),
    Column("prompt_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("planned_tokens", BigInteger, nullable=False, server_default=text("0")),
    Column("row_ids", RowIds),
    Column("cut_at", Double),
    Column("cut_s", Double, nullable=False, server_default=text("0")),
    Column("encoded_at", Double),
    Column("leaders", LargeBinary),
    Column("reused_tokens", BigInteger, nullable=False, server_default=text("0")),
)

#: Rows of encoded shards that are in no batch: they have the answers of their leaders, as soon as these are there.
followers = Table(
    "followers",
    metadata,
    Column("job_id", AnyText, ForeignKey("jobs.id"), primary_key=True),
    Column("leader", BigInteger, primary_key=True, autoincrement=False),
    Column("row_id", BigInteger, primary_key=True, autoincrement=False),
    Column("shard_no", Integer, nullable=False),
    Column("key", AnyText, nullable=False),
    Column("cut_tokens", Integer, nullable=False),
)

batches = Table(
    "batches",
    metadata,
    Column("job_id", AnyText, ForeignKey("jobs.id"), primary_key=True),
    Column("batch_no", Integer, primary_key=True),
    Column("shard_no", Integer, nullable=False),
    Column("n_rows", Integer, nullable=False),
    Column("n_tokens", BigInteger, nullable=False),
    Column("state", word(BatchState), nullable=False),
    Column("fence", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("lease_until", Double),
    Column("lease_owner", AnyText),
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
    Column("device", AnyText),
    Column("row_ids", RowIds, nullable=False),
    Column("crashes", Integer, nullable=False, server_default=text("0")),
    Column("queue_s", Double, nullable=False, server_default=text("0")),
    Column("load_s", Double, nullable=False, server_default=text("0")),
    Column("part", Integer),
    Column("enqueued_at", Double),
    Column("begun_at", Double),
    Column("error", AnyText),
    Column("prompt_rows", RowIds),
    Column("worker", AnyText),
    Column("silences", Integer, nullable=False, server_default=text("0")),
    ForeignKeyConstraint(["job_id", "shard_no"], ["shards.job_id", "shards.shard_no"]),
)

#: Open batches that workers died of, or fell silent at. The 0 is no bound value: so the databases know their index.
BLAMED = and_(batches.c.finished_at.is_(None), batches.c.crashes + batches.c.silences > literal_column("0"))


def _index_of(name: str, which: ColumnElement[bool], *columns: Column[object]) -> None:
    """Some rows, in the order of these columns: they are found without a walk over all others."""
    Index(name, *columns, sqlite_where=which, postgresql_where=which)


# Tests of null, unlike those of a bound state, let both databases use an index, of the little that is under way.
_index_of("batches_open", batches.c.finished_at.is_(None), batches.c.job_id, batches.c.batch_no)
_index_of("batches_enqueued", batches.c.enqueued_at.is_not(None), batches.c.job_id, batches.c.batch_no)
_index_of("batches_leased", batches.c.lease_until.is_not(None), batches.c.job_id, batches.c.batch_no)
_index_of("batches_blamed", BLAMED, batches.c.job_id, batches.c.batch_no)

results = Table(
    "results",
    metadata,
    Column("job_id", AnyText, ForeignKey("jobs.id"), primary_key=True),
    Column("row_id", BigInteger, primary_key=True, autoincrement=False),
    Column("key", AnyText, nullable=False),
    Column("status", word(Status), nullable=False),
    Column("output", AnyText),
    Column("label", AnyText),
    Column("score", Double),
    Column("parsed", AnyText),
    Column("finish_reason", AnyText),
    Column("error_type", AnyText),
    Column("error", AnyText),
    Column("prompt_tokens", Integer, nullable=False),
    Column("reused_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("batch_no", Integer),
    Column("created_at", Double, nullable=False),
    Column("samples", Samples()),
    Column("logprobs", Logprobs()),
    Column("labels", Labels()),
    Column("scores", Scores()),
    Column("logprob", Double),
    Column("perplexity", Double),
    Column("embedding", Embedding),
    Column("cut_tokens", Integer, nullable=False, server_default=text("0")),
    Column("copied_from", AnyText),
    Column("prompt_hash", LargeBinary),
    Column("question", AnyText),
)

_index_of("results_hashed", results.c.prompt_hash.is_not(None), results.c.prompt_hash)

workers = Table(
    "workers",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("role", word(Role), nullable=False),
    Column("host", AnyText, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("state", word(WorkerState), nullable=False),
    Column("device", AnyText),
    Column("model", AnyText),
    Column("job_id", AnyText),
    Column("batch_no", Integer),
    Column("note", AnyText),
    Column("started_at", Double, nullable=False),
    Column("seen_at", Double, nullable=False),
    Column("batches", Integer, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("busy_s", Double, nullable=False),
    Column("facts", AnyText),
)

schedules = Table(
    "schedules",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("name", AnyText, nullable=False, unique=True),
    Column("cron", AnyText, nullable=False),
    Column("zone", AnyText, nullable=False),
    Column("spec_json", AnyText, nullable=False),
    Column("job_name", AnyText, nullable=False),
    Column("job_file", AnyText, nullable=False),
    Column("grace_s", Double, nullable=False),
    Column("overlap", word(Overlap), nullable=False),
    Column("incremental", Boolean, nullable=False),
    Column("kept_at", Double, nullable=False),
    Column("next_at", Double, nullable=False),
    Column("paused_at", Double),
)

# Whoever comes first records a run, however many look at the clock. A job may be forgotten before its run is.
schedule_runs = Table(
    "schedule_runs",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("schedule_id", AnyText, ForeignKey("schedules.id"), nullable=False),
    Column("scheduled_for", Double, nullable=False),
    Column("state", word(RunState), nullable=False),
    Column("job_name", AnyText, nullable=False),
    Column("job_id", AnyText),
    Column("note", AnyText),
    Column("fence", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("lease_until", Double),
    Column("finished_at", Double),
    Column("difference", AnyText),
    UniqueConstraint("schedule_id", "scheduled_for"),
)
Index("schedule_runs_job", schedule_runs.c.job_id)

#: Not over yet.
OPEN_RUN = schedule_runs.c.finished_at.is_(None)
UNCOUNTED_RUN = schedule_runs.c.difference.is_(None)
_index_of("schedule_runs_open", OPEN_RUN, schedule_runs.c.schedule_id, schedule_runs.c.scheduled_for)
_index_of("schedule_runs_uncounted", UNCOUNTED_RUN, schedule_runs.c.schedule_id)

# An outbox: written in the transaction that records the end, and sent by whoever claims it.
notices = Table(
    "notices",
    metadata,
    Column("id", AnyText, primary_key=True),
    Column("event", word(Event), nullable=False),
    Column("occurred_at", Double, nullable=False),
    Column("job_id", AnyText),
    Column("run_id", AnyText),
    Column("state", word(NoticeState), nullable=False),
    Column("lease_until", Double),
    Column("error", AnyText),
)
Index("notices_job", notices.c.job_id)
_index_of("notices_run", notices.c.run_id.is_not(None), notices.c.run_id)

#: Still to be sent. No bound value, so that the databases know their index.
PENDING = notices.c.state == literal_column(f"'{NoticeState.PENDING}'")
_index_of("notices_pending", PENDING, notices.c.occurred_at)
