"""How a belief came about, observation by observation."""

from __future__ import annotations

from collections.abc import Sequence

from aline.errors import InputError
from aline.experiment.knowledge import Knowledge
from aline.experiment.posterior import Posterior
from aline.experiment.state import State, posterior_of


class History:
    """Posteriors after some observations, kept: one more trial costs one more posterior."""

    def __init__(self) -> None:
        self._rows: tuple[int, ...] = ()
        self._knowledge: Knowledge = {}
        self._kept: dict[int, Posterior] = {}  # by how many observations they know

    def of(self, state: State, lengths: Sequence[int] | None = None) -> list[Posterior]:
        """The posteriors with so many of a state's observations; all, from none on, by default."""
        count = len(state.rows)
        wanted = range(count + 1) if lengths is None else lengths
        if any(not 0 <= n <= count for n in wanted) or sorted(wanted) != list(wanted):
            raise InputError(f"lengths must ascend from 0 to {count} at most, got {lengths!r}")
        shared = _shared(self._rows, state.rows) if state.knowledge == self._knowledge else -1
        kept = {n: known for n, known in self._kept.items() if n <= shared}
        missing = [n for n in wanted if n not in kept and n < count]
        kept |= {n: _posterior(state, n) for n in missing}
        kept.setdefault(count, state.posterior)
        self._rows, self._kept, self._knowledge = state.rows, kept, state.knowledge
        return [kept[n] for n in wanted]


def _shared(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """How many rows two states have in common at their start."""
    if a == b[: len(a)]:
        return len(a)
    pairs = zip(a, b, strict=False)
    return next((n for n, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


def _posterior(state: State, length: int) -> Posterior:
    """With the first observations of a state."""
    data = state.engine.read(state.context.first(length))
    return state.corrected(posterior_of(state.engine, data))
