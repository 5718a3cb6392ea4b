"""Chooses for all that ask at the same moment in one pass of the network.

A pass for one experiment is a hundred small operations, and what they cost is mostly that there are
so many. A pass for several takes as many: the more participants, the fewer operations each needs.
"""

from __future__ import annotations

import asyncio
import itertools
import time

from aline.experiment import Experiment, prepare

MOST = 16  # at a time: with more, what a pass computes no longer fits the processor's cache
LONG = 0.02  # seconds that a pass may hold the event loop, if each had its own


class Chooser:
    """The one of a process; to be used from its event loop only."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Experiment, float, asyncio.Future[float]]] = []

    async def choose(self, experiment: Experiment, cost: float = 0.0) -> float:
        """Return when an experiment has its next design at hand; its share of the seconds.

        `cost` is what it may take, in seconds of computing, on its own.
        """
        loop = asyncio.get_running_loop()
        chosen: asyncio.Future[float] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._choose_all, loop)  # after all whose requests are here already
        self._waiting.append((experiment, cost, chosen))
        return await chosen

    def _choose_all(self, loop: asyncio.AbstractEventLoop) -> None:
        count = self._fitting()
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        if self._waiting:
            loop.call_soon(self._choose_all, loop)
        began = time.thread_time()
        try:
            prepare([experiment for experiment, _, _ in taken])
        finally:
            share = (time.thread_time() - began) / len(taken)
            for _, _, chosen in taken:
                if not chosen.done():  # or its caller has gone
                    chosen.set_result(share)

    def _fitting(self) -> int:
        """How many of those that wait make up a pass; at least one."""
        sums = itertools.accumulate(cost for _, cost, _ in self._waiting[:MOST])
        return max(1, sum(total <= LONG for total in sums))
