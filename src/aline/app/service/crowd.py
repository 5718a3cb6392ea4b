"""Who is connected, and who keeps the service waiting: as many as it can bear, and no more.

A connection whose request has not come yet costs a file and some memory. Who opens many of them and
sends nothing must not keep others out, so the oldest go when there are too many.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from typing import Protocol

SPARE_FILES = 100  # for what else a process opens: databases, models, pipes
MOST = 4000  # connections: each costs some memory, and more if it sends the most that it may
CLIENT_WAITS = 256  # connections of one address whose request has not come
LOG_SECONDS = 10.0  # between lines about one address

logger = logging.getLogger("aline.service")


class Guest(Protocol):
    """A connection."""

    has_spoken: bool  # whether it ever sent a whole request

    @property
    def address(self) -> str:
        """Whose it is."""

    def hang_up(self) -> None:
        """End it at once."""


class Crowd:
    """The connections of a process; to be used from its event loop only."""

    def __init__(self, most: int | None = None):
        self._most = most or min(file_limit() - SPARE_FILES, MOST)
        self._all: set[Guest] = set()
        # In the order in which they began to wait; an address without any has no entry.
        self._waiting: defaultdict[str, dict[Guest, None]] = defaultdict(dict)
        self._log = Complaints()

    def enter(self, guest: Guest) -> None:
        """A connection was made; it waits, as nothing has come yet."""
        self._all.add(guest)
        self.wait(guest)
        if len(self._all) > self._most:
            address = max(self._waiting, key=lambda one: len(self._waiting[one]))
            self._turn_out(address, f"more than {self._most} connections are open")

    def wait(self, guest: Guest) -> None:
        """A connection's next request, or the rest of it, has to come."""
        if guest not in self._all:
            return
        self._waiting[guest.address][guest] = None
        if len(self._waiting[guest.address]) > CLIENT_WAITS:
            self._turn_out(guest.address, f"more than {CLIENT_WAITS} wait for their request")

    def serve(self, guest: Guest) -> None:
        """A connection's request is complete."""
        mine = self._waiting.get(guest.address, {})
        mine.pop(guest, None)
        if not mine:
            self._waiting.pop(guest.address, None)

    def leave(self, guest: Guest) -> None:
        """A connection was lost."""
        self.serve(guest)
        self._all.discard(guest)

    def complain(self, guest: Guest, why: str) -> None:
        """Say in the log why a connection was ended."""
        self._log.add(guest.address, why)

    def _turn_out(self, address: str, why: str) -> None:
        """End the oldest that waits, one that never sent a request if there is one."""
        mine = self._waiting[address]
        guest = next((one for one in mine if not one.has_spoken), next(iter(mine)))
        self.complain(guest, why)
        self.leave(guest)
        guest.hang_up()


class Complaints:
    """Lines in the log, of which an attack must not make millions."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._said: dict[str, float] = {}

    def add(self, address: str, why: str) -> None:
        """Count a connection that was ended, and say so now and then."""
        self._counts[address, why] += 1
        now = time.monotonic()
        if now - self._said.get(address, -LOG_SECONDS) < LOG_SECONDS:
            return
        if len(self._said) > 1000:
            self._said.clear()
            self._counts = Counter({(address, why): self._counts[address, why]})
        self._said[address] = now
        logger.warning(
            "hung up on %s: %s (%d times so far)", address, why, self._counts[address, why]
        )


def file_limit() -> int:
    """How many files, and connections, this process may have open."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limit
        return 8192
    return min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 65536)


def raise_file_limit() -> None:
    """Take as many files as the system lets this process have."""
    try:
        import resource
    except ModuleNotFoundError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8192 if hard == resource.RLIM_INFINITY else min(hard, 8192)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
