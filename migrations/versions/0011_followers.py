"""Rows of several shards with the same prompt: the rows of a shard that lead the others, and those that follow one."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0011"
down_revision: str | None = "0010"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("shards", sa.Column("leaders", sa.LargeBinary()))
    op.create_table(
        "followers",
        sa.Column("job_id", sa.Text(), sa.ForeignKey("jobs.id"), primary_key=True),
        sa.Column("leader", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("row_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("shard_no", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("cut_tokens", sa.Integer(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("followers")
    op.drop_column("shards", "leaders")
