"""Several questions over one row: their names with the job, and with each result the name of its own."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_COLUMNS = (("jobs", "questions"), ("results", "question"))


def upgrade() -> None:
    for table, name in _COLUMNS:
        op.add_column(table, sa.Column(name, sa.Text()))


def downgrade() -> None:
    for table, name in reversed(_COLUMNS):
        op.drop_column(table, name)
