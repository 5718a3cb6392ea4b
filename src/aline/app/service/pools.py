"""Threads for one kind of work each, with a bound on how much may wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from aline.errors import StorageError, UserError

Result = TypeVar("Result")


class BusyError(UserError):
    """More is to be done than the service takes on at a time; nothing was changed."""


class Pool:
    """A few threads; who comes when too many wait is told to come back."""

    def __init__(self, name: str, threads: int, waiting: int, seconds: float | None = None):
        self._name, self._waiting, self._seconds = name, waiting, seconds
        self._threads = ThreadPoolExecutor(threads, name)
        self._places = threading.Semaphore(threads + waiting)

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """What `work` returns; the event loop goes on meanwhile."""
        if not self._places.acquire(blocking=False):
            raise BusyError(
                f"{self._waiting} requests of this kind wait already ({self._name}): try again"
            )
        begun = self._threads.submit(work, *arguments)
        begun.add_done_callback(lambda _: self._places.release())
        return await in_time(asyncio.wrap_future(begun), self._seconds)

    def close(self) -> None:
        """Let the threads go; what has not begun never will."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def in_time(awaited: Awaitable[Result], seconds: float | None) -> Result:
    """What is awaited, unless that takes so long that a storage must have stopped to answer."""
    try:
        return await asyncio.wait_for(awaited, seconds)
    except TimeoutError:
        raise StorageError(
            f"the storage did not answer within {seconds:g} s: try again with the same key"
        ) from None
