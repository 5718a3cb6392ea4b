"""Where experiments are kept: an append-only journal of events behind one URL."""

from __future__ import annotations

from pathlib import Path

from aline.errors import StorageError
from aline.experiment.storage.base import (
    Addition,
    Conflict,
    Event,
    Journal,
    Storage,
    UsedKeyError,
)
from aline.experiment.storage.draft import Draft
from aline.experiment.storage.exported import SUFFIX, ExportedStorage
from aline.experiment.storage.memory import MemoryStorage
from aline.experiment.storage.url import shown

__all__ = [
    "Addition",
    "Conflict",
    "Draft",
    "Event",
    "Journal",
    "MemoryStorage",
    "Storage",
    "UsedKeyError",
    "open_storage",
    "shown",
]

_DATABASES = ("sqlite:///", "postgresql://")


def _shown(given: object) -> object:
    return shown(given) if isinstance(given, str) else given


def open_storage(storage: str | Storage, *, must_exist: bool = False) -> Storage:
    """A storage by its URL.

    "memory://", "sqlite:///relative.db", "sqlite:////absolute.db", or
    "postgresql://user:password@host/database". With `must_exist`, an SQLite file that is not
    there is an error instead of a new, empty one; and a JSON file that an experiment was exported
    to may be read, "experiment.json".

    >>> open_storage("memory://").names()
    []
    """
    if isinstance(storage, Storage):
        return storage
    if storage == "memory://":
        return MemoryStorage()
    if isinstance(storage, str) and any(
        storage.startswith(start) and len(storage) > len(start) for start in _DATABASES
    ):
        # SQLAlchemy, only when it is needed
        from aline.experiment.storage.database import DatabaseStorage

        return DatabaseStorage(storage, must_exist=must_exist)
    if must_exist and isinstance(storage, str) and storage.endswith(SUFFIX):
        return ExportedStorage(Path(storage))
    raise StorageError(
        'storage must be "memory://", "sqlite:///relative.db", "sqlite:////absolute.db" or '
        f'"postgresql://user:password@host/database", got {_shown(storage)!r}'
    )
