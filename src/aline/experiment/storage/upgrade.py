"""Bring a database to today's tables.

Alembic is imported only where a database is new or older, which most are not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from aline.errors import StorageError

HEAD = "0002"  # the last step in migrations/
_LOCK = 0x414C494E  # the advisory lock that PostgreSQL's processes take turns with


def upgrade(engine: sa.Engine, where: str) -> None:
    """Make or change the tables, in one transaction that other processes wait for."""
    if _revision(engine) == HEAD:
        return
    with _alone(engine) as connection:
        _run_steps(connection, where)


def _revision(engine: sa.Engine) -> str | None:
    with engine.connect() as connection:
        return _read_revision(connection)


def _read_revision(connection: sa.Connection) -> str | None:
    """The step a database is at; None if Alembic never saw it."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    return found


@contextlib.contextmanager
def _alone(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction that no other process changes tables in at the same time."""
    if engine.dialect.name != "sqlite":
        with engine.begin() as connection:
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
            connection.execute(sa.text("CREATE SCHEMA IF NOT EXISTS aline"))
            yield connection
        return
    # Python's driver would not begin a transaction for CREATE TABLE, so it is told to keep out.
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.exec_driver_sql("ROLLBACK")
            raise
        connection.exec_driver_sql("COMMIT")


def _run_steps(connection: sa.Connection, where: str) -> None:
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.script import ScriptDirectory

    folder = Path(__file__).parent / "migrations"
    steps = ScriptDirectory(str(folder), version_locations=[str(folder)])
    known = [step.revision for step in steps.walk_revisions()]  # the last first
    now = _read_revision(connection)
    if now is None and sa.inspect(connection).has_table("events"):
        now = "0001"  # written before there was Alembic
    if now is not None and now not in known:
        raise StorageError(
            f"{where} has format {now}, this aline reads up to {HEAD}: upgrade aline"
        )
    context = MigrationContext.configure(connection)
    with Operations.context(context):
        for revision in reversed(known[: known.index(now)] if now else known):
            steps.get_revision(revision).module.upgrade()
    context.stamp(steps, HEAD)
