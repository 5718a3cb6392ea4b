"""Writes what trials leave to be written: one thread, and one flush for all that wait.

A flush takes longer than a trial. While one runs, the additions of other experiments gather, and
the next flush takes them all: the more participants, the fewer flushes each needs.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from aline.app.service.pools import unanswered
from aline.experiment import Storage
from aline.experiment.storage import Addition

Waiting = list[tuple[Addition, "asyncio.Future[None]"]]


class Scribe:
    """The one writer of a process; to be used from its event loop only."""

    def __init__(self, storage: Storage):
        self._storage = storage
        self._thread = ThreadPoolExecutor(1, "scribe")
        self._waiting: Waiting = []
        self._task: asyncio.Task[None] | None = None

    async def write(self, addition: Addition, seconds: float = math.inf) -> None:
        """Return when an addition is on disk; raise what kept it out.

        After so many `seconds` nobody knows whether it will be: that is raised, too.
        """
        loop = asyncio.get_running_loop()
        written = loop.create_future()
        self._waiting.append((addition, written))
        if self._task is None:
            self._task = loop.create_task(self._write_all(loop))
        if seconds == math.inf:
            await written
            return
        # Not asyncio.wait_for, which takes as long as some of what it would wait for.
        timer = loop.call_later(seconds, _give_up, written, seconds)
        try:
            await written
        finally:
            timer.cancel()

    async def _write_all(self, loop: asyncio.AbstractEventLoop) -> None:
        """Until nobody waits."""
        try:
            while self._waiting:
                taken, self._waiting = self._waiting, []
                _answer(taken, await self._write(loop, [addition for addition, _ in taken]))
        finally:
            self._task = None

    async def _write(
        self, loop: asyncio.AbstractEventLoop, additions: list[Addition]
    ) -> Sequence[Exception | None]:
        """What kept each addition out; a storage that fails fails them all."""
        try:
            return await loop.run_in_executor(self._thread, self._storage.write, additions)
        except Exception as error:
            return [error] * len(additions)

    def close(self) -> None:
        """Let the thread go when it has written what it has."""
        self._thread.shutdown(wait=True)


def _give_up(written: asyncio.Future[None], seconds: float) -> None:
    if not written.done():
        written.set_exception(unanswered(seconds))


def _answer(taken: Waiting, problems: Sequence[Exception | None]) -> None:
    for (_, written), problem in zip(taken, problems, strict=True):
        if written.done():  # its caller has gone
            continue
        if problem is None:
            written.set_result(None)
        else:
            written.set_exception(problem)
