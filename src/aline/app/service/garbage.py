"""Garbage collection between requests instead of during them.

Python visits all objects whenever their number has grown by a quarter: with two hundred experiments
in memory that takes 0.1 s, during which no request is served. What a service holds lives long. So
objects that are a second old are frozen, and collected only while there are no requests. Objects
outside reference cycles are freed at once, as always.
"""

from __future__ import annotations

import gc
import time

IDLE_SECONDS = 10.0  # without a request, after which a full collection may delay one
FULL_SECONDS = 300.0  # between full collections
NEVER = 10**6  # collections of young objects, after which Python starts a full one itself


class Garbage:
    """Counts requests, and collects while there are none; to be run every second."""

    def __init__(self) -> None:
        self._called_at = self._looked_at = time.monotonic()
        self._before = gc.get_threshold()

    def start(self) -> None:
        """See to it from now on."""
        young, middle, _ = self._before
        gc.set_threshold(young, middle, NEVER)

    def stop(self) -> None:
        """Leave it to Python again."""
        gc.set_threshold(*self._before)
        gc.unfreeze()

    def called(self) -> None:
        """Somebody is being served."""
        self._called_at = time.monotonic()

    def collect(self) -> None:
        """Free what is young, set the rest aside; look through everything when nobody calls."""
        now = time.monotonic()
        is_idle = now - self._called_at > IDLE_SECONDS
        if is_idle and now - self._looked_at > FULL_SECONDS:
            self._looked_at = now
            gc.unfreeze()
            gc.collect()
        else:
            gc.collect(1)
        gc.freeze()
