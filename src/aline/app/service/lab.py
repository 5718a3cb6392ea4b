"""The experiments and models that a process has at hand.

The storage holds every experiment; this only keeps replayed ones in memory. They are never changed
in place: whoever reads or changes an experiment gets a copy, which costs nothing. Of two copies the
one with the longer journal is the newer, as journals only grow.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aline import zoo
from aline.app.demo import Observer
from aline.app.service.weight import weigh
from aline.app.subject import open_subject
from aline.engine import prepare_forks
from aline.errors import InputError, NotFoundError, StateError, UserError
from aline.experiment import Experiment, Storage, Trial
from aline.experiment.storage import Event, MemoryStorage, UsedKeyError
from aline.model import Model
from aline.tasks import simulator_of

Units = Mapping[str, tuple[float, float]]
"""The range of each axis in a user's units."""

KEPT = 1000  # experiments in memory
UNITS_KEPT = 100  # models in units of their own
USUAL = 100  # observations, open trials and points
USUAL_BYTES = 100_000  # what such an experiment keeps
LIGHT = 4_000_000  # bytes: such an experiment is weighed again when it has grown to the double
WEIGHING_SECONDS = 0.01  # at a time: a thread that computes makes requests wait for Python's lock


@dataclass
class Place:
    """One experiment and who is at it."""

    experiment: Experiment  # as last seen
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # to change it
    drawing: asyncio.Lock = field(default_factory=asyncio.Lock)  # of its history
    asked_with: int | None = None  # observations at the last ask, if what it computed is kept
    weight: int = USUAL_BYTES  # in memory, when it was weighed last
    weighed: int = 0  # the journal's length then; at first, of one that is new

    @classmethod
    def of(cls, experiment: Experiment) -> Place:
        """For one that was just made, which weighs little, or opened."""
        return cls(experiment, weighed=int(experiment.sequence == 1 and not experiment.size))

    @property
    def is_due(self) -> bool:
        """Whether it may have grown so much that it has to be weighed again."""
        grown = self.experiment.sequence - self.weighed
        light = LIGHT / max(self.weight, 1)  # the lighter, the longer it may go on
        is_usual = self.asked_with is not None and self.experiment.size <= USUAL
        return grown > (4 + self.weighed * light if is_usual else 0)

    def note(self, call: str | None, observations: int) -> None:
        """Keep what was done: only asks, one after the other, leave the next what it needs."""
        if call != "tell":
            self.asked_with = observations if call == "ask" else None


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
        self._in_units: OrderedDict[Hashable, Model] = OrderedDict()
        self._places: OrderedDict[str, Place] = OrderedDict()
        self._lock = threading.Lock()  # of the desks; never held for long
        self._loading = threading.Lock()

    # Models.

    def models(self) -> dict[str, Model]:
        """The models on offer, by name, to be told of: sessions of ONNX Runtime take seconds."""
        with self._loading:
            return {name: _load(place) for name, place in self._sources.items()}

    def model(self, name: str) -> Model:
        """A model on offer, ready to run; never a path that a client chose."""
        if name not in self._sources:
            raise NotFoundError(
                f"models are {', '.join(self._sources) or 'none'}, got {name!r}: use one of these"
            )
        with self._loading:
            model = _load(self._sources[name])
            prepare_forks(model)
            return model

    def model_in(self, name: str, units: Units | None) -> Model:
        """A model on offer in its own units or others: one for all who use the same."""
        model = self.model(name)
        if not units:
            return model
        key = (name, *((axis, *ends) for axis, ends in units.items()))
        with self._loading:
            if key not in self._in_units:
                self._in_units[key] = model.in_units(**units)
            self._in_units.move_to_end(key)
            while len(self._in_units) > UNITS_KEPT:
                self._in_units.popitem(last=False)
            return self._in_units[key]

    def place(self, name: str) -> str:
        """Where a model on offer is: a shipped one's name, or a folder."""
        return self._sources[name]

    def model_name(self, experiment: Experiment) -> str | None:
        """The name under which an experiment's model is on offer; None if it is not."""
        source = experiment.source
        return next((n for n, place in self._sources.items() if _same(place, source)), None)

    # Experiments.

    def create(
        self,
        model: str,
        *,
        key: str | None,
        name: str | None,
        units: Units | None = None,
        **settings: Any,
    ) -> Experiment:
        """Start an experiment; the same key again means the same experiment."""
        used = self.model_in(model, units)
        if name is None and key is not None:
            name = f"{used.spec.name}-{hashlib.sha256(key.encode()).hexdigest()[:10]}"
        try:
            experiment = Experiment(used, storage=self.storage, name=name, key=key, **settings)
        except UsedKeyError as error:
            self._check_same(used, error.name, key, settings)
            raise _reused(key, error.name, "name") from None
        except StateError:
            if name is None or key is None or self.storage.read(name)[0].get("key") != key:
                raise
            self._check_same(used, name, key, settings)
            return self.look(name)
        return self._keep(experiment).experiment

    def _check_same(
        self, model: Model, name: str, key: str | None, settings: dict[str, Any]
    ) -> None:
        """Refuse a key that made an experiment with other settings."""
        new = MemoryStorage()
        Experiment(model, storage=new, name=name, key=key, **settings)
        (wanted,), there = map(_settings, new.read(name)), _settings(self.storage.read(name)[0])
        for what, value in wanted.items():
            if there[what] != value:
                raise _reused(key, name, what)

    def names(self) -> list[str]:
        """Every experiment, the oldest first."""
        return self.storage.names()

    def at_hand(self, name: str) -> Place | None:
        """An experiment that is in memory."""
        with self._lock:
            place = self._places.get(name)
            if place is not None:
                self._places.move_to_end(name)
            return place

    def read(self, name: str) -> list[dict[str, Any]]:
        """An experiment's journal."""
        return self.storage.read(name)

    def open(self, name: str, created: Event | None = None) -> Place:
        """An experiment, replayed from its journal where it is not in memory.

        `created` is the journal's first event, if it was read already.
        """
        place = self.at_hand(name)
        if place is not None:
            return place
        first = self.storage.read(name)[0] if created is None else created
        source = first.get("model", {}).get("source")
        known = next((n for n, where in self._sources.items() if _same(where, source)), None)
        model = None if known is None else self.model_in(known, first["model"].get("units"))
        return self._keep(Experiment.resume(self.storage, name, model))

    def _keep(self, experiment: Experiment) -> Place:
        with self._lock:
            place = self._places.setdefault(experiment.name, Place.of(experiment))
            self._places.move_to_end(experiment.name)
            while len(self._places) > KEPT:
                self._places.popitem(last=False)
        return place

    def __len__(self) -> int:
        return len(self._places)

    def look(self, name: str) -> Experiment:
        """An experiment as the storage has it now, other processes' trials included."""
        place = self.open(name)
        moment = place.experiment.snapshot()
        if moment.refresh():
            self.advance(place, moment)
        return moment

    def advance(self, place: Place, moment: Experiment) -> None:
        """Keep what is newer than the last that was seen."""
        with self._lock:
            is_newer = moment.sequence > place.experiment.sequence
            if is_newer:
                place.experiment = moment
                self._places.setdefault(moment.name, place)  # it may have been let go meanwhile
        if is_newer:
            self.on_change(moment.name, moment.sequence)

    def tidy(self, most_bytes: int) -> None:
        """Let those go that were not used for longest, until the rest keeps no more than that."""
        with self._lock:
            due = [place for place in self._places.values() if place.is_due]
        self._weigh(due)
        with self._lock:
            total = sum(place.weight for place in self._places.values())
            while total > most_bytes and self._places:
                total -= self._places.popitem(last=False)[1].weight

    @staticmethod
    def _weigh(due: list[Place]) -> None:
        """Those that may be large; of the usual ones as many as there is time for."""
        began = time.perf_counter()
        for place in sorted(due, key=lambda one: one.experiment.size, reverse=True):
            is_usual = place.experiment.size <= USUAL
            if is_usual and time.perf_counter() - began > WEIGHING_SECONDS:
                return
            place.weighed = place.experiment.sequence
            place.weight = weigh(place.experiment)

    def forget(self) -> None:
        """Let every experiment go; the storage has them."""
        with self._lock:
            self._places.clear()

    # Simulated participants.

    def observer(self, experiment: Experiment) -> Observer | None:
        """The simulated participant of an experiment that has one."""
        seed = experiment.metadata.get("simulated")
        name = self.model_name(experiment)
        if not isinstance(seed, int) or isinstance(seed, bool) or name is None:
            return None
        return _observer(self._sources[name], seed, experiment)

    def simulate(self, experiment: Experiment) -> Trial:
        """One trial answered by the simulated participant."""
        observer = self.observer(experiment)
        if observer is None:
            raise StateError(
                f"experiment {experiment.name!r} has no simulated participant: start one with "
                'metadata {"simulated": 1}, a seed'
            )
        left = [trial for trial in experiment.trials if trial.state == "asked"]
        trial = left[0] if left else experiment.ask()
        return experiment.tell(trial, observer.at_trial(trial.number).answer(trial.design))


