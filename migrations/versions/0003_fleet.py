"""What a fleet needs: jobs with a priority, shards and batches that are enqueued, and the workers themselves."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_INDEXES = {
    "batches_enqueued": "enqueued_at IS NOT NULL",
    "batches_leased": "lease_until IS NOT NULL",
    "batches_crashed": "finished_at IS NULL AND crashes > 0",
}


def upgrade() -> None:
    _add("jobs", fleet=sa.Boolean(), priority=sa.Integer())
    _add_nullable("jobs", paused_at=sa.Double(), context=sa.Integer(), tokenizer=sa.Text(), utc_offset_s=sa.Integer())
    _add("shards", fence=sa.Integer(), attempts=sa.Integer(), crashes=sa.Integer())
    _add_nullable("shards", tokens=sa.Text(), enqueued_at=sa.Double(), lease_until=sa.Double(), lease_owner=sa.Text())
    _add("batches", crashes=sa.Integer(), queue_s=sa.Double(), load_s=sa.Double())
    _add_nullable("batches", part=sa.Integer(), enqueued_at=sa.Double(), begun_at=sa.Double(), error=sa.Text())
    for name, which in _INDEXES.items():
        where = sa.text(which)
        op.create_index(name, "batches", ["job_id", "batch_no"], sqlite_where=where, postgresql_where=where)
    op.create_table(
        "workers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("device", sa.Text()),
        sa.Column("model", sa.Text()),
        sa.Column("job_id", sa.Text()),
        sa.Column("batch_no", sa.Integer()),
        sa.Column("note", sa.Text()),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("batches", sa.Integer(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("busy_s", sa.Double(), nullable=False),
        sa.Column("facts", sa.Text()),
        sa.PrimaryKeyConstraint("id"),
    )


def downgrade() -> None:
    op.drop_table("workers")
    for name in _INDEXES:
        op.drop_index(name, "batches")
    for table, names in {
        "batches": ("error", "begun_at", "enqueued_at", "part", "load_s", "queue_s", "crashes"),
        "shards": ("lease_owner", "lease_until", "enqueued_at", "tokens", "crashes", "attempts", "fence"),
        "jobs": ("utc_offset_s", "tokenizer", "context", "paused_at", "priority", "fleet"),
    }.items():
        for name in names:
            op.drop_column(table, name)


def _add(table: str, **columns: sa.types.TypeEngine[Any]) -> None:
    """Zero, or false, in the rows that are there."""
    for name, kind in columns.items():
        zero = sa.false() if isinstance(kind, sa.Boolean) else sa.text("0")
        op.add_column(table, sa.Column(name, kind, nullable=False, server_default=zero))


def _add_nullable(table: str, **columns: sa.types.TypeEngine[Any]) -> None:
    for name, kind in columns.items():
        op.add_column(table, sa.Column(name, kind))
