"""Events that wait to be written."""

from __future__ import annotations

from typing import Any

from aline.experiment.storage import base
from aline.experiment.storage.base import Addition, Event, Journal


class Draft(Journal):
    """Takes an experiment's next events without waiting for the disk.

    For a caller that writes what several experiments have drafted in one go, and shows an
    experiment's new state only then: nothing in a draft has happened yet.
    """

    def __init__(self) -> None:
        self._sequence = 0
        self._texts: list[str] = []

    def append(self, name: str, sequence: int, event: Event) -> None:
        """Keep an event; whether its place is free shows when it is written."""
        if not self._texts:
            self._sequence = sequence
        self._texts.append(base.to_text(event))

    def read(self, name: str, start: int = 0) -> list[dict[str, Any]]:
        """No news: the caller looks at the storage."""
        return []

    def addition(self, name: str) -> Addition | None:
        """What an experiment has drafted, if anything."""
        return Addition(name, self._sequence, self._texts) if self._texts else None