def _settings(created: Event) -> dict[str, Any]:
    """What a client chose, in its words, of an experiment's first event."""
    model = dict(created.get("model", {}))
    units = model.pop("units", None)
    same = {name: created.get(name) for name in ("target", "horizon", "stop", "seed", "metadata")}
    return {"model": model, "units": units, **same, "known or prior": created.get("prior")}


def _reused(key: str | None, name: str, what: str) -> StateError:
    return StateError(
        f"the key {key!r} has made experiment {name!r} with another {what}: give every call a key "
        "of its own, and repeat only what got no reply"
    )


def can_simulate(model: str) -> bool:
    """Whether a model's task is built in, so that it can answer for a participant."""
    try:
        open_subject(model)
    except UserError:
        return False
    return True


_load = functools.cache(zoo.load)  # a model is never changed, so that all share one


_OBSERVERS: dict[Hashable, Observer] = {}


def _observer(source: str, seed: int, experiment: Experiment) -> Observer | None:
    """The participant of a seed; None where the model's task cannot be simulated."""
    units, known = experiment.model.units, experiment.known
    key = source, seed, json.dumps([units, known])
    if key not in _OBSERVERS:
        try:
            task = simulator_of(experiment.spec) if units else open_subject(source).task
        except UserError:
            task = None
        if task is None:
            return None
        if len(_OBSERVERS) > KEPT:
            _OBSERVERS.clear()
        _OBSERVERS[key] = Observer.drawn(task, seed, known)
    return _OBSERVERS[key]


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
