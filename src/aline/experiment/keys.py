"""Events by their callers' keys, in a map that a state shares with earlier states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aline.errors import StateError
from aline.experiment.storage import Event

PART = 256  # keys that adding one copies at most


class Keys:
    """A key -> the event it marked. Never changed: `adding` gives another."""

    def __init__(self, parts: tuple[dict[str, Event], ...] = ({},)):
        self._parts = parts

    def get(self, key: str) -> Event | None:
        """What a key did, if anything."""
        return next((part[key] for part in self._parts if key in part), None)

    def adding(self, key: str, event: Event) -> Keys:
        """With one more."""
        *full, last = self._parts
        if len(last) < PART:
            return Keys((*full, {**last, key: event}))
        return Keys((*self._parts, {key: event}))


def repeated(earlier: Event, key: str, same: Mapping[str, Any]) -> Event:
    """What a key did before, if it is asked to do the same again."""
    if any(earlier.get(name) != value for name, value in same.items()):
        raise StateError(
            f"the key {key!r} has marked another call ({earlier['event']}): "
            "give every call a key of its own, and repeat only what got no reply"
        )
    return earlier
