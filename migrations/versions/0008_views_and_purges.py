"""When a job's shards, or its results, were purged. The views (pipeline/store/views.py) come with it: they are made
anew behind the newest migration."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_VIEWS = ("v_results", "v_failed", "v_jobs", "v_timings")
_MOMENTS = ("shards_purged_at", "results_purged_at")


def upgrade() -> None:
    for name in _MOMENTS:
        op.add_column("jobs", sa.Column(name, sa.Double()))


def downgrade() -> None:
    for name in _VIEWS:
        op.execute(f"DROP VIEW IF EXISTS {name}")
    for name in reversed(_MOMENTS):
        op.drop_column("jobs", name)
