"""What an experiment is, and what can be taken away from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from aline.experiment.drawing import drawing
from aline.experiment.drawn_posterior import RefinedPosterior
from aline.experiment.frames import frame_of_trials
from aline.experiment.posterior import Posterior
from aline.experiment.predictive import JointPredictive, Predictive
from aline.experiment.refined import refine_posterior
from aline.experiment.settings import plain_metadata
from aline.experiment.state import State
from aline.experiment.storage import Event, Journal
from aline.experiment.trial import Trial, copied
from aline.model import Model
from aline.tasks import PREDICTIONS, Spec, Task

if TYPE_CHECKING:
    import pandas


class View:
    """The part of an experiment that changes nothing."""

    _storage: Journal
    _name: str
    _created: Event
    _state: State
    _model: Model

    @property
    def name(self) -> str:
        """Its name in the storage.

        >>> aline.Experiment(aline.load("psychometric"), name="anna").name
        'anna'
        """
        return self._name

    @property
    def metadata(self) -> dict[str, Any]:
        """What was to be kept with it.

        >>> aline.Experiment(aline.load("psychometric"), metadata={"group": "control"}).metadata
        {'group': 'control'}
        """
        return plain_metadata(self._created.get("metadata"))

    @property
    def created(self) -> str:
        """When it began, in UTC.

        >>> experiment.created[:2]
        '20'
        """
        return str(self._created["time"])

    @property
    def source(self) -> str | None:
        """Where its model comes from: a shipped one's name, a folder, or nowhere on disk.

        >>> experiment.source
        'psychometric'
        """
        source: str | None = self._created["model"]["source"]
        return source

    @property
    def sequence(self) -> int:
        """How many events its journal has, as far as this object knows.

        >>> experiment.sequence  # created, 5 asked, 5 told, changed
        12
        """
        return self._state.sequence

    @property
    def model(self) -> Model:
        """The trained model that it runs with.

        >>> experiment.model.spec.name
        'psychometric'
        """
        return self._model

    @property
    def spec(self) -> Spec:
        """The task as its model knows it.

        >>> experiment.spec.parameters.names
        ('threshold', 'slope', 'guess', 'lapse')
        """
        return self._state.spec

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Every trial, by number: open, told, abandoned, attached.

        >>> experiment.trials[0].state
        'told'
        """
        return tuple(copied(trial) for trial in self._state.trials)

    @property
    def told(self) -> tuple[Trial, ...]:
        """The trials whose outcomes the posterior knows, in the order in which they came.

        >>> len(experiment.told)
        5
        """
        return tuple(copied(self._state.trials[number]) for number in self._state.rows)

    @property
    def is_standardised(self) -> bool:
        """Whether outcomes come in any units.

        >>> experiment.is_standardised
        False
        """
        return self._state.is_standardised

    @property
    def observations(self) -> int:
        """How many outcomes the posterior knows, those of earlier data included.

        >>> experiment.observations
        5
        """
        return len(self._state.rows)

    @property
    def size(self) -> int:
        """How much there is to compute with: observations, open trials, points to predict at.

        >>> experiment.size
        5
        """
        state = self._state
        return len(state.rows) + len(state.open) + state.goal.points.shape[1]

    @property
    def finished(self) -> bool:
        """Whether the horizon is reached, the stopping rule holds, or it was closed.

        >>> experiment.finished  # 5 of 8 are told
        False
        """
        state = self._state
        return state.closed or state.told >= state.horizon or state.is_narrow

    @property
    def closed(self) -> bool:
        """Whether it was closed for good.

        >>> experiment.closed
        False
        """
        return self._state.closed

    @property
    def policy(self) -> str:
        """Who chooses designs: "learned", or "fixed" for the schedule in the model's card.

        >>> experiment.policy
        'learned'
        """
        return str(self._created.get("policy", "learned"))

    @property
    def shares_a_pass(self) -> bool:
        """Whether `prepare` computes its next design together with those of others.

        >>> experiment.shares_a_pass
        True
        """
        return self._state.shares_a_pass

    def posterior(self) -> Posterior:
        """What is known about the parameters.

        >>> experiment.posterior().names
        ('threshold', 'slope', 'guess', 'lapse')
        """
        return self._state.posterior

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt what the model says, a sentence each; `posterior()` has the same.

        Outcomes are checked against the model's own predictions as they come in: where the model
        is right, at most one experiment in twenty is ever warned of, however often one looks.

        >>> experiment.warnings
        ()
        """
        return self._state.warnings

    def refined(self, task: Task | None = None) -> RefinedPosterior:
        """What is known about the parameters by the task's own likelihood, q only the beginning.

        Exact up to the noise of its draws, with all that parameters have to do with each other; it
        takes a second where `posterior()` takes a millisecond, and repeats itself exactly. A task
        of your own must be passed, with its `log_likelihood`.

        >>> 0 < experiment.refined().effective <= 1
        True
        """
        return refine_posterior(self._state, task)

    def predict(self, designs: Mapping[str, Any]) -> Predictive | JointPredictive:
        """What would be measured at designs, such as {"time": [1, 2, 3]}.

        Of several outcomes a mapping from their names.

        >>> experiment.predict({"stimulus": [-1.0, 0.0, 1.0]}).probability.shape
        torch.Size([3])
        """
        return self._state.predict(self._state.spec.design.read(designs))

    def to_frame(self) -> pandas.DataFrame:
        """The trials as a pandas DataFrame, a row each.

        Columns are the state and the source, the design's axes, the outcome, `note.` and a name for
        all that notes hold, and when it was asked and told, in UTC.

        >>> experiment.to_frame().shape
        (5, 6)
        """
        events = self._storage.read(self._name)[: self._state.sequence]
        return frame_of_trials(self._state.spec, self._state.trials, events)

    def plot(self, task: Task | None = None) -> NDArray[Any]:
        """Draw what is expected, what was asked and what is left to know; return the axes.

        The figure is matplotlib's, `axes[0].figure`. A task of your own may be passed: where it
        knows its likelihood, the band shows the curves that are still possible.

        >>> import tempfile
        >>> axes = experiment.plot()
        >>> axes[0].figure.savefig(f"{tempfile.mkdtemp()}/observer.png")
        """
        axes: NDArray[Any] = drawing().plot_experiment(self, task)
        return axes

    def report(
        self, path: str | Path, task: Task | None = None, *, overwrite: bool = False
    ) -> Path:
        """Write figures, tables and every trial as one HTML file that needs nothing else.

        >>> import tempfile
        >>> experiment.report(f"{tempfile.mkdtemp()}/observer.html").name
        'observer.html'
        """
        written: Path = drawing().report_experiment(self, path, task, overwrite)
        return written

    def __repr__(self) -> str:
        state = self._state
        target = ", ".join(t if isinstance(t, str) else PREDICTIONS for t in state.target)
        return (
            f"<Experiment {self._name!r}: {state.told} of {state.horizon} trials told, "
            f"{len(state.open)} open, target {target}>"
        )
