"""Who answered a batch, which its lease told of only while it was open."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("batches", sa.Column("worker", sa.Text()))


def downgrade() -> None:
    op.execute("DROP VIEW IF EXISTS v_timings")  # it shows the column
    op.drop_column("batches", "worker")
