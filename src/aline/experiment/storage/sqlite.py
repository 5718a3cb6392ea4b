"""Experiments in an SQLite file: every event is on disk before its call returns."""

from __future__ import annotations

import contextlib
import sqlite3
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aline.errors import StorageError
from aline.experiment.storage import base
from aline.experiment.storage.base import Event, Storage

APPLICATION = 0x414C494E  # "ALIN", how we know our own files
VERSION = 1
BUSY_SECONDS = 30.0  # how long to wait for another process's write

_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS events (
    experiment TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (experiment, sequence)
);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
COMMIT;
"""

# One statement is one transaction: it finds the journal's end and writes behind it, or does
# nothing. The primary key says the same to whoever writes with another program.
_APPEND = """
INSERT INTO events (experiment, sequence, event)
SELECT ?1, ?2, ?3
WHERE ?2 = (SELECT MAX(sequence) + 1 FROM events WHERE experiment = ?1)
"""


class SqliteStorage(Storage):
    """Journals in one table of an SQLite file."""

    def __init__(self, path: str | Path, *, must_exist: bool = False):
        self._path = Path(path)
        if must_exist and not self._path.exists():
            raise StorageError(f"no database at {self._path}: check the path after sqlite:///")
        if not self._path.parent.is_dir():
            raise StorageError(f"no folder {self._path.parent}: create it, or give another path")
        with self._explained():
            # Autocommit (isolation_level None): a statement that returned is a commit on disk.
            self._connection = sqlite3.connect(
                self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._finalizer = weakref.finalize(self, self._connection.close)
            self._prepare()

    def _prepare(self) -> None:
        # In this order, as another process may be writing all three in one transaction.
        tables = self._number("SELECT COUNT(*) FROM sqlite_schema")
        version = self._number("PRAGMA user_version")
        ours = self._number("PRAGMA application_id") == APPLICATION
        if not ours and (tables or version):
            raise StorageError(f"{self._path} is a database of another program: give another path")
        if version > VERSION:
            raise StorageError(
                f"{self._path} has format {version}, this aline reads up to {VERSION}: "
                "upgrade aline"
            )
        # WAL with a full sync: one flush a commit, readers never wait, and a killed process
        # leaves either the whole event or nothing of it.
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        if version < VERSION:
            self._connection.executescript(_SCHEMA)

    def _number(self, query: str) -> int:
        (value,) = self._connection.execute(query).fetchone()
        return int(value)

    def create(self, name: str, event: Event) -> None:
        """Start a journal."""
        text = base.to_text(event)
        with self._explained():
            try:
                self._connection.execute("INSERT INTO events VALUES (?, 0, ?)", (name, text))
            except sqlite3.IntegrityError:
                raise base.taken(name) from None

    def append(self, name: str, sequence: int, event: Event) -> None:
        """Add an event."""
        text = base.to_text(event)
        with self._explained():
            cursor = self._connection.execute(_APPEND, (name, sequence, text))
        if cursor.rowcount != 1:
            self._check_exists(name)
            raise base.conflict(name, sequence)

    def read(self, name: str, start: int = 0) -> list[dict[str, Any]]:
        """The events from `start` on."""
        query = (
            "SELECT sequence, event FROM events WHERE experiment = ? AND sequence >= ? "
            "ORDER BY sequence"
        )
        with self._explained():
            rows = self._connection.execute(query, (name, start)).fetchall()
        if not rows:
            self._check_exists(name)
        if [sequence for sequence, _ in rows] != list(range(start, start + len(rows))):
            raise StorageError(
                f"events of experiment {name!r} are missing from {self._path}: "
                "restore it from a copy"
            )
        return [base.from_text(text, name, sequence) for sequence, text in rows]

    def names(self) -> list[str]:
        """The experiments, the oldest first."""
        query = "SELECT experiment FROM events WHERE sequence = 0 ORDER BY rowid"
        with self._explained():
            return [name for (name,) in self._connection.execute(query)]

    def _check_exists(self, name: str) -> None:
        names = self.names()
        if name not in names:
            raise base.missing(name, names)

    def close(self) -> None:
        """Close the file."""
        self._finalizer()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what SQLite says into our errors."""
        try:
            yield
        except sqlite3.Error as error:
            raise StorageError(f"{self._path}: {_remedy(error)}") from None


def _remedy(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"another process keeps it locked ({error}): try again when that is done"
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return f"damaged, or no SQLite database ({error}): restore it, or give another path"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        return f"cannot be opened for writing ({error}): check its permissions"
    return f"the database refused ({error})"
