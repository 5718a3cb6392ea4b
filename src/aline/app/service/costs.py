"""What calls cost, learned from those that were made.

Whether work may hold the event loop must be known before it begins. So what was never measured
counts as endless, and what was measured at a smaller size as growing with its cube, which is how
Gaussian processes grow; networks grow slower.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable

_ALWAYS = 8  # observations' worth of work that every call has, so that 2 are not 8 times 1


class Costs:
    """Seconds of computing by what is done and how much there is of it."""

    def __init__(self) -> None:
        # what -> class of sizes -> the last size measured, and its seconds
        self._seen: defaultdict[Hashable, dict[int, tuple[int, float]]] = defaultdict(dict)

    def learn(self, what: Hashable, size: int, seconds: float) -> None:
        """Keep what a call took; one that found its work done already must not mislead."""
        _, before = self._seen[what].get(_class(size), (size, 0.0))
        self._seen[what][_class(size)] = (size, max(seconds, before / 2))

    def guess(self, what: Hashable, size: int) -> float:
        """What a call may take at most; infinite where nothing is known of smaller ones."""
        known = self._seen[what].values()
        above = min((seconds for at, seconds in known if at >= size), default=math.inf)
        at, seconds = max((one for one in known if one[0] <= size), default=(0, math.inf))
        return min(above, seconds * ((size + _ALWAYS) / (at + _ALWAYS)) ** 3)


def _class(size: int) -> int:
    """Sizes within a fifth of each other count as the same."""
    return round(4 * math.log2(size + 1))
