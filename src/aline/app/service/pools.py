"""Threads for one kind of work each, with a bound on how much may wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from aline.errors import UserError

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
        watch: Callable[[asyncio.Future[Any]], None] = lambda waiting: None,
    ):
        """Whoever waits is shown to `watch`, which may end that with an exception."""
        self._name, self._waiting, self._watch = name, waiting, watch
        self._threads = ThreadPoolExecutor(threads, name)
        self._places = threading.Semaphore(threads + waiting)

    async def run(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """What `work` returns; the event loop goes on meanwhile."""
        if not self._places.acquire(blocking=False):
            raise BusyError(
                f"{self._waiting} requests of this kind wait already ({self._name}): try again"
            )
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Result] = loop.create_future()
        begun = self._threads.submit(work, *arguments)
        begun.add_done_callback(lambda _: self._places.release())
        begun.add_done_callback(lambda done: _hand_over(done, waiting, loop))
        self._watch(waiting)
        try:
            return await waiting
        finally:
            begun.cancel()

    def close(self) -> None:
        """Let the threads go; what has not begun never will."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _hand_over(
    done: Future[Result], waiting: asyncio.Future[Result], loop: asyncio.AbstractEventLoop
) -> None:
    """Give what a thread found to who waits for it in the loop, if anybody still does."""

    def give() -> None:
        if waiting.done():
            return
        if done.cancelled():
            waiting.cancel()
        elif (error := done.exception()) is not None:
            waiting.set_exception(error)
        else:
            waiting.set_result(done.result())

    if not loop.is_closed():
        loop.call_soon_threadsafe(give)
