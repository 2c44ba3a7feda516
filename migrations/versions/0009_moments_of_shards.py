"""When a shard was there, how long it took to be cut, and when its batches were there."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("shards", sa.Column("cut_at", sa.Double()))
    op.add_column("shards", sa.Column("cut_s", sa.Double(), nullable=False, server_default=sa.text("0")))
    op.add_column("shards", sa.Column("encoded_at", sa.Double()))


def downgrade() -> None:
    for name in ("encoded_at", "cut_s", "cut_at"):
        op.drop_column("shards", name)
