"""How an experiment changes: an event is checked and computed, then stored, then shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aline.errors import StateError, UserError
from aline.experiment.journals import now, replay
from aline.experiment.keys import repeated
from aline.experiment.settings import check_key
from aline.experiment.state import State
from aline.experiment.storage import Conflict, Event
from aline.experiment.storage.base import lost
from aline.experiment.trial import Trial, copied
from aline.experiment.view import View

_ATTEMPTS = 100  # how often to try again when other processes write to the same experiment


class Committing(View):
    """The part of an experiment that writes events."""

    def refresh(self) -> bool:
        """Take in what other processes did to it; whether there was anything.

        Methods that change the experiment do so on their own where they must.

        >>> experiment.refresh()
        False
        """
        events = self._storage.read(self._name, self._state.sequence)
        self._state = replay(self._state, events, self._name)
        return bool(events)

    def _change(self, **settings: Any) -> None:
        self._commit(lambda state: {"event": "changed", **settings})

    def _commit(
        self,
        propose: Callable[[State], Event],
        key: str | None = None,
        **same: Any,
    ) -> Event:
        """Check and compute, then store, then show: an error on the way leaves all as it was.

        If another process was first, look at what it did and decide again. What a key has done
        is not done again, if it was the `same`. Returns the event as stored.
        """
        for _ in range(_ATTEMPTS):
            earlier = None if key is None else self._state.keys.get(check_key(key))
            if key is not None and earlier is not None:
                return repeated(earlier, key, same)
            if self._state.closed:
                raise StateError(f"experiment {self._name!r} is closed: start a new one")
            try:
                proposed = propose(self._state)
            except UserError:  # which may be news to this object only: look before refusing
                if not self.refresh():
                    raise
                continue
            event = {**proposed, **({"key": key} if key else {}), "time": now()}
            state = self._state.after(event)
            try:
                self._storage.append(self._name, self._state.sequence, event)
            except Conflict:
                if not self.refresh():
                    raise lost(self._name) from None
            else:
                self._state = state
                return event
        raise StateError(
            f"other processes kept writing to experiment {self._name!r}: try again later"
        )

    def _trial(self, event: Event) -> Trial:
        """The trial an event is about, as it is now."""
        return copied(self._state.trials[event["trial"]])
