"""The experiments and models that a process has at hand.

What an experiment is stays in its storage. This only keeps replayed ones in memory, one caller at
a time for each, and looks at the storage before every use, as other processes write there too.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aline import zoo
from aline.app.demo import Observer
from aline.app.subject import open_subject
from aline.errors import InputError, NotFoundError, StateError, UserError
from aline.experiment import Experiment, Storage, Trial
from aline.model import Model

KEPT = 1000  # experiments in memory


@dataclass
class Desk:
    """One experiment and who is at it."""

    experiment: Experiment
    lock: threading.RLock = field(default_factory=threading.RLock)
    drawing: threading.Lock = field(default_factory=threading.Lock)  # of its history


class Lab:
    """Every experiment of a storage, and the models to run them with."""

    def __init__(
        self,
        storage: Storage,
        folders: tuple[str, ...] = (),
        on_change: Callable[[str, int], None] = lambda name, sequence: None,
    ):
        self.storage = storage
        self.on_change = on_change
        self._sources = {name: name for name in zoo.shipped()} | _named(folders)
        self._models: dict[str, Model] = {}
        self._desks: OrderedDict[str, Desk] = OrderedDict()
        self._lock = threading.Lock()

    # Models.

    def models(self) -> dict[str, Model]:
        """The models on offer, by name."""
        return {name: self.model(name) for name in self._sources}

    def model(self, name: str) -> Model:
        """A model on offer; never a path that a client chose."""
        if name not in self._sources:
            raise NotFoundError(
                f"models are {', '.join(self._sources) or 'none'}, got {name!r}: use one of these"
            )
        with self._lock:
            if name not in self._models:
                self._models[name] = _load(self._sources[name])
            return self._models[name]

    def place(self, name: str) -> str:
        """Where a model on offer is: a shipped one's name, or a folder."""
        return self._sources[name]

    def model_name(self, experiment: Experiment) -> str | None:
        """The name under which an experiment's model is on offer; None if it is not."""
        source = experiment.source
        return next((n for n, place in self._sources.items() if _same(place, source)), None)

    # Experiments.

    def create(self, model: str, *, key: str | None, name: str | None, **settings: Any) -> str:
        """Start an experiment; the same key again means the same experiment."""
        used = self.model(model)
        if name is None and key is not None:
            name = f"{used.spec.name}-{hashlib.sha256(key.encode()).hexdigest()[:10]}"
        try:
            experiment = Experiment(used, storage=self.storage, name=name, key=key, **settings)
        except StateError:
            if name is None or key is None or self.storage.read(name)[0].get("key") != key:
                raise
            return name
        self._keep(experiment)
        return experiment.name

    def names(self) -> list[str]:
        """Every experiment, the oldest first."""
        return self.storage.names()

    def is_open(self, name: str) -> bool:
        """Whether an experiment is in memory, so that using it takes no replay."""
        return name in self._desks

    def desk(self, name: str) -> Desk:
        """An experiment, replayed from its journal where it is not in memory."""
        with self._lock:
            desk = self._desks.get(name)
            if desk is not None:
                self._desks.move_to_end(name)
                return desk
        source = self.storage.read(name)[0].get("model", {}).get("source")
        known = next((n for n, place in self._sources.items() if _same(place, source)), None)
        model = None if known is None else self.model(known)
        return self._keep(Experiment.resume(self.storage, name, model))

    def _keep(self, experiment: Experiment) -> Desk:
        with self._lock:
            desk = self._desks.setdefault(experiment.name, Desk(experiment))
            self._desks.move_to_end(experiment.name)
            while len(self._desks) > KEPT:
                self._desks.popitem(last=False)
        return desk

    def __len__(self) -> int:
        return len(self._desks)

    @contextmanager
    def using(self, name: str, *, fresh: bool = True) -> Iterator[Experiment]:
        """An experiment that nobody else in this process uses meanwhile.

        It is as the storage has it now, or, not `fresh`, as it was last seen: enough to change it,
        as a change looks at the storage where that matters.
        """
        desk = self.desk(name)
        with desk.lock:
            if fresh:
                desk.experiment.refresh()
            before = desk.experiment.sequence
            try:
                yield desk.experiment
            finally:
                after = desk.experiment.sequence
                if after != before:
                    self.on_change(name, after)

    # Simulated participants.

    def observer(self, experiment: Experiment) -> Observer | None:
        """The simulated participant of an experiment that has one."""
        seed = experiment.metadata.get("simulated")
        name = self.model_name(experiment)
        if not isinstance(seed, int) or isinstance(seed, bool) or name is None:
            return None
        return _observer(self._sources[name], seed)

    def simulate(self, name: str) -> Trial:
        """One trial answered by the simulated participant."""
        with self.using(name, fresh=True) as experiment:
            observer = self.observer(experiment)
            if observer is None:
                raise StateError(
                    f"experiment {name!r} has no simulated participant: start one with "
                    'metadata {"simulated": 1}, a seed'
                )
            left = [trial for trial in experiment.trials if trial.state == "asked"]
            trial = left[0] if left else experiment.ask()
            return experiment.tell(trial, observer.at_trial(trial.number).answer(trial.design))


def can_simulate(model: str) -> bool:
    """Whether a model's task is built in, so that it can answer for a participant."""
    try:
        open_subject(model)
    except UserError:
        return False
    return True


_load = functools.cache(zoo.load)  # a model is never changed, so that all share one


_OBSERVERS: dict[tuple[str, int], Observer] = {}


def _observer(source: str, seed: int) -> Observer | None:
    """The participant of a seed; None where the model's task cannot be simulated."""
    if (source, seed) not in _OBSERVERS:
        try:
            subject = open_subject(source)
        except UserError:
            return None
        if len(_OBSERVERS) > KEPT:
            _OBSERVERS.clear()
        _OBSERVERS[source, seed] = Observer.drawn(subject.task, seed)
    return _OBSERVERS[source, seed]


def _named(folders: tuple[str, ...]) -> dict[str, str]:
    """Folders of models by their last part."""
    named: dict[str, str] = {}
    for folder in folders:
        path = zoo.find(folder).resolve()
        if path.name in named or path.name in zoo.shipped():
            raise InputError(f"two models are called {path.name}: rename the folder {path}")
        named[path.name] = str(path)
    return named


def _same(place: str, source: str | None) -> bool:
    return source is not None and (place == source or Path(place) == Path(source))
