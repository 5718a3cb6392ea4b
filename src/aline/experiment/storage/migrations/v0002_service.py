"""What several machines need: an order of experiments that any database can give, and tokens."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Number the experiments in the order in which they began."""
    op.create_table(
        "experiments",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
    )
    op.create_table(
        "tokens",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
    )
    if op.get_bind().dialect.name == "sqlite":  # the only one that can hold a journal already
        op.execute(
            "INSERT INTO experiments (name) "
            "SELECT experiment FROM events WHERE sequence = 0 ORDER BY rowid"
        )
        op.execute("PRAGMA user_version = 2")  # so that the first aline says "upgrade"
