"""Alembic runs this: the migrations go over the connection, and into the transaction, that it is handed."""

from alembic import context

from pipeline.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite can hardly ALTER a table
)
with context.begin_transaction():
    context.run_migrations()
