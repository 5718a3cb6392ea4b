"""An adaptive experiment: ask for a design, tell the outcome, look at the posterior."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch.distributions import Distribution

from aline import __version__
from aline.episodes.goals import Target
from aline.errors import InputError
from aline.experiment.allowed import plain_restriction
from aline.experiment.checks import check_state, check_unfinished, existing_number, last_told
from aline.experiment.committing import Committing
from aline.experiment.history import History
from aline.experiment.journals import VERSION, create, now, only_name, read_journal, replay
from aline.experiment.knowledge import (
    Knowledge,
    check_unknown,
    known_names,
    plain_knowledge,
    unknown_names,
)
from aline.experiment.origin import check_model, describe, find_model
from aline.experiment.posterior import Posterior
from aline.experiment.settings import (
    check_count,
    check_key,
    check_metadata,
    check_noise,
    check_note,
    check_seed,
    check_standardise,
    plain_policy,
    plain_stop,
    plain_target,
)
from aline.experiment.state import State
from aline.experiment.storage import Event, Journal, Storage, open_storage
from aline.experiment.trial import Trial, copied, number_of, plain_design, plain_designs, proposal
from aline.model import Model
from aline.spaces import Design
from aline.tasks import Spec


def _learnable(spec: Spec, target: Any, standardise: bool, knowledge: Knowledge) -> list[Any]:
    """A target of what is not known yet, as a journal keeps it."""
    if target is None:
        target = unknown_names(spec.parameters, knowledge)
    plain = plain_target(spec, target, standardise)
    check_unknown(knowledge, plain)
    return plain


class Experiment(Committing):
    """Runs trials with a trained model; every event is stored before its method returns.

    `target` says what to learn: parameter names, `aline.predictions(at=...)` or
    `aline.predictions(region=Box(...))`, or both; None is all parameters. With `standardise`,
    outcomes may come in any units: the network sees them less their mean and over their spread so
    far; parameters in the outcome's units are then in units of that spread. There `noise`, the
    standard deviation of an outcome about the truth, in its units, helps where you know it.

    `known` are values of parameters that are known, {"guess": 0.5}; `prior` are priors other than
    the task's, {"threshold": Normal(-1.0, 0.4)}, or an earlier posterior. Both need a model that
    was trained for them (`aline train --priors`), and may be changed while it runs.

    `policy="fixed"` asks the best fixed schedule in the model's card (`aline evaluate MODEL
    --verdict`), trial by trial, and from its start again after its end; the posterior is as ever.

    The experiment is `finished` when `horizon` trials are told (earlier data that was attached
    does not count), or when the 95 % interval of every parameter in `stop` is narrower than the
    width given there. A method that raises has changed nothing. `metadata` is JSON data of your
    own that is kept with it.

    A call that is marked with a `key` counts once: repeated with the same key, as after a lost
    reply, it returns what the first one did.

    >>> import aline
    >>> experiment = aline.Experiment(aline.load("psychometric"), target="threshold", horizon=5)
    >>> while not experiment.finished:
    ...     trial = experiment.ask()
    ...     told = experiment.tell(trial, trial.design["stimulus"] > 0.5)
    >>> low, high = experiment.posterior().interval("threshold", 0.9)
    >>> low < high, len(experiment.trials)
    (True, 5)
    >>> experiment.horizon = 8  # and go on
    """

    def __init__(
        self,
        model: Model,
        target: Target | Iterable[Target] | None = None,
        *,
        storage: str | Storage = "memory://",
        name: str | None = None,
        horizon: int | None = None,
        stop: Mapping[str, float] | None = None,
        seed: int = 0,
        candidates: int = 200,
        metadata: Mapping[str, Any] | None = None,
        standardise: bool = False,
        noise: float | None = None,
        policy: str = "learned",
        known: Mapping[str, float | str] | None = None,
        prior: Mapping[str, Distribution] | Posterior | None = None,
        key: str | None = None,
    ):
        spec = check_model(model).spec
        standardise = check_standardise(spec, standardise)
        knowledge = plain_knowledge(model, known, prior)
        created = {
            "event": "created",
            "version": VERSION,
            "aline": __version__,
            "time": now(),
            "task": spec.name,
            "model": describe(model),
            "target": _learnable(spec, target, standardise, knowledge),
            "horizon": check_count("horizon", spec.horizon if horizon is None else horizon),
            "stop": plain_stop(spec, stop),
            "seed": check_seed(seed),
            "candidates": check_count("candidates", candidates),
            "metadata": check_metadata(metadata),
            "standardise": standardise,
            "noise": check_noise(noise, standardise),
            **plain_policy(model, policy),
            **({"prior": knowledge} if knowledge else {}),
            **({} if key is None else {"key": check_key(key)}),
        }
        state = State.start(model, created)
        kept = open_storage(storage)
        self._begin(kept, create(kept, name, spec.name, created), created, state, model)

    @classmethod
    def resume(
        cls, storage: str | Storage, name: str | None = None, model: Model | None = None
    ) -> Experiment:
        """Continue a stored experiment where it was; no trial that was told is lost.

        Without a name, the storage must hold one experiment. The model is loaded from where the
        experiment had it from, or passed. The JSON file of an experiment that ran in a page or on a
        service is a storage to read: Experiment.resume("experiment.json").

        >>> import tempfile
        >>> url = f"sqlite:///{tempfile.mkdtemp()}/lab.db"
        >>> started = aline.Experiment(aline.load("psychometric"), storage=url, name="anna")
        >>> aline.Experiment.resume(url, "anna").name
        'anna'
        """
        kept = open_storage(storage, must_exist=True)
        name = only_name(kept.names()) if name is None else name
        created, events = read_journal(kept, name)
        found = find_model(created, name, model)
        state = State.start(found, created)
        experiment = cls.__new__(cls)
        experiment._begin(kept, name, created, replay(state, events, name), found)
        return experiment

    def _begin(
        self, storage: Journal, name: str, created: Event, state: State, model: Model
    ) -> None:
        self._storage, self._name, self._created, self._state = storage, name, created, state
        self._model, self._history = model, History()

    # What the experiment is.

    @property
    def target(self) -> list[Target]:
        """What is to be learned; may be set at any time, and changes only what is asked next.

        >>> experiment.target = ["guess", "lapse"]
        >>> experiment.target
        ['guess', 'lapse']
        """
        return list(self._state.target)

    @target.setter
    def target(self, target: Target | Iterable[Target] | None) -> None:
        state = self._state
        self._change(target=_learnable(state.spec, target, state.is_standardised, state.knowledge))

    @property
    def known(self) -> dict[str, float]:
        """Values of parameters that are known; may be set at any time.

        >>> two = aline.Experiment(aline.load("detection"), known={"guess": 0.5})
        >>> two.known = {"guess": 0.25}
        """
        known = known_names(self._state.knowledge)
        return {name: self._state.knowledge[name]["known"] for name in known}

    @known.setter
    def known(self, known: Mapping[str, float | str] | None) -> None:
        kept = {n: one for n, one in self._state.knowledge.items() if "known" not in one}
        found = plain_knowledge(self._model, known, None)
        self._know({**kept, **found})

    def set_prior(self, prior: Mapping[str, Distribution] | Posterior | None) -> None:
        """Begin from other priors than before; None is the task's own. What is known stays so.

        >>> from torch.distributions import Normal
        >>> two = aline.Experiment(aline.load("detection"), known={"guess": 0.5})
        >>> two.set_prior({"threshold": Normal(0.4, 0.1)})
        """
        kept = {n: self._state.knowledge[n] for n in known_names(self._state.knowledge)}
        self._know({**plain_knowledge(self._model, None, prior), **kept})

    def _know(self, knowledge: Mapping[str, Any]) -> None:
        check_unknown(knowledge, list(self._state.target))
        self._change(prior=knowledge)

    @property
    def horizon(self) -> int:
        """How many trials are planned; may be raised or lowered at any time.

        >>> experiment.horizon = 40
        """
        return self._state.horizon

    @horizon.setter
    def horizon(self, horizon: int) -> None:
        self._change(horizon=check_count("horizon", horizon))

    @property
    def stop(self) -> dict[str, float]:
        """The stopping rule, name -> width of the 95 % interval; may be set at any time.

        >>> experiment.stop = {"threshold": 0.5}  # end when its 95 % interval is narrower
        """
        return dict(self._state.stop)

    @stop.setter
    def stop(self, stop: Mapping[str, float] | None) -> None:
        self._change(stop=plain_stop(self._state.spec, stop))

    def snapshot(self, journal: Journal | None = None) -> Experiment:
        """A copy of this experiment as it is now, to read while the original continues.

        What is done to the copy goes to `journal`, if that is given.

        >>> before = experiment.snapshot()
        >>> told = experiment.tell(experiment.ask(), 1)
        >>> len(before.trials), len(experiment.trials)
        (5, 6)
        """
        copy = Experiment.__new__(Experiment)
        copy._begin(journal or self._storage, self._name, self._created, self._state, self._model)
        copy._history = self._history
        return copy

    def history(self, lengths: Sequence[int] | None = None) -> list[Posterior]:
        """What was known before any data, after the first observation, and so on until now.

        `lengths` asks only for what was known after so many observations each, in ascending order.

        >>> [len(experiment.history()), len(experiment.history([0, 5]))]
        [6, 2]
        """
        return self._history.of(self._state, lengths)

    # What happens to it.

    def ask(self, *, key: str | None = None) -> Trial:
        """The next trial. Several may be open at a time; each then gets a design of its own.

        Raises StateError when the experiment is finished, or as many trials are open as are left:
        raise `experiment.horizon`, or relax `experiment.stop`, to go on.

        >>> experiment.ask().state
        'asked'
        """

        def event(state: State) -> Event:
            check_unfinished(self._name, state)
            return {"event": "asked", "trial": len(state.trials), "design": state.choice}

        return self._trial(self._commit(event, key, event="asked"))

    def tell(
        self,
        trial: Trial | int,
        outcome: Any,
        design: Mapping[str, Any] | None = None,
        *,
        note: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Trial:
        """Record what a trial gave; `design` says where, if not at the design proposed.

        Of several outcomes a mapping from their names. `note` is JSON data of your own that is kept
        with the trial, such as {"rt": 0.41}: the model does not see it.

        >>> trial = experiment.tell(experiment.ask(), 1, note={"rt": 0.41})
        >>> trial.outcome, trial.note
        (1.0, {'rt': 0.41})
        >>> trial = experiment.tell(experiment.ask(), 0, {"stimulus": 1.25})  # really shown there
        """
        beside = check_note(note)

        def event(state: State) -> Event:
            number = existing_number(state, trial)
            check_state(state, number, "told", {"asked"})
            told = {"event": "told", "trial": number, "outcome": state.outcome.read(outcome)}
            if design is not None:
                other = plain_design(state.spec.design, design)
                if other != state.trials[number].design:
                    told["design"] = other
            return told | ({} if beside is None else {"note": beside})

        plain = self._state.outcome.read(outcome)
        same = {"trial": number_of(trial), "outcome": plain, "note": beside}
        return self._trial(self._commit(event, key, event="told", **same))

    def abandon(self, trial: Trial | int, *, key: str | None = None) -> Trial:
        """Give a trial up; if it was told already, its outcome leaves the posterior.

        >>> experiment.abandon(experiment.ask()).state
        'abandoned'
        """

        def event(state: State) -> Event:
            number = existing_number(state, trial)
            check_state(state, number, "abandoned", {"asked", "told"})
            return {"event": "abandoned", "trial": number}

        same = {"trial": number_of(trial)}
        return self._trial(self._commit(event, key, event="abandoned", **same))

    def redo(self, trial: Trial | int, *, key: str | None = None) -> Trial:
        """Ask a trial's design again, as a new trial.

        If it is open it is abandoned. If it was told, both outcomes count: abandon it first if
        its outcome should not.

        >>> trial = experiment.ask()
        >>> experiment.redo(trial).design == trial.design
        True
        """

        def event(state: State) -> Event:
            number = existing_number(state, trial)
            old, is_open = state.trials[number], number in state.open
            check_unfinished(self._name, state, replacing=is_open)
            asked = {"event": "asked", "trial": len(state.trials), "design": old.design}
            return asked | ({"redo": number} if is_open else {})

        return self._trial(self._commit(event, key, event="asked"))

    def undo(self, *, key: str | None = None) -> Trial:
        """Take back the trial told last and ask its design again; open trials are abandoned.

        >>> experiment.undo().design == experiment.trials[4].design
        True
        """

        def event(state: State) -> Event:
            last = last_told(state)
            return {
                "event": "asked",
                "trial": len(state.trials),
                "design": proposal(state.trials[last]),
                "abandons": [*state.open, last],
            }

        return self._trial(self._commit(event, key, event="asked"))

    def attach(
        self, designs: Mapping[str, Any], outcomes: Any, *, key: str | None = None
    ) -> tuple[Trial, ...]:
        """Add data measured earlier: a list an axis, and the outcomes in the same order.

        >>> [trial.source for trial in experiment.attach({"stimulus": [-1.0, 2.0]}, [0, 1])]
        ['attached', 'attached']
        """
        spec = self._state.spec
        plain = plain_designs(spec.design, designs)
        values = self._state.outcome.read_all(outcomes)
        count = len(plain[spec.design.names[0]])
        if len(values) != count or not values:
            raise InputError(
                f"attach takes one outcome a design, at least one, got {count} designs and "
                f"{len(values)} outcomes"
            )
        data = {"designs": plain, "outcomes": values}
        stored = self._commit(
            lambda state: {"event": "attached", **data, "trial": len(state.trials)},
            key,
            event="attached",
            **data,
        )
        first = stored["trial"]
        return tuple(copied(trial) for trial in self._state.trials[first : first + count])

    def restrict(
        self, candidates: Mapping[str, Any] | Design | None = None, *, repeats: bool | None = None
    ) -> None:
        """Ask only for these designs from now on; None allows the whole design space again.

        `candidates` are points, {"time": [1, 2, 3]}, or a `Box` inside the task's bounds, which
        may name only some axes. With `repeats=False` no point is asked for twice; without it the
        task's own designs say whether one may be.

        >>> experiment.restrict({"stimulus": [-1.0, 0.0, 1.0]})
        >>> experiment.ask().design["stimulus"] in (-1.0, 0.0, 1.0)
        True
        """

        plain = plain_restriction(self._state.spec.design, candidates, repeats)
        self._commit(lambda state: {"event": "restricted", **plain})

    def close(self) -> None:
        """End it for good: from now on it can be looked at, and nothing else.

        >>> experiment.close()
        >>> experiment.closed
        True
        """
        if not self._state.closed:
            self._commit(lambda state: {"event": "closed"})
