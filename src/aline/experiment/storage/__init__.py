"""Where experiments are kept: an append-only journal of events behind one URL."""

from __future__ import annotations

from aline.errors import StorageError
from aline.experiment.storage.base import Conflict, Event, Storage
from aline.experiment.storage.memory import MemoryStorage
from aline.experiment.storage.sqlite import SqliteStorage

__all__ = ["Conflict", "Event", "MemoryStorage", "SqliteStorage", "Storage", "open_storage"]

_SQLITE = "sqlite:///"


def open_storage(storage: str | Storage, *, must_exist: bool = False) -> Storage:
    """A storage by its URL: "memory://", "sqlite:///relative.db" or "sqlite:////absolute.db".

    With `must_exist`, a database that is not there is an error instead of a new, empty one.

    >>> open_storage("memory://").names()
    []
    """
    if isinstance(storage, Storage):
        return storage
    if storage == "memory://":
        return MemoryStorage()
    if isinstance(storage, str) and len(storage) > len(_SQLITE) and storage.startswith(_SQLITE):
        return SqliteStorage(storage.removeprefix(_SQLITE), must_exist=must_exist)
    raise StorageError(
        'storage must be "memory://", "sqlite:///relative.db" or "sqlite:////absolute.db", '
        f"got {storage!r}"
    )
