"""Writes what trials leave to be written: one thread, and one flush for all that wait.

A flush takes longer than a trial. While one runs, the additions of other experiments gather, and
the next flush takes them all: the more participants, the fewer flushes each needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from aline.experiment import Storage
from aline.experiment.storage import Addition

Waiting = list[tuple[Addition, "asyncio.Future[None]"]]


class Scribe:
    """The one writer of a process; to be used from its event loop only."""

    def __init__(
        self,
        storage: Storage,
        watch: Callable[[asyncio.Future[None]], None] = lambda waiting: None,
    ):
        """Whoever waits is shown to `watch`, which may end that with an exception."""
        self._storage, self._watch = storage, watch
        self._thread = ThreadPoolExecutor(1, "scribe")
        self._waiting: Waiting = []
        self._task: asyncio.Task[None] | None = None

    async def write(self, addition: Addition) -> None:
        """Return when an addition is on disk; raise what kept it out.

        Where the watch ends the wait, nobody knows whether it will be.
        """
        loop = asyncio.get_running_loop()
        written = loop.create_future()
        self._waiting.append((addition, written))
        if self._task is None:
            self._task = loop.create_task(self._write_all(loop))
        self._watch(written)
        await written

    async def _write_all(self, loop: asyncio.AbstractEventLoop) -> None:
        """Until nobody waits."""
        try:
            while self._waiting:
                # Who was told to try again, while others were at the disk, will.
                taken = [one for one in self._waiting if not one[1].done()]
                self._waiting = []
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


def _answer(taken: Waiting, problems: Sequence[Exception | None]) -> None:
    for (_, written), problem in zip(taken, problems, strict=True):
        if written.done():  # its caller has gone
            continue
        if problem is None:
            written.set_result(None)
        else:
            written.set_exception(problem)
