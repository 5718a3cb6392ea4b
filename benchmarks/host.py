"""How fast this machine is at the moment: shared hosts differ by more than twice from hour to hour."""

from __future__ import annotations

import time

TERMS = 3_000_000


def loop_seconds() -> float:
    """What a plain Python loop takes, the best of three; 0.25 s where most figures were made."""
    return min(_once() for _ in range(3))


def _once() -> float:
    began, total = time.perf_counter(), 0
    for i in range(TERMS):
        total += i * i
    return time.perf_counter() - began
