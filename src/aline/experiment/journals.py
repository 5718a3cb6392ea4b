"""The journal of an experiment: how it begins, is found in a storage, and is read again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from aline.errors import AlineError, NotFoundError, StateError, StorageError
from aline.experiment.settings import check_name
from aline.experiment.state import State
from aline.experiment.storage import Event, Storage, UsedKeyError

VERSION = 1  # of the events that a journal holds
_ATTEMPTS = 100  # how often to try again when other processes create experiments too


def read_journal(storage: Storage, name: str) -> tuple[Event, Sequence[Event]]:
    """The event that created an experiment, and those after it."""
    created, *events = storage.read(name)
    if created.get("event") != "created" or created["version"] > VERSION:
        raise StorageError(f"experiment {name!r} was written by a newer aline: upgrade aline")
    return created, events


def replay(state: State, events: Sequence[Event], name: str) -> State:
    """The state after the events that were read from the journal of that name."""
    for event in events:
        try:
            state = state.after(event)
        except StorageError:
            raise
        except (AlineError, LookupError, TypeError, ValueError) as error:
            raise StorageError(
                f"event {state.sequence} of experiment {name!r} does not fit the ones before it "
                f"({error!r}): restore the storage from a copy"
            ) from None
    return state


def create(storage: Storage, name: str | None, task: str, event: Event) -> str:
    """Start the journal, under the first free name if none is given."""
    check_name(f"{task}-1" if name is None else name)
    if name is not None:
        storage.create(name, event)
        return name
    for number in range(1, _ATTEMPTS + len(names := set(storage.names()))):
        if f"{task}-{number}" not in names:
            try:
                storage.create(f"{task}-{number}", event)
            except UsedKeyError:
                raise
            except StateError:  # another process took it just now
                continue
            return f"{task}-{number}"
    raise StateError("other processes kept taking the next free name: pass name=")


def only_name(names: list[str]) -> str:
    """The name of the only experiment in a storage."""
    if len(names) == 1:
        return names[0]
    held = ", ".join(map(repr, names)) or "no experiment"
    error = StateError if names else NotFoundError
    raise error(f"the storage holds {held}: say which to resume, Experiment.resume(storage, name)")


def now() -> str:
    """The time that an event is stored with."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
