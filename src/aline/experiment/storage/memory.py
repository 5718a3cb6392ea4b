"""Experiments that live as long as the process."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from aline.experiment.storage import base
from aline.experiment.storage.base import Event, Storage


class MemoryStorage(Storage):
    """Journals in a dictionary, as text, so that they are as immutable as on disk."""

    def __init__(self) -> None:
        self._journals: dict[str, list[str]] = {}
        self._tokens: dict[str, str] = {}
        self._lock = threading.Lock()

    def create(self, name: str, event: Event) -> None:
        """Start a journal."""
        text = base.to_text(event)
        with self._lock:
            if name in self._journals:
                raise base.taken(name)
            self._journals[name] = [text]

    def append(self, name: str, sequence: int, event: Event) -> None:
        """Add an event."""
        text = base.to_text(event)
        journal = self._journal(name)
        with self._lock:
            if sequence != len(journal):
                raise base.conflict(name, sequence)
            journal.append(text)

    def read(self, name: str, start: int = 0) -> list[dict[str, Any]]:
        """The events from `start` on."""
        rows = enumerate(self._journal(name)[start:], start)
        return [base.from_text(text, name, sequence) for sequence, text in rows]

    def names(self) -> list[str]:
        """The experiments, the oldest first."""
        return list(self._journals)

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
