"""Threads for one kind of work each, with a bound on how much may wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from aline.errors import StorageError, UserError

Result = TypeVar("Result")


class BusyError(UserError):
    """More is to be done than the service takes on at a time; nothing was changed."""


class Pool:
    """A few threads; who comes when too many wait is told to come back."""

    def __init__(
        self,
        name: str,
        threads: int,
        waiting: int,
        seconds: float | None = None,
        is_vain: Callable[[], bool] = lambda: False,
    ):
        """Every so many `seconds` it is asked whether waiting any longer `is_vain`."""
        self._name, self._waiting = name, waiting
        self._seconds, self._is_vain = seconds, is_vain
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
        return await self._wait(asyncio.wrap_future(begun))

    async def _wait(self, begun: asyncio.Future[Result]) -> Result:
        try:
            while not begun.done():
                done, _ = await asyncio.wait([begun], timeout=self._seconds)
                if not done and self._is_vain():
                    raise unanswered(self._seconds or 0.0)
            return begun.result()
        finally:
            begun.cancel()

    def close(self) -> None:
        """Let the threads go; what has not begun never will."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def unanswered(seconds: float) -> StorageError:
    """The error for a storage that takes too long."""
    return StorageError(
        f"the storage did not answer within {seconds:g} s: try again with the same key"
    )
