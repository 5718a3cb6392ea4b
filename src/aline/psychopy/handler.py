"""One adaptive procedure, with the names of PsychoPy's staircase and QuestPlus handlers."""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from torch.distributions import Distribution

from aline import __version__
from aline.episodes.goals import Target
from aline.errors import InputError, StateError
from aline.experiment import Experiment
from aline.experiment.posterior import Posterior
from aline.experiment.trial import Trial
from aline.files import write_atomically
from aline.model import Model
from aline.spaces import Box
from aline.zoo import load

Collision = Literal["rename", "overwrite", "fail"]


class AlineHandler:
    """Chooses each trial's level with a trained model, in the units of its task.

    `model` is a model, the name of a shipped one, or a folder; its design must have one axis.
    `intensityVals` allows only these levels, `minVal` and `maxVal` narrow the range, and
    `startIntensity` is shown first. `target` is what to learn and may be set while it runs; with
    `stop` it ends early once 95 % intervals are narrow enough. `storage` keeps every answer on
    disk before `addResponse` returns.

    Without a model, `range=(-40, 0)` in dB or another logarithmic unit takes the shipped model
    "detection", and `nAFC=2` says that its guess rate is 1/2. `known` are values of other
    parameters, in the task's units, and `prior` priors, as `aline.Experiment` has them.

    >>> handler = AlineHandler("psychometric", nTrials=5, target=["threshold"])
    >>> for level in handler:
    ...     handler.addResponse(level > 0.5)
    >>> handler.finished, len(handler.intensities)
    (True, 5)
    """

    def __init__(
        self,
        model: Model | str | Path | None = None,
        nTrials: int | None = None,
        target: Target | Iterable[Target] | None = None,
        *,
        nAFC: int | None = None,
        range: tuple[float, float] | None = None,
        known: Mapping[str, float] | None = None,
        prior: Mapping[str, Distribution] | Posterior | None = None,
        intensityVals: Sequence[float] | None = None,
        minVal: float | None = None,
        maxVal: float | None = None,
        startIntensity: float | None = None,
        stop: Mapping[str, float] | None = None,
        storage: str = "memory://",
        seed: int = 0,
        extraInfo: Mapping[str, Any] | None = None,
        name: str = "",
    ):
        model = _model(model, nAFC, range)
        if nAFC is not None:
            known = {"guess": 1 / _alternatives(nAFC), **(known or {})}
        if len(model.spec.design) != 1:
            raise InputError(
                "a handler has one level a trial, and this model's designs have "
                f"{', '.join(model.spec.design.names)}: use aline.Experiment"
            )
        (axis,) = model.spec.design.axes.values()
        if axis.names:
            raise InputError(
                f"a handler's levels are numbers, and this model's are {axis.words()}: use "
                "aline.Experiment"
            )
        if not model.spec.outcome.is_yes_or_no:
            raise InputError(
                "a handler takes a yes or a no, and this model's trials give "
                f"{model.spec.outcome.words()}: use aline.Experiment"
            )
        experiment = Experiment(
            model, target, horizon=nTrials, stop=stop, storage=storage, seed=seed, known=known,
            prior=prior, name=name or None,
        )  # fmt: skip
        self._begin(experiment, startIntensity, extraInfo, name)
        self._restrict(model, intensityVals, minVal, maxVal)

    def _begin(
        self,
        experiment: Experiment,
        startIntensity: float | None,
        extraInfo: Mapping[str, Any] | None,
        name: str,
    ) -> None:
        self.experiment = experiment
        (self._axis,) = experiment.spec.design.names
        if startIntensity is not None:
            experiment.spec.design.read({self._axis: startIntensity})
        self.startIntensity = startIntensity
        self.extraInfo = dict(extraInfo or {})
        self.name = name
        asked = [trial for trial in experiment.told if trial.source == "asked"]
        self.intensities: list[float] = [float(trial.design[self._axis]) for trial in asked]
        self.responses: list[float] = [trial.outcome for trial in asked]
        self.otherData: dict[str, list[Any]] = {}
        self.thisTrialN = len(asked) - 1
        self.finished = experiment.finished
        self._trial: Trial | None = None
        self._warned: set[str] = set()
        self._exp: Any = None

    @classmethod
    def resume(
        cls,
        storage: str,
        name: str = "",
        *,
        model: Model | None = None,
        extraInfo: Mapping[str, Any] | None = None,
    ) -> AlineHandler:
        """Go on with the handler of this name in a storage, after a crash or on another day.

        Every response is there; a trial that was open is given up. What `addOtherData` kept is not.

        >>> import tempfile
        >>> url = f"sqlite:///{tempfile.mkdtemp()}/lab.db"
        >>> first = AlineHandler("psychometric", nTrials=5, storage=url, name="anna")
        >>> AlineHandler.resume(url, "anna").nTrials
        5
        """
        experiment = Experiment.resume(storage, name or None, model=model)
        for trial in experiment.trials:
            if trial.state == "asked":
                experiment.abandon(trial)
        handler = cls.__new__(cls)
        handler._begin(experiment, None, extraInfo, name)
        return handler

    def _restrict(
        self,
        model: Model,
        values: Sequence[float] | None,
        low: float | None,
        high: float | None,
    ) -> None:
        if values is not None and (low is not None or high is not None):
            raise InputError("give intensityVals, or minVal and maxVal, not both")
        if values is not None:
            self.experiment.restrict({self._axis: list(values)})
        elif low is not None or high is not None:
            space = model.spec.design
            low = float(space.low) if low is None else low
            high = float(space.high) if high is None else high
            self.experiment.restrict(Box(**{self._axis: (low, high)}))

    # The loop.

    def __iter__(self) -> Iterator[float]:
        return self

    def __next__(self) -> float:
        """The next trial's level.

        A trial that got no response is given up, and another takes its place.

        >>> -5 <= AlineHandler("psychometric", nTrials=5).next() <= 5
        True
        """
        self._give_up()
        if self.finished or self.experiment.finished:
            self._terminate()
        self._trial = self.experiment.ask()
        level = float(self._trial.design[self._axis])
        if self.startIntensity is not None and not self.responses:
            level = float(self.startIntensity)
        self.thisTrialN += 1
        self.intensities.append(level)
        return level

    next = __next__

    def _give_up(self) -> None:
        if self._trial is None:
            return
        self.experiment.abandon(self._trial)
        self._trial = None
        self.thisTrialN -= 1
        self.intensities.pop()
        for values in self.otherData.values():
            del values[len(self.responses) :]

    def _terminate(self) -> None:
        self.finished = True
        if self._exp is not None:
            self._exp.loopEnded(self)
            self._exp = None
        raise StopIteration

    def addResponse(self, result: Any, intensity: float | None = None) -> None:
        """Tell the answer, 1 or 0; `intensity` is the level really shown, if it was another.

        >>> handler = AlineHandler("psychometric", nTrials=5)
        >>> level = handler.next()
        >>> handler.addResponse(1, intensity=1.25)
        >>> handler.intensities
        [1.25]
        """
        if self._trial is None:
            raise StateError("addResponse needs a trial: call next() first, and answer it once")
        shown = self.intensities[-1] if intensity is None else intensity
        told = self.experiment.tell(self._trial, result, {self._axis: shown})
        self._trial = None
        self.intensities[-1] = float(told.design[self._axis])
        self.responses.append(told.outcome)
        self.finished = self.finished or self.experiment.finished
        for text in (text for text in self.warnings if text not in self._warned):
            self._warned.add(text)
            logging.getLogger("aline").warning(text)
        if self._exp is not None:
            self._exp.addData(f"{self.name}.response", result)

    def addOtherData(self, dataName: str, value: Any) -> None:
        """Keep something else about this trial, such as a reaction time, beside the response.

        >>> handler.addOtherData("rt", 0.41)
        >>> handler.otherData["rt"][-1]
        0.41
        """
        if self.thisTrialN < 0:
            raise StateError("addOtherData needs a trial: call next() first")
        values = self.otherData.setdefault(dataName, [])
        values += [None] * (self.thisTrialN + 1 - len(values))
        values[self.thisTrialN] = value
        if self._exp is not None:
            self._exp.addData(f"{self.name}.{dataName}", value)

    def importData(self, intensities: Sequence[float], results: Sequence[Any]) -> None:
        """Take in trials measured earlier; they do not count towards nTrials.

        >>> handler.importData([-1.0, 2.0], [0, 1])
        """
        self.experiment.attach({self._axis: list(intensities)}, list(results))

    # What was learned.

    @property
    def nTrials(self) -> int:
        """How many trials are planned.

        >>> handler.nTrials
        5
        """
        return self.experiment.horizon

    @property
    def target(self) -> list[Target]:
        """What is to be learned; may be set between trials.

        >>> handler.target = ["slope"]
        """
        return self.experiment.target

    @target.setter
    def target(self, target: Target | Iterable[Target] | None) -> None:
        self.experiment.target = target

    @property
    def data(self) -> list[float]:
        """The responses, as PsychoPy's staircases name them.

        >>> len(handler.data)
        5
        """
        return self.responses

    @property
    def posterior(self) -> Posterior:
        """What is known about the parameters.

        >>> handler.posterior.names
        ('threshold', 'slope', 'guess', 'lapse')
        """
        return self.experiment.posterior()

    @property
    def paramEstimate(self) -> dict[str, float]:
        """The posterior mean of every parameter.

        >>> sorted(handler.paramEstimate)
        ['guess', 'lapse', 'slope', 'threshold']
        """
        return self.posterior.mean

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why not to believe the estimates; each is also logged once, when it comes up.

        >>> handler.warnings
        ()
        """
        return self.experiment.warnings

    # An ExperimentHandler it may belong to.

    def setExp(self, exp: Any) -> None:
        """Called by ExperimentHandler.addLoop.

        >>> handler.setExp(None)
        """
        self._exp = exp

    def getExp(self) -> Any:
        """The ExperimentHandler it belongs to, or None.

        >>> handler.getExp() is None
        True
        """
        return self._exp

    # Files.

    def saveAsJson(
        self,
        fileName: str | Path | None = None,
        encoding: str = "utf-8",
        fileCollisionMethod: Collision = "rename",
    ) -> str:
        """Everything as JSON: returned, and written where a file is named.

        >>> handler.saveAsJson().startswith("{")
        True
        """
        text = json.dumps(self._summary(), indent=2) + "\n"
        if fileName is not None:
            _write(_suffixed(fileName, ".json"), text, encoding, fileCollisionMethod)
        return text

    def saveAsText(
        self,
        fileName: str | Path,
        delim: str | None = None,
        matrixOnly: bool = False,
        fileCollisionMethod: Collision = "rename",
        encoding: str = "utf-8",
    ) -> Path:
        """A table, a line a trial; above it what was estimated, unless `matrixOnly`.

        Separated by tabs in a .tsv file, or by commas where `delim` or the name says so.

        >>> import tempfile
        >>> handler.saveAsText(f"{tempfile.mkdtemp()}/anna").name
        'anna.tsv'
        """
        if delim is None:
            delim = "," if Path(fileName).suffix == ".csv" else "\t"
        buffer = io.StringIO(newline="")
        if not matrixOnly:
            for line in self._heading():
                buffer.write(f"# {line}\n")
        writer = csv.writer(buffer, delimiter=delim, lineterminator="\n")
        writer.writerow(["trial", "intensity", "response", *self.otherData])
        writer.writerows(self._table())
        path = _suffixed(fileName, ".csv" if delim == "," else ".tsv")
        return _write(path, buffer.getvalue(), encoding, fileCollisionMethod)

    def _table(self) -> Iterator[list[Any]]:
        for trial, response in enumerate(self.responses):
            others = [column[trial : trial + 1] or [None] for column in self.otherData.values()]
            yield [trial, self.intensities[trial], int(response), *(v for (v,) in others)]

    def _heading(self) -> Iterator[str]:
        for name, estimate in self.paramEstimate.items():
            low, high = self.posterior.interval(name)
            yield f"{name}: {estimate:.4g}, 95 % interval {low:.4g} to {high:.4g}"
        for text in self.warnings:
            yield f"warning: {text}"
        for name, value in self.extraInfo.items():
            yield f"{name}: {value}"

    def _summary(self) -> dict[str, Any]:
        count = len(self.responses)
        return {
            "aline": __version__,
            "name": self.name,
            "target": [str(target) for target in self.target],
            "nTrials": self.nTrials,
            "intensities": self.intensities[:count],
            "responses": self.responses,
            "otherData": self.otherData,
            "extraInfo": self.extraInfo,
            "paramEstimate": self.paramEstimate,
            "warnings": list(self.warnings),
            "interval95": {n: self.posterior.interval(n) for n in self.posterior.names},
        }


def _model(
    model: Model | str | Path | None, choices: int | None, range_: tuple[float, float] | None
) -> Model:
    """The one given, else what is shipped for a range or a number of alternatives."""
    if model is None:
        model = "psychometric" if choices is None and range_ is None else "detection"
    found = model if isinstance(model, Model) else load(model)
    return found if range_ is None else found.in_units(**{found.spec.design.names[0]: range_})


def _alternatives(count: int) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or count < 2:
        raise InputError(
            f"nAFC is the number of alternatives, at least 2, got {count!r}: leave it out where "
            "the guess rate is not known, as with yes and no"
        )
    return count


def _suffixed(name: str | Path, suffix: str) -> Path:
    path = Path(name)
    return path if path.suffix in (".json", ".csv", ".tsv", ".txt") else Path(f"{path}{suffix}")


def _write(path: Path, text: str, encoding: str, collision: Collision) -> Path:
    """Write a file, whole or not at all; where there is one already, do as PsychoPy does."""
    if path.exists() and collision == "fail":
        raise StateError(f"{path} exists already: choose another name, or overwrite it")
    if collision == "rename":
        first, number = path, 0
        while path.exists():
            number += 1
            path = first.with_stem(f"{first.stem}_{number}")
    write_atomically(path, text.encode(encoding))
    return path
