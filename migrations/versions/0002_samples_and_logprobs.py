"""Samples and log-probabilities of a result; max_tokens, where labels are chosen, is what it is by itself."""

import json
from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("results", sa.Column("samples", sa.Text()))
    op.add_column("results", sa.Column("logprobs", sa.Text()))
    _forget_max_tokens_of_choices()


def downgrade() -> None:
    op.drop_column("results", "logprobs")
    op.drop_column("results", "samples")


def _forget_max_tokens_of_choices() -> None:
    """It was taken and ignored; now it is refused, and such a job could not be read any more."""
    jobs = sa.table("jobs", sa.column("id", sa.Text()), sa.column("spec_json", sa.Text()))
    connection = op.get_bind()
    for job_id, spec_json in connection.execute(sa.select(jobs.c.id, jobs.c.spec_json)).all():
        spec = json.loads(spec_json)
        if spec.get("choices") is not None and spec.pop("max_tokens", None) is not None:
            connection.execute(sa.update(jobs).where(jobs.c.id == job_id).values(spec_json=json.dumps(spec)))
