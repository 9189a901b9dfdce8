"""Alembic's entry point: ladder.store.engine hands it an open transaction, an upgrade happens whole or not at all."""

from alembic import context

from ladder.store.models import Base

context.configure(
    connection=context.config.attributes.get("connection"),
    dialect_name=context.config.attributes.get("dialect_name"),
    target_metadata=Base.metadata,
    render_as_batch=True,  # SQLite cannot alter most columns in place
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
