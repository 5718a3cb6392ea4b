"""Python's search for garbage, kept out of requests' way.

Python looks through all objects whenever their number has grown by a quarter: with two hundred
experiments in memory that takes 0.1 s, in which nobody is served. What a service holds, it holds
for long. So what is still there after a second is set aside and looked through only when nobody
calls; all that no cycle holds is freed at once, as ever.
"""

from __future__ import annotations

import gc
import time

IDLE_SECONDS = 10.0  # without a call, after which somebody may wait for once
FULL_SECONDS = 300.0  # between looks through everything
NEVER = 10**6  # of younger looks, after which Python looks through everything on its own


class Garbage:
    """To be told of calls, and to be collected every second."""

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
