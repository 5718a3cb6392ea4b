"""How a belief came about, observation by observation."""

from __future__ import annotations

import torch

from aline.experiment.posterior import Posterior
from aline.experiment.state import State, posterior_of


class History:
    """Posteriors after each observation, kept: one more trial costs one more posterior."""

    def __init__(self) -> None:
        self._rows: tuple[int, ...] = ()
        self._posteriors: list[Posterior] = []

    def of(self, state: State) -> list[Posterior]:
        """The posteriors with none, one, … and all of a state's observations."""
        known = _shared(self._rows, state.rows)
        kept = self._posteriors[: known + 1]
        if len(kept) < len(state.rows):
            kept += _replayed(state, len(kept), len(state.rows))
        if len(kept) == len(state.rows):
            kept.append(state.posterior)
        self._rows, self._posteriors = state.rows, kept
        return list(kept)


def _shared(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """How many rows two states have in common at their start."""
    pairs = zip(a, b, strict=False)
    return next((n for n, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


@torch.inference_mode()
def _replayed(state: State, start: int, stop: int) -> list[Posterior]:
    """The posteriors with start, …, stop - 1 observations."""
    engine, context, found = state.engine, state.context, []
    data = engine.begin(1)
    for length in range(stop):
        if length >= start:
            found.append(posterior_of(engine, data))
        data = engine.extend(data, context.designs[:, length], context.outcomes[:, length])
    return found
