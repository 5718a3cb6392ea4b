"""Which experiment each key made, of a database.

The keys stand in the journals' first events and nowhere else, where no index finds them. So what
was read once is kept, and only experiments that began since then are read.
"""

from __future__ import annotations

import threading
from contextlib import suppress

import sqlalchemy as sa

from aline.errors import StorageError
from aline.experiment.storage import base

_LOCK = 0x414C4B59  # the advisory lock that PostgreSQL's processes take turns with

_PART = 100  # experiments that are read at a time: each may hold 64 kB of metadata

# Begins at the experiments, which are few: a scan of all events would take long.
_SINCE = sa.text(f"""
SELECT number, name, (
    SELECT event FROM events WHERE events.experiment = experiments.name AND sequence = 0
)
FROM experiments WHERE number > :seen ORDER BY number LIMIT {_PART}
""")


class Creations:
    """The experiments that were made with a key, as far as they were read."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # by key
        self._seen = 0  # the last experiment's number
        self._turn = threading.Lock()

    def find(self, connection: sa.Connection, key: str) -> str | None:
        """The experiment that a key made, if it did, as others have committed it."""
        with self._turn:
            while rows := connection.execute(_SINCE, {"seen": self._seen}).all():
                for self._seen, name, text in rows:
                    self._note(name, text)
            return self._names.get(key)

    def _note(self, name: str, text: str | None) -> None:
        """Keep an experiment's key; of one that is damaged nobody knows it."""
        with suppress(StorageError):
            key = base.from_text(text or "", name, 0).get("key")
            if isinstance(key, str):
                self._names.setdefault(key, name)  # earlier versions let one key make several


def take_turn(connection: sa.Connection) -> None:
    """Let no other process create with a key until this transaction has ended.

    Then each sees what the others made, and experiments with keys appear in the order of their
    numbers.
    """
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # Python's driver would begin at the insert
    else:
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
