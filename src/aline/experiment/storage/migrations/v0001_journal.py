"""The journal: one row an event."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

APPLICATION = 0x414C494E  # "ALIN", how an SQLite file says whose it is


def upgrade() -> None:
    """Make the table; the first aline made the same one without Alembic."""
    op.create_table(
        "events",
        sa.Column("experiment", sa.Text, primary_key=True),
        sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("event", sa.Text, nullable=False),
    )
    if op.get_bind().dialect.name == "sqlite":
        op.execute(f"PRAGMA application_id = {APPLICATION}")
        op.execute("PRAGMA user_version = 1")
