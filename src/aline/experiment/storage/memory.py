"""Experiments that live as long as the process."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from aline.errors import UserError
from aline.experiment.storage import base
from aline.experiment.storage.base import Addition, Event, Storage


class MemoryStorage(Storage):
    """Journals in a dictionary, as text, so that they are as immutable as on disk."""

    def __init__(self) -> None:
        self._journals: dict[str, list[str]] = {}
        self._made: dict[str, str] = {}  # the experiment of each key
        self._tokens: dict[str, str] = {}
        self._lock = threading.Lock()

    def create(self, name: str, event: Event) -> None:
        """Start a journal."""
        text, key = base.to_text(event), event.get("key")
        with self._lock:
            if name in self._journals:
                raise base.taken(name)
            if key in self._made:
                raise base.UsedKeyError(key, self._made[key])
            self._journals[name] = [text]
            if key is not None:
                self._made[key] = name

    def write(self, additions: Sequence[Addition]) -> list[UserError | None]:
        """Add to several journals."""
        with self._lock:
            return [self._add(one) for one in additions]

    def _add(self, addition: Addition) -> UserError | None:
        journal = self._journals.get(addition.name)
        if journal is None:
            return base.missing(addition.name, self.names())
        if addition.sequence != len(journal):
            return base.conflict(addition.name, addition.sequence)
        journal.extend(addition.texts)
        return None

    def read(self, name: str, start: int = 0) -> list[dict[str, Any]]:
        """The events from `start` on."""
        rows = enumerate(self._journal(name)[start:], start)
        return [base.from_text(text, name, sequence) for sequence, text in rows]

    def names(self) -> list[str]:
        """The experiments, the oldest first."""
        return list(self._journals)

    def count(self) -> int:
        """How many experiments there are."""
        return len(self._journals)

    def lengths(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """How many events each experiment has."""
        wanted = self._journals.keys() if names is None else set(names)
        return {name: len(rows) for name, rows in self._journals.items() if name in wanted}

    def tokens(self) -> dict[str, str]:
        """The digests of access tokens."""
        return dict(self._tokens)

    def add_token(self, name: str, digest: str) -> None:
        """Keep an access token's digest."""
        if name in self._tokens:
            raise base.token_taken(name)
        self._tokens[name] = digest

    def remove_token(self, name: str) -> None:
        """Forget an access token."""
        if name not in self._tokens:
            raise base.token_missing(name, self._tokens)
        del self._tokens[name]

    def close(self) -> None:
        """Nothing to let go of."""

    def _journal(self, name: str) -> list[str]:
        if name not in self._journals:
            raise base.missing(name, self.names())
        return self._journals[name]
