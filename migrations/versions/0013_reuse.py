"""What share of its prompt tokens a job was foretold to reuse, and the tokens of a shard's rows that were copied."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("predicted_reuse", sa.Double()))
    op.add_column("shards", sa.Column("reused_tokens", sa.BigInteger(), nullable=False, server_default=sa.text("0")))


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS v_jobs")  # made anew behind the next migration
    op.drop_column("shards", "reused_tokens")
    op.drop_column("jobs", "predicted_reuse")
