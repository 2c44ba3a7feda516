"""Rows that are sorted before they are answered: whether a job's are, which ids a shard's rows then have, and where the
rows lie in the order of the input."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("sorts_rows", sa.Boolean()))
    op.add_column("shards", sa.Column("row_ids", sa.LargeBinary()))
    op.create_table(
        "pages",
        sa.Column("job_id", sa.Text(), sa.ForeignKey("jobs.id"), primary_key=True),
        sa.Column("page_no", sa.Integer(), primary_key=True),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("row_from", sa.BigInteger(), nullable=False),
        sa.Column("row_to", sa.BigInteger(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("pages")
    op.drop_column("shards", "row_ids")
    op.drop_column("jobs", "sorts_rows")
