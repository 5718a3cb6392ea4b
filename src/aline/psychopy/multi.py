"""Several adaptive procedures interleaved, as PsychoPy's MultiStairHandler does."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from aline.errors import InputError, StateError
from aline.psychopy.handler import AlineHandler

Order = Literal["random", "sequential", "fullRandom"]


class MultiAline:
    """Takes trials of several handlers in turn, until all are finished.

    A condition is a dict with a `label` and settings of `AlineHandler`, which override those given
    for all:

    >>> conditions = [{"label": "left"}, {"label": "right", "startIntensity": -2}]
    >>> stairs = MultiAline(conditions, model="psychometric", nTrials=4)
    >>> for level, condition in stairs:
    ...     stairs.addResponse(level > 0)
    ...     stairs.addOtherData("rt", 0.41)
    >>> stairs.finished, stairs.running, stairs.currentStaircase.name in ("left", "right")
    (True, [], True)
    >>> import tempfile
    >>> [path.name for path in stairs.saveAsText(f"{tempfile.mkdtemp()}/anna")]
    ['anna_left.tsv', 'anna_right.tsv']

    `method` is "random" (each pass has every handler once, shuffled), "sequential", or "fullRandom"
    (any of them at each trial). With `storage`, each handler is an experiment of its label.
    """

    def __init__(
        self,
        conditions: Sequence[Mapping[str, Any]],
        *,
        method: Order = "random",
        seed: int = 0,
        **settings: Any,
    ):
        labels = [str(one.get("label", "")) for one in conditions]
        if not labels or "" in labels or len(set(labels)) < len(labels):
            raise InputError(
                f"conditions are dicts, each with a label of its own, got labels {labels}: "
                '[{"label": "left"}, {"label": "right"}]'
            )
        if method not in ("random", "sequential", "fullRandom"):
            raise InputError(f"method is random, sequential or fullRandom, got {method!r}")
        self.conditions = [dict(one) for one in conditions]
        each = [{"seed": seed + i, **settings, **one} for i, one in enumerate(conditions)]
        handlers = [AlineHandler(name=str(one.pop("label")), **one) for one in each]
        self._begin(handlers, method, seed)

    def _begin(self, handlers: list[AlineHandler], method: Order, seed: int) -> None:
        self.staircases, self.method = handlers, method
        self._order = random.Random(seed)
        self._pass: list[int] = []
        self._current: int | None = None

    @classmethod
    def resume(
        cls,
        storage: str,
        conditions: Sequence[Mapping[str, Any]],
        *,
        method: Order = "random",
        seed: int = 0,
    ) -> MultiAline:
        """Go on with handlers that were stored, by the labels of their conditions.

        >>> import tempfile
        >>> url = f"sqlite:///{tempfile.mkdtemp()}/lab.db"
        >>> sides = [{"label": "left"}, {"label": "right"}]
        >>> first = MultiAline(sides, model="psychometric", nTrials=5, storage=url)
        >>> len(MultiAline.resume(url, sides).running)
        2
        """
        found = cls.__new__(cls)
        found.conditions = [dict(one) for one in conditions]
        handlers = [AlineHandler.resume(storage, str(one["label"])) for one in conditions]
        found._begin(handlers, method, seed)
        return found

    @property
    def finished(self) -> bool:
        """Whether all handlers are."""
        return all(one.finished for one in self.staircases)

    @property
    def running(self) -> list[AlineHandler]:
        """The handlers that are not finished."""
        return [one for one in self.staircases if not one.finished]

    @property
    def currentStaircase(self) -> AlineHandler:
        """The handler whose trial it is."""
        if self._current is None:
            raise StateError("there is no trial yet: call next() first")
        return self.staircases[self._current]

    def __iter__(self) -> Iterator[tuple[float, dict[str, Any]]]:
        return self

    def __next__(self) -> tuple[float, dict[str, Any]]:
        """The next trial's level and its condition."""
        while not self.finished:
            self._current = self._next()
            try:
                return next(self.currentStaircase), self.conditions[self._current]
            except StopIteration:
                continue
        raise StopIteration

    def _next(self) -> int:
        """Whose turn it is."""
        left = [i for i, one in enumerate(self.staircases) if not one.finished]
        if self.method == "fullRandom":
            return self._order.choice(left)
        self._pass = [i for i in self._pass if i in left]
        if not self._pass:
            self._pass = self._order.sample(left, len(left)) if self.method == "random" else left
        return self._pass.pop(0)

    def addResponse(self, result: Any, intensity: float | None = None) -> None:
        """Tell the answer to the trial that is on."""
        self.currentStaircase.addResponse(result, intensity)

    def addOtherData(self, dataName: str, value: Any) -> None:
        """Keep something else about the trial that is on."""
        self.currentStaircase.addOtherData(dataName, value)

    def saveAsText(self, fileName: str | Path, **options: Any) -> list[Path]:
        """A file for each handler, its label behind the name; options as a handler's."""
        return [one.saveAsText(f"{fileName}_{one.name}", **options) for one in self.staircases]
