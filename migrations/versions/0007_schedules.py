"""What is run night after night: schedules, each of their times as a run, and notices of how jobs ended."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("cron", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("spec_json", sa.Text(), nullable=False),
        sa.Column("job_name", sa.Text(), nullable=False),
        sa.Column("job_file", sa.Text(), nullable=False),
        sa.Column("grace_s", sa.Double(), nullable=False),
        sa.Column("overlap", sa.String(16), nullable=False),
        sa.Column("incremental", sa.Boolean(), nullable=False),
        sa.Column("kept_at", sa.Double(), nullable=False),
        sa.Column("next_at", sa.Double(), nullable=False),
        sa.Column("paused_at", sa.Double()),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "schedule_runs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("schedule_id", sa.Text(), nullable=False),
        sa.Column("scheduled_for", sa.Double(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("job_name", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text()),
        sa.Column("note", sa.Text()),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("lease_until", sa.Double()),
        sa.Column("finished_at", sa.Double()),
        sa.Column("difference", sa.Text()),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("schedule_id", "scheduled_for"),
        sa.ForeignKeyConstraint(["schedule_id"], ["schedules.id"]),
    )
    op.create_index("schedule_runs_job", "schedule_runs", ["job_id"])
    op.create_table(
        "notices",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("event", sa.String(16), nullable=False),
        sa.Column("occurred_at", sa.Double(), nullable=False),
        sa.Column("job_id", sa.Text()),
        sa.Column("run_id", sa.Text()),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("lease_until", sa.Double()),
        sa.Column("error", sa.Text()),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("notices_job", "notices", ["job_id"])


def downgrade() -> None:
    op.drop_table("notices")
    op.drop_table("schedule_runs")
    op.drop_table("schedules")
