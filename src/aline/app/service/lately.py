"""What was read from the storage a moment ago, for whoever cannot wait for it.

A database may be down, or stand still. Who must answer all the same, the guard and /health, uses
what was known last, while one thread of their own reads again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from aline.errors import StorageError

Value = TypeVar("Value")

STUCK_SECONDS = 2.0  # after which a storage that does not answer counts as down


class Lately(Generic[Value]):
    """The last value of something, read anew when it is older than `fresh` seconds."""

    def __init__(self, read: Callable[[], Value], fresh: float):
        self.fresh = fresh
        self._read = read
        self._values: list[Value] = []  # the last, if there was one
        self._read_at = -float("inf")
        self._problem: StorageError | None = None
        self._reading: asyncio.Future[None] | None = None
        self._began = 0.0
        self._thread: ThreadPoolExecutor | None = None

    @property
    def problem(self) -> StorageError | None:
        """Why the storage cannot be read now."""
        if self.is_stuck:
            waited = time.monotonic() - self._began
            return StorageError(f"the storage has not answered for {waited:.0f} s: try again")
        return self._problem

    @property
    def is_stuck(self) -> bool:
        """Whether the storage stands still."""
        return self._reading is not None and time.monotonic() - self._began > STUCK_SECONDS

    @property
    def known(self) -> Value | None:
        """What was read last, if anything was."""
        return self._values[0] if self._values else None

    @property
    def is_fresh(self) -> bool:
        """Whether there is no need to read it again."""
        return time.monotonic() - self._read_at <= self.fresh

    def touch(self) -> None:
        """See that it is read soon, if it is old."""
        if self._reading is None and not self.is_fresh:
            self._reading = asyncio.ensure_future(self._read_again())

    async def get(self, within: float) -> Value:
        """What it is now, or was lately if that is not known within so many seconds."""
        self.touch()
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=within)
        if self.problem is not None and not self._values:
            raise self.problem
        if not self._values:
            raise StorageError("the storage has not answered yet: try again")
        return self._values[0]

    async def _read_again(self) -> None:
        self._began = time.monotonic()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "lately")
        loop = asyncio.get_running_loop()
        try:
            self._values = [await loop.run_in_executor(self._thread, self._read)]
            self._read_at, self._problem = time.monotonic(), None
        except Exception as error:
            # Not at every request: a database that is down may take its time to say so.
            self._read_at = time.monotonic()
            self._problem = (
                error
                if isinstance(error, StorageError)
                else StorageError(f"the storage cannot be read ({error}): try again")
            )
        finally:
            self._reading = None

    def close(self) -> None:
        """Let the thread go."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
        self._thread, self._reading = None, None
