"""An experiment in the JSON file that a page or a service gave of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aline.errors import StorageError, UserError
from aline.experiment.storage import base
from aline.experiment.storage.base import Addition, Event
from aline.experiment.storage.memory import MemoryStorage

SUFFIX = ".json"


class ExportedStorage(MemoryStorage):
    """To look at: what was measured elsewhere goes on there, or in a new experiment."""

    def __init__(self, path: Path):
        super().__init__()
        self._path = path
        name, journal = _read(path)
        super().create(name, journal[0])
        if problem := self._add(Addition(name, 1, [base.to_text(one) for one in journal[1:]])):
            raise problem

    def create(self, name: str, event: Event) -> None:
        """Refused."""
        raise self._refusal()

    def write(self, additions: Sequence[Addition]) -> list[UserError | None]:
        """Refused."""
        return [self._refusal() for _ in additions]

    def _refusal(self) -> StorageError:
        return StorageError(
            f"{self._path} is a copy of an experiment, which nothing is added to: start a new "
            "experiment and attach its data"
        )


def _read(path: Path) -> tuple[str, list[dict[str, Any]]]:
    """An experiment's name and events."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror}): check the path") from None
    except (ValueError, RecursionError):
        data = None
    data = data if isinstance(data, dict) else {}
    about = data.get("experiment", data)  # plain data of a page have no more than name and journal
    name = about.get("name") if isinstance(about, dict) else None
    journal = data.get("journal")
    if not (isinstance(name, str) and isinstance(journal, list) and journal):
        raise StorageError(
            f'{path} is not the JSON of an experiment: give the file that export("json") wrote'
        )
    return name, journal
