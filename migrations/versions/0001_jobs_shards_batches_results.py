"""Jobs, shards, batches and results."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("spec_json", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("model_digest", sa.Text(), nullable=False),
        sa.Column("input_digest", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("n_rows", sa.BigInteger()),
        sa.Column("submitted_at", sa.Double(), nullable=False),
        sa.Column("finished_at", sa.Double()),
        sa.Column("error", sa.Text()),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "shards",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("shard_no", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("row_from", sa.BigInteger(), nullable=False),
        sa.Column("row_to", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("encode_s", sa.Double(), nullable=False),
        sa.Column("n_error", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
        sa.PrimaryKeyConstraint("job_id", "shard_no"),
    )
    op.create_table(
        "batches",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("batch_no", sa.Integer(), nullable=False),
        sa.Column("shard_no", sa.Integer(), nullable=False),
        sa.Column("n_rows", sa.Integer(), nullable=False),
        sa.Column("n_tokens", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("lease_until", sa.Double()),
        sa.Column("lease_owner", sa.Text()),
        sa.Column("n_ok", sa.Integer(), nullable=False),
        sa.Column("n_truncated", sa.Integer(), nullable=False),
        sa.Column("n_error", sa.Integer(), nullable=False),
        sa.Column("computed_tokens", sa.BigInteger(), nullable=False),
        sa.Column("reused_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("encode_s", sa.Double(), nullable=False),
        sa.Column("prefix_s", sa.Double(), nullable=False),
        sa.Column("prefill_s", sa.Double(), nullable=False),
        sa.Column("decode_s", sa.Double(), nullable=False),
        sa.Column("detokenize_s", sa.Double(), nullable=False),
        sa.Column("record_s", sa.Double(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double()),
        sa.Column("finished_at", sa.Double()),
        sa.Column("device", sa.Text()),
        sa.Column("row_ids", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
        sa.ForeignKeyConstraint(["job_id", "shard_no"], ["shards.job_id", "shards.shard_no"]),
        sa.PrimaryKeyConstraint("job_id", "batch_no"),
    )
    op.create_index(
        "batches_open",
        "batches",
        ["job_id", "batch_no"],
        sqlite_where=sa.text("finished_at IS NULL"),
        postgresql_where=sa.text("finished_at IS NULL"),
    )
    op.create_table(
        "results",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("row_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("output", sa.Text()),
        sa.Column("label", sa.Text()),
        sa.Column("score", sa.Double()),
        sa.Column("parsed", sa.Text()),
        sa.Column("finish_reason", sa.Text()),
        sa.Column("error_type", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("reused_tokens", sa.Integer(), nullable=False),
        sa.Column("output_tokens", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("batch_no", sa.Integer()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
        sa.PrimaryKeyConstraint("job_id", "row_id"),
    )


def downgrade() -> None:
    op.drop_table("results")
    op.drop_index("batches_open", table_name="batches")
    op.drop_table("batches")
    op.drop_table("shards")
    op.drop_table("jobs")
