"""Runs of schedules that are over all have their `finished_at`, so that it tells those apart that are not, which are
few and have an index. So have notices that are to be sent, those of runs, and runs that are to be counted."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_INDEXES = (
    ("schedule_runs_open", "schedule_runs", ["schedule_id", "scheduled_for"], "finished_at IS NULL"),
    ("schedule_runs_uncounted", "schedule_runs", ["schedule_id"], "difference IS NULL"),
    ("notices_pending", "notices", ["occurred_at"], "state = 'pending'"),
    ("notices_run", "notices", ["run_id"], "run_id IS NOT NULL"),
)


def upgrade() -> None:
    op.execute(
        "UPDATE schedule_runs SET finished_at = scheduled_for "
        "WHERE finished_at IS NULL AND state IN ('done', 'failed', 'cancelled', 'skipped')"
    )
    for name, table, columns, which in _INDEXES:
        op.create_index(name, table, columns, sqlite_where=sa.text(which), postgresql_where=sa.text(which))


def downgrade() -> None:
    for name, table, _, _ in reversed(_INDEXES):
        op.drop_index(name, table)
