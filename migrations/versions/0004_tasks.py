"""What more is asked of a row: probabilities of all labels, scores of given texts, embeddings, cut texts, copies.

Of an answer, the hash of all that it hangs on. Of a batch, how many rows each of its prompts has. And of a shard, how
many of its rows were copied, by how they ended, how many were cut to fit, and how many
held special tokens of the model; how many tokens its prompts have, and how many of these were to be computed.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_COUNTS = ("n_cut", "n_neutralised", "n_ok", "n_truncated")
_TOKENS = ("prompt_tokens", "planned_tokens")


def upgrade() -> None:
    for column in _columns():
        op.add_column("results", column)
    where = sa.text("prompt_hash IS NOT NULL")
    op.create_index("results_hashed", "results", ["prompt_hash"], sqlite_where=where, postgresql_where=where)
    op.add_column("batches", sa.Column("prompt_rows", sa.LargeBinary()))
    for name in _COUNTS:
        op.add_column("shards", sa.Column(name, sa.Integer(), nullable=False, server_default=sa.text("0")))
    for name in _TOKENS:
        op.add_column("shards", sa.Column(name, sa.BigInteger(), nullable=False, server_default=sa.text("0")))


def downgrade() -> None:
    for name in (*reversed(_TOKENS), *reversed(_COUNTS)):
        op.drop_column("shards", name)
    op.drop_column("batches", "prompt_rows")
    op.drop_index("results_hashed", "results")
    for column in reversed(_columns()):
        op.drop_column("results", column.name)


def _columns() -> list[sa.Column[object]]:
    return [
        sa.Column("labels", sa.Text()),
        sa.Column("scores", sa.Text()),
        sa.Column("logprob", sa.Double()),
        sa.Column("perplexity", sa.Double()),
        sa.Column("embedding", sa.LargeBinary().with_variant(sa.Text(), "postgresql")),
        sa.Column("cut_tokens", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("copied_from", sa.Text()),
        sa.Column("prompt_hash", sa.LargeBinary()),
    ]
