"""Workers that fell silent at a batch are counted apart from those that were seen to end."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0014"
down_revision: str | None = "0013"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.drop_index("batches_crashed", "batches")
    op.add_column("batches", sa.Column("silences", sa.Integer(), nullable=False, server_default=sa.text("0")))
    _index("batches_blamed", "finished_at IS NULL AND crashes + silences > 0")


def downgrade() -> None:
    op.drop_index("batches_blamed", "batches")
    op.drop_column("batches", "silences")
    _index("batches_crashed", "finished_at IS NULL AND crashes > 0")


def _index(name: str, which: str) -> None:
    where = sa.text(which)
    op.create_index(name, "batches", ["job_id", "batch_no"], sqlite_where=where, postgresql_where=where)
