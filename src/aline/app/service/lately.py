"""What was read from the storage a moment ago, for whoever cannot wait for it.

A database may be down, or stand still. Who must answer all the same, the guard and /health, uses
what was known last, while one thread of their own reads again.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeVar

from aline.errors import StorageError

Value = TypeVar("Value")

STUCK_SECONDS = 2.0  # after which a storage that does not answer counts as down
LOOK_SECONDS = 0.02  # until who waits for it asks whether it answers at all, and in between
CLOSE_SECONDS = 0.1  # for it to say what is of no use any more
LATE_SECONDS = 0.02  # after which this process is too busy to judge


def unanswered(seconds: float) -> StorageError:
    """The error for a storage that takes too long."""
    return StorageError(
        f"the storage did not answer within {seconds:.1g} s: try again with the same key"
    )


class Wait(NamedTuple):
    """Somebody who waits for the storage."""

    began: float
    most: float  # seconds


class Lately(Generic[Value]):
    """The last value of something, read anew when it is older than `fresh` seconds."""

    def __init__(self, read: Callable[[], Value], fresh: float, silent: float = STUCK_SECONDS):
        """A storage that says nothing for `silent` seconds is not waited for by `watch`."""
        self.fresh, self._silent = fresh, silent
        self._read = read
        self._values: list[Value] = []  # the last, if there was one
        self._read_at = -float("inf")
        self._problem: StorageError | None = None
        self._reading: asyncio.Future[None] | None = None
        self._began = 0.0
        self._heard_at = 0.0  # when anything came from the storage
        self._thread: ThreadPoolExecutor | None = None
        self._waits: dict[asyncio.Future[Any], Wait] = {}
        self._looking: asyncio.TimerHandle | None = None  # at those that wait

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
    def is_silent(self) -> bool:
        """Whether something was asked of the storage a while ago, and nobody heard from it since.

        If others do hear from it, it is this machine that is busy.
        """
        since = max(self._began, self._heard_at)
        return self._reading is not None and time.monotonic() - since > self._silent

    def watch(self, waiting: asyncio.Future[Any], most: float = math.inf) -> None:
        """End a wait for the storage once that says nothing any more, or after `most` seconds.

        What is slow, such as a flush, is waited for as long as anything else is answered meanwhile.
        """
        loop = asyncio.get_running_loop()
        self._waits[waiting] = Wait(loop.time(), most)
        waiting.add_done_callback(self._end)
        if self._looking is None:  # one timer for all: a service has a thousand waits a second
            self._look_again(loop)

    def _end(self, waiting: asyncio.Future[Any]) -> None:
        self._waits.pop(waiting, None)
        if not waiting.cancelled() and waiting.exception() is None:
            self._heard_at = time.monotonic()

    def _look_again(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + LOOK_SECONDS
        self._looking = loop.call_at(due, self._look, loop, due)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        """End the waits that are in vain; while there are others, look again."""
        self._looking, now = None, loop.time()
        if now - due > LATE_SECONDS:  # we are slow ourselves, which says nothing of it
            self._heard_at = time.monotonic()
        for waiting, (began, most) in list(self._waits.items()):
            if now - began >= min(most, LOOK_SECONDS) and not waiting.done():
                self.touch()
                if now - began >= most or self.is_silent:
                    waiting.set_exception(unanswered(now - began))
        if self._waits:
            self._look_again(loop)

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

    async def close(self) -> None:
        """Let the thread go, when it has read what it reads unless the storage stands still."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        self._waits.clear()
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=CLOSE_SECONDS)
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
        self._thread, self._reading = None, None
