"""Live updates: server-sent events whenever an experiment's journal grows.

Changes made by this process arrive at once; a look at the storage every half second finds those
of others.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from aline.app.service.metrics import Metrics
from aline.errors import UserError

LOOK_SECONDS = 0.5
QUIET_SECONDS = 15.0  # a comment after this long keeps proxies from hanging up

Look = Callable[[list[str]], Awaitable[dict[str, int]]]
logger = logging.getLogger("aline.service")


class FullError(UserError):
    """All live updates that there may be are open."""


@dataclass(eq=False)
class Seat:
    """The place of one who listens, or is about to."""

    is_welcome: Callable[[], bool]  # a token may be taken back while its owner listens
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False

    def end(self) -> None:
        """See that who listens stops."""
        self.is_over = True
        self.woken.set()


class Streams:
    """Who listens to what."""

    def __init__(self, look: Look, most: int, metrics: Metrics):
        self._look, self._most, self._metrics = look, most, metrics
        self._seats: set[Seat] = set()
        self._listeners: dict[str, set[Seat]] = defaultdict(set)
        self._lengths: dict[str, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_blind = False  # whether the last look failed

    def start(self) -> None:
        """Begin to look, in the running loop."""
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._watch())

    async def stop(self) -> None:
        """Let every listener go."""
        if self._task is not None:
            self._task.cancel()
        for seat in list(self._seats):
            seat.end()

    def take(self, is_welcome: Callable[[], bool] = lambda: True) -> Seat:
        """A seat, before anything is waited for: of two that come at once one may be too many."""
        if len(self._seats) >= self._most:
            raise FullError(
                f"{self._most} live updates are open, which is the most: close some, or ask now "
                "and then"
            )
        seat = Seat(is_welcome)
        self._seats.add(seat)
        self._metrics.streams.set(len(self._seats))
        return seat

    def leave(self, seat: Seat) -> None:
        """Give a seat back; once more does no harm."""
        self._seats.discard(seat)
        self._metrics.streams.set(len(self._seats))

    def changed(self, name: str, sequence: int) -> None:
        """A journal has this many events now; from any thread."""
        if name in self._listeners and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, name, sequence)

    def _wake(self, name: str, sequence: int) -> None:
        # Journals only grow.
        if name in self._listeners and sequence > self._lengths.get(name, 0):
            self._lengths[name] = sequence
            for seat in self._listeners[name]:
                seat.woken.set()

    async def listen(self, name: str, sequence: int, seat: Seat) -> AsyncIterator[str]:
        """Updates to an experiment from now on, as lines of a text/event-stream."""
        self._listeners[name].add(seat)
        self._lengths.setdefault(name, sequence)
        try:
            yield _message(sequence)
            while True:
                try:
                    await asyncio.wait_for(seat.woken.wait(), QUIET_SECONDS)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                seat.woken.clear()
                if seat.is_over:
                    return
                yield _message(self._lengths[name])
        finally:
            self._forget(name, seat)

    def _forget(self, name: str, seat: Seat) -> None:
        self._listeners[name].discard(seat)
        if not self._listeners[name]:
            del self._listeners[name]
            self._lengths.pop(name, None)

    async def _watch(self) -> None:
        """Look for others' changes as long as the service runs, whatever the storage does."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for seat in [one for one in self._seats if not one.is_welcome()]:
                seat.end()
            if self._listeners:
                await self._look_once()

    async def _look_once(self) -> None:
        try:
            lengths = await self._look(list(self._listeners))
        except Exception as error:
            self._note(blind=True, why=str(error))
            return
        self._note(blind=False)
        for name, length in lengths.items():
            self._wake(name, length)

    def _note(self, *, blind: bool, why: str = "") -> None:
        """A line in the log when others' changes cannot be seen any more, or can again."""
        if blind != self._is_blind:
            logger.warning("live updates: %s", f"cannot look ({why})" if blind else "look again")
        self._is_blind = blind


class LiveReply(StreamingResponse):
    """A reply that goes on, and gives its seat back however it ends."""

    def __init__(self, streams: Streams, name: str, sequence: int, seat: Seat):
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        content = streams.listen(name, sequence, seat)
        super().__init__(content, media_type="text/event-stream", headers=headers)
        self._streams, self._seat = streams, seat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until either side has enough."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.leave(self._seat)


def _message(sequence: int) -> str:
    return f"id: {sequence}\nevent: changed\ndata: {json.dumps({'sequence': sequence})}\n\n"
