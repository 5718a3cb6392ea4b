"""Live updates: server-sent events whenever an experiment's journal grows.

Changes made by this process arrive at once; a look at the storage every half second finds those
of others.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable

from aline.app.service.metrics import Metrics

LOOK_SECONDS = 0.5
CLOSING = -1  # in place of a journal's length
QUIET_SECONDS = 15.0  # a comment after this long keeps proxies from hanging up

Look = Callable[[list[str]], Awaitable[dict[str, int]]]


class Streams:
    """Who listens to what."""

    def __init__(self, look: Look, most: int, metrics: Metrics):
        self._look, self._most, self._metrics = look, most, metrics
        self._listeners: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._lengths: dict[str, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._count = 0

    def start(self) -> None:
        """Begin to look, in the running loop."""
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._watch())

    async def stop(self) -> None:
        """Let every listener go."""
        if self._task is not None:
            self._task.cancel()
        for name in list(self._listeners):
            self._wake(name, CLOSING)

    @property
    def is_full(self) -> bool:
        """Whether one more would be too many."""
        return self._count >= self._most

    def changed(self, name: str, sequence: int) -> None:
        """A journal has this many events now; from any thread."""
        if name in self._listeners and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, name, sequence)

    def _wake(self, name: str, sequence: int) -> None:
        is_news = sequence == CLOSING or sequence > self._lengths.get(name, 0)  # journals only grow
        if name in self._listeners and is_news:
            self._lengths[name] = sequence
            for listener in self._listeners[name]:
                listener.set()

    async def listen(self, name: str, sequence: int) -> AsyncIterator[str]:
        """Updates to an experiment from now on, as lines of a text/event-stream."""
        woken = asyncio.Event()
        self._listeners[name].add(woken)
        self._lengths.setdefault(name, sequence)
        self._set_count(self._count + 1)
        try:
            yield _message(sequence)
            while True:
                try:
                    await asyncio.wait_for(woken.wait(), QUIET_SECONDS)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                woken.clear()
                if self._lengths[name] == CLOSING:
                    return
                yield _message(self._lengths[name])
        finally:
            self._set_count(self._count - 1)
            self._listeners[name].discard(woken)
            if not self._listeners[name]:
                del self._listeners[name]
                self._lengths.pop(name, None)

    def _set_count(self, count: int) -> None:
        self._count = count
        self._metrics.streams.set(count)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._listeners:
                lengths = await self._look(list(self._listeners))
                for name, length in lengths.items():
                    self._wake(name, length)


def _message(sequence: int) -> str:
    return f"id: {sequence}\nevent: changed\ndata: {json.dumps({'sequence': sequence})}\n\n"
