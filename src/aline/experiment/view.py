"""What an experiment is, and what can be taken away from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from aline.experiment.drawing import drawing
from aline.experiment.frames import frame_of_trials
from aline.experiment.history import History
from aline.experiment.posterior import Posterior
from aline.experiment.predictive import JointPredictive, Predictive
from aline.experiment.settings import plain_metadata
from aline.experiment.state import State
from aline.experiment.storage import Event, Journal
from aline.experiment.trial import Trial, copied
from aline.model import Model
from aline.tasks import Spec, Task

if TYPE_CHECKING:
    import pandas


class View:
    """The part of an experiment that changes nothing."""

    _storage: Journal
    _name: str
    _created: Event
    _state: State
    _model: Model
    _history: History

    @property
    def name(self) -> str:
        """Its name in the storage."""
        return self._name

    @property
    def metadata(self) -> dict[str, Any]:
        """What was to be kept with it."""
        return plain_metadata(self._created.get("metadata"))

    @property
    def created(self) -> str:
        """When it began, in UTC."""
        return str(self._created["time"])

    @property
    def source(self) -> str | None:
        """Where its model comes from: a shipped one's name, a folder, or nowhere on disk."""
        source: str | None = self._created["model"]["source"]
        return source

    @property
    def sequence(self) -> int:
        """How many events its journal has, as far as this object knows."""
        return self._state.sequence

    @property
    def model(self) -> Model:
        """The trained model that it runs with."""
        return self._model

    @property
    def spec(self) -> Spec:
        """The task as its model knows it."""
        return self._state.spec

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Every trial, by number: open, told, abandoned, attached."""
        return tuple(copied(trial) for trial in self._state.trials)

    @property
    def told(self) -> tuple[Trial, ...]:
        """The trials whose outcomes the posterior knows, in the order in which they came."""
        return tuple(copied(self._state.trials[number]) for number in self._state.rows)

    @property
    def is_standardised(self) -> bool:
        """Whether outcomes come in any units."""
        return self._state.is_standardised

    @property
    def observations(self) -> int:
        """How many outcomes the posterior knows, those of earlier data included."""
        return len(self._state.rows)

    @property
    def size(self) -> int:
        """How much there is to compute with: observations, open trials, points to predict at."""
        state = self._state
        return len(state.rows) + len(state.open) + state.goal.points.shape[1]

    def posterior(self) -> Posterior:
        """What is known about the parameters."""
        return self._state.posterior

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt what the model says, a sentence each; `posterior()` has the same.

        Outcomes are checked against the model's own predictions as they come in: where the model
        is right, at most one experiment in twenty is ever warned of, however often one looks.
        """
        return self._state.warnings

    def history(self, lengths: Sequence[int] | None = None) -> list[Posterior]:
        """What was known before any data, after the first observation, and so on until now.

        `lengths` asks only for what was known after so many observations each, in ascending order.
        """
        return self._history.of(self._state, lengths)

    def predict(self, designs: Mapping[str, Any]) -> Predictive | JointPredictive:
        """What would be measured at designs, such as {"time": [1, 2, 3]}.

        Of several outcomes a mapping from their names.
        """
        return self._state.predict(self._state.spec.design.read(designs))

    def to_frame(self) -> pandas.DataFrame:
        """The trials as a pandas DataFrame, a row each.

        Columns are the state and the source, the design's axes, the outcome, `note.` and a name for
        all that notes hold, and when it was asked and told, in UTC.
        """
        events = self._storage.read(self._name)[: self._state.sequence]
        return frame_of_trials(self._state.spec, self._state.trials, events)

    def plot(self, task: Task | None = None) -> NDArray[Any]:
        """Draw what is expected, what was asked and what is left to know; return the axes.

        The figure is matplotlib's, `axes[0].figure`. A task of your own may be passed: where it
        knows its likelihood, the band shows the curves that are still possible.
        """
        axes: NDArray[Any] = drawing().plot_experiment(self, task)
        return axes

    def report(
        self, path: str | Path, task: Task | None = None, *, overwrite: bool = False
    ) -> Path:
        """Write figures, tables and every trial as one HTML file that needs nothing else.

        experiment.report("participant-7.html")
        """
        written: Path = drawing().report_experiment(self, path, task, overwrite)
        return written
