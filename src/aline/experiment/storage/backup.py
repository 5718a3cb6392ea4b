"""A copy of a database, made while it is in use."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from aline.errors import InputError, StorageError
from aline.experiment.storage.url import shown

_SQLITE = "sqlite:///"


def back_up(url: str, path: Path) -> int:
    """Copy a storage into a new SQLite file; how many experiments it holds.

    The copy is the storage at one moment, on disk when this returns, whoever writes meanwhile.
    """
    if not url.startswith(_SQLITE):
        raise InputError(
            f"aline backup copies SQLite files, got {shown(url)}: PostgreSQL has its own way, "
            "pg_dump --schema=aline"
        )
    source = Path(url.removeprefix(_SQLITE))
    if not source.is_file():
        raise StorageError(f"no database at {source}: check the path after sqlite:///")
    if path.exists():
        raise InputError(f"{path} is there already: give another path, or remove it")
    part = path.with_name(f"{path.name}.part")
    try:
        count = _copy(source, part)
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    return count


def _copy(source: Path, path: Path) -> int:
    os.close(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600))
    read_only = f"{source.resolve().as_uri()}?mode=ro"
    try:
        with (
            closing(sqlite3.connect(read_only, uri=True)) as old,
            closing(sqlite3.connect(path)) as new,
        ):
            old.backup(new)
            new.execute("PRAGMA journal_mode = DELETE")  # one file, which the URL's user opens
            return int(new.execute("SELECT COUNT(*) FROM experiments").fetchone()[0])
    except sqlite3.Error as error:
        raise StorageError(
            f"{source} cannot be copied ({error}): check that it is aline's and not damaged"
        ) from None
