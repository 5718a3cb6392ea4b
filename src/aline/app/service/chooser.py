"""Chooses for all that ask at the same moment in one pass of the network.

A pass for one experiment is a hundred small operations, and what they cost is mostly that there are
so many. A pass for several takes as many: the more participants, the fewer operations each needs.
"""

from __future__ import annotations

import asyncio
import time

from aline.experiment import Experiment, prepare

MOST = 16  # at a time: with more, what a pass computes no longer fits the processor's cache


class Chooser:
    """The one of a process; to be used from its event loop only."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Experiment, asyncio.Future[float]]] = []

    async def choose(self, experiment: Experiment) -> float:
        """Return when an experiment has its next design at hand; its share of the seconds."""
        loop = asyncio.get_running_loop()
        chosen: asyncio.Future[float] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._choose_all, loop)  # after all whose requests are here already
        self._waiting.append((experiment, chosen))
        return await chosen

    def _choose_all(self, loop: asyncio.AbstractEventLoop) -> None:
        taken, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
        if self._waiting:
            loop.call_soon(self._choose_all, loop)
        began = time.perf_counter()
        try:
            prepare([experiment for experiment, _ in taken])
        finally:
            share = (time.perf_counter() - began) / len(taken)
            for _, chosen in taken:
                if not chosen.done():  # or its caller has gone
                    chosen.set_result(share)
