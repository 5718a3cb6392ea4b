"""One training at a time in a folder: two would overwrite each other's checkpoints.

The operating system holds the lock, so it ends with the process that has it, however that ends.
What the lock file says is for whoever is refused.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO

from aline.errors import StateError

LOCK = ".training.lock"
_ours: ContextVar[frozenset[Path]] = ContextVar("_ours", default=frozenset())


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Within, no other training writes to this folder; whoever has claimed it may do so again."""
    path = folder.resolve() / LOCK
    if path in _ours.get():
        yield
        return
    file = _locked(path, folder)
    token = _ours.set(_ours.get() | {path})
    try:
        yield
    finally:
        _ours.reset(token)
        with suppress(OSError):  # Windows removes no file that is open; it is harmless there
            path.unlink()
        file.close()


def _locked(path: Path, folder: Path) -> IO[str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        file = path.open("a+")
        if not _try_lock(file):
            file.seek(0)
            owner = file.read().strip() or "another process"
            file.close()
            raise StateError(
                f"{folder} is being trained into by {owner}: wait for it, stop it, or use another "
                "folder (--out)"
            )
        if _is_still_there(file, path):
            break
        file.close()  # its owner ended, and removed it, after we opened it
    file.truncate(0)
    file.write(f"process {os.getpid()} on {platform.node() or 'this machine'}\n")
    file.flush()
    return file


def _is_still_there(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[str]) -> bool:
        try:
            file.seek(2**20)  # beyond the text, which others may then read
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(file: IO[str]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks: better unguarded than not at all
            return True
        return True
