"""What every storage does."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from aline.errors import NotFoundError, StateError, StorageError, UserError

Event = Mapping[str, Any]
"""Something that happened to an experiment, as plain JSON data."""


class Conflict(StateError):  # noqa: N818 - to its one catcher it is news, not a failure
    """Another writer was first: this place in the journal is taken."""


class UsedKeyError(StateError):
    """A key that has made an experiment of another name."""

    def __init__(self, key: str, name: str):
        super().__init__(
            f"the key {key!r} has made experiment {name!r}: give every call a key of its own"
        )
        self.name = name


class Addition(NamedTuple):
    """Events to add to one journal, all or none of them."""

    name: str
    sequence: int  # the number of the first
    texts: Sequence[str]  # each as `to_text` gives it


class Journal(ABC):
    """What an experiment needs of the place where its events are kept."""

    @abstractmethod
    def append(self, name: str, sequence: int, event: Event) -> None:
        """Add event number `sequence`, which must be the next; Conflict if it is not."""

    @abstractmethod
    def read(self, name: str, start: int = 0) -> list[dict[str, Any]]:
        """The events from number `start` on, in order; NotFoundError if there is no journal."""


class Storage(Journal):
    """Journals of events, one an experiment; the truth from which everything else is derived.

    An event is stored whole or not at all, and once a call has returned it stays.

    >>> from aline.experiment import open_storage
    >>> storage = open_storage("memory://")
    >>> storage.create("anna", {"event": "created"})
    >>> storage.append("anna", 1, {"event": "asked"})
    >>> storage.names(), storage.count(), storage.lengths(), storage.read("anna", 1)
    (['anna'], 1, {'anna': 2}, [{'event': 'asked'}])
    >>> storage.add_token("tablet", "digest")
    >>> storage.remove_token("tablet")
    >>> storage.tokens()
    {}
    >>> storage.write([])
    []
    >>> storage.close()
    """

    answer_seconds = 2.0  # for a small question; who takes longer than that stands still

    @abstractmethod
    def create(self, name: str, event: Event) -> None:
        """Start a journal with its event number 0; StateError if the name is taken.

        An event that has a "key" makes one journal only: UsedKeyError if the key made another.
        """

    @abstractmethod
    def write(self, additions: Sequence[Addition]) -> list[UserError | None]:
        """Add to several journals, one addition each, and make all that last at once.

        What kept an addition out, a Conflict or NotFoundError, stands in its place of the result.
        """

    def append(self, name: str, sequence: int, event: Event) -> None:
        """Add an event."""
        (problem,) = self.write([Addition(name, sequence, [to_text(event)])])
        if problem is not None:
            raise problem

    @abstractmethod
    def names(self) -> list[str]:
        """The experiments, the oldest first."""

    @abstractmethod
    def count(self) -> int:
        """How many experiments there are."""

    @abstractmethod
    def lengths(self, names: Iterable[str] | None = None) -> dict[str, int]:
        """How many events each experiment has, or each of `names` that is there; oldest first."""

    # A storage that others can reach over HTTP also keeps who may: digests, never tokens.

    @abstractmethod
    def tokens(self) -> dict[str, str]:
        """The digests of access tokens by name."""

    @abstractmethod
    def add_token(self, name: str, digest: str) -> None:
        """Keep an access token's digest; StateError if the name is taken."""

    @abstractmethod
    def remove_token(self, name: str) -> None:
        """Forget an access token; NotFoundError if there is none of that name."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files; what is stored stays."""


_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def to_text(event: Event) -> str:
    """An event as stored: one line of JSON, without NaN, which other readers would refuse."""
    try:
        return _ENCODER.encode(event)
    except (TypeError, ValueError, RecursionError) as error:
        raise StorageError(f"an event must be plain JSON data ({error}), got {event!r}") from None


def from_text(text: str, name: str, sequence: int) -> dict[str, Any]:
    """Read what `to_text` wrote."""
    try:
        event = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise StorageError(
            f"event {sequence} of experiment {name!r} is damaged: restore the storage from a copy"
        )
    return event


def taken(name: str) -> StateError:
    """The error for a name that is in use."""
    return StateError(
        f"an experiment named {name!r} is in this storage already: "
        "continue it with Experiment.resume(...), or choose another name"
    )


def missing(name: str, names: list[str]) -> NotFoundError:
    """The error for a name that is not there."""
    shown = [*map(repr, names[:10]), *([f"{len(names) - 10} more"] if len(names) > 10 else [])]
    return NotFoundError(f"the storage holds {', '.join(shown) or 'no experiment'}, got {name!r}")


def token_taken(name: str) -> StateError:
    """The error for a token's name that is in use."""
    return StateError(f"a token named {name!r} is there already: choose another name")


def token_missing(name: str, names: Iterable[str]) -> NotFoundError:
    """The error for a token that is not there."""
    return NotFoundError(f"tokens are {', '.join(names) or 'none'}, got {name!r}")


def conflict(name: str, sequence: int) -> Conflict:
    """The error for a place that is taken."""
    return Conflict(
        f"event {sequence} is not the next of experiment {name!r}: "
        "another process wrote to it; read the journal again"
    )


def lost(name: str) -> StorageError:
    """The error for a place that is taken by nothing."""
    return StorageError(f"experiment {name!r} lost events in its storage")
