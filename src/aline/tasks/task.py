"""A task: what can be learned, where it can be measured, and the simulator that answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from aline.errors import InputError
from aline.spaces import Declared, Design, Outcome, Parameters
from aline.tasks.spec import PREDICTIONS, Spec

Named = Mapping[str, Tensor]
Simulator = Callable[[Named, Named, torch.Generator], Any]
Likelihood = Callable[[Named, Named, Any], Tensor]
Explorer = Callable[[Named, int, torch.Generator], Named]
Latent = Callable[[Named, torch.Generator], Named]

BRANCHES = 8  # outcomes up to which an expectation visits each: a pass of the network for each


class World(Protocol):
    """A batch of drawn truths, each of which answers any design."""

    @property
    def theta(self) -> Tensor:
        """The true parameters [batch, parameter] on the network's scale."""
        ...

    @property
    def is_recorded(self) -> bool:
        """Whether it answers only designs that it has on record."""
        ...

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Designs [batch, count, design] that it answers, at random, on the network's scale."""
        ...

    def answer(self, designs: Tensor, generator: torch.Generator) -> Tensor:
        """Outcomes [batch, count, *event] of designs [batch, count, design], network's scale."""
        ...

    def branches(self, designs: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Outcomes [batch, count, branch, *event] with weights [batch, count, branch] whose
        weighted mean stands for the expectation over outcomes: every outcome with its probability
        where that is known and they are few, else one draw.
        """
        ...


class Task:
    """An experiment written down as a simulator.

    `simulate(theta, design, generator)` is batched and elementwise: `theta[name]` has shape
    [batch, 1] ([batch, 1, n] for a vector parameter), `design[name]` has shape [batch, count], and
    the outcomes come back as [batch, count], all in the user's units, in a tensor or a numpy array;
    several named ones (`Outcomes`) as a dict of these. A discrete parameter (`Categorical`) is the
    place of its value, counting from 0, as whole numbers. Optional are

    - `log_likelihood(theta, design, outcome)`, of the same shapes;
    - `log_peak(theta, design, outcome)`, a quick upper bound on its sum over the last axis, such as
      the density at the mode of the noise: the bounds on an information gain then skip hopeless
      draws;
    - `explore(theta, count, generator)`, informative designs for a known truth: the warm-up of a
      training measures there too, and starts the policy by imitating it; an informed policy
      (`model={"policy": "informed"}`) chooses among those for truths that are still possible;
    - `resolution`, the finest step in a design, as a share of its range, that makes a difference;
    - `targets`, from tuples of parameter names (or "predictions") to the share of training episodes
      aimed at them;
    - `turns`, from some of these tuples to the number of trials in a row (else one) that they get
      in a goal that none of them holds, which is pursued part by part: more for what is learned
      more slowly;
    - `latent(theta, generator)`, what else a world is made of, drawn once for each: a random
      function, say. `theta` then carries it too, by name, as [batch, ...]. A parameter's own name
      in it replaces the parameter's draw, where priors depend on each other;
    - `scaled`, the parameters that are in the outcome's units;
    - `model` and `training`, settings that suit the task better than the defaults, and `budget`,
      how long to train it where nothing else is said.

    >>> import torch
    >>> from torch.distributions import Uniform
    >>> from aline.spaces import Binary, Box
    >>> task = Task(
    ...     parameters={"bias": Uniform(0.0, 1.0)},
    ...     design=Box(x=(0.0, 1.0)),
    ...     outcome=Binary(),
    ...     simulate=lambda theta, design, generator: (
    ...         torch.rand(design["x"].shape, generator=generator) < theta["bias"]
    ...     ),
    ...     horizon=10,
    ... )
    >>> task.draw(3, torch.Generator()).theta.shape
    torch.Size([3, 1])
    """

    def __init__(
        self,
        *,
        parameters: Mapping[str, Declared] | Parameters,
        design: Design,
        outcome: Outcome,
        simulate: Simulator,
        horizon: int,
        name: str = "task",
        log_likelihood: Likelihood | None = None,
        log_peak: Likelihood | None = None,
        explore: Explorer | None = None,
        latent: Latent | None = None,
        targets: Mapping[tuple[str, ...], float] | None = None,
        turns: Mapping[tuple[str, ...], int] | None = None,
        scaled: Sequence[str] = (),
        start: int = 0,
        resolution: float = 0.06,
        config: Mapping[str, Any] | None = None,
        units: Mapping[str, str] | None = None,
        model: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        budget: str = "30min",
    ):
        if not isinstance(parameters, Parameters):
            parameters = Parameters(parameters)
        _check(parameters, design, outcome, simulate, horizon)
        if not 0 < resolution < 1:
            raise InputError(f"resolution must lie between 0 and 1, got {resolution!r}")
        shares = _shares(parameters, targets)
        self.spec = Spec(
            name=name,
            parameters=parameters,
            design=design,
            outcome=outcome,
            horizon=horizon,
            targets=shares,
            turns=_turns(dict(shares), turns or {}),
            start=start,
            resolution=resolution,
            config=config or {},
            units=units or {},
            scaled=tuple(scaled),
        )
        parameters.mask(scaled)  # says so if a name is unknown
        self.simulate = simulate
        self.log_likelihood = log_likelihood
        self.log_peak = log_peak
        self.explore = explore
        self.latent = latent
        self.model, self.training = dict(model or {}), dict(training or {})
        self.budget = budget

    def __repr__(self) -> str:
        return f"<Task {self.spec.in_words()}>"

    def __getattr__(self, name: str) -> Any:
        # The spec's fields read as the task's own: task.horizon, task.parameters.
        if name != "spec" and name in Spec.__dataclass_fields__:
            return getattr(self.spec, name)
        raise AttributeError(f"Task has no attribute {name!r}")

    def draw(self, batch: int, generator: torch.Generator) -> SimulatedWorld:
        """Worlds with parameters from the prior.

        >>> task.draw(3, torch.Generator()).theta.shape
        torch.Size([3, 1])
        """
        theta = self.spec.parameters.sample(batch, generator)
        hidden = self._hidden(theta, generator)
        tied = {name: hidden.pop(name) for name in self.spec.parameters.priors if name in hidden}
        if tied:
            free = self.spec.parameters.to_user(theta[:, None])
            theta = self.spec.parameters.to_network({**free, **tied})[:, 0]
        return SimulatedWorld(self, theta, hidden)

    def world(self, theta: Mapping[str, Any], generator: torch.Generator | None = None) -> World:
        """A world with these parameters, in the user's units; the generator draws the rest.

        >>> task.world({"bias": 0.2}).answer(torch.zeros(1, 4, 1), torch.Generator()).shape
        torch.Size([1, 4])
        """
        truth = self.spec.parameters.to_network(theta).reshape(1, -1)
        return self.worlds(truth, generator or torch.Generator())

    def worlds(self, theta: Tensor, generator: torch.Generator) -> World:
        """Worlds with parameters [batch, parameter] on the network's scale, the rest drawn.

        >>> task.worlds(torch.zeros(2, 1), torch.Generator()).theta.shape
        torch.Size([2, 1])
        """
        hidden = self._hidden(theta, generator)
        free = {n: v for n, v in hidden.items() if n not in self.spec.parameters.priors}
        return SimulatedWorld(self, theta, free)

    def _hidden(self, theta: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        if self.latent is None:
            return {}
        found = self.latent(self.spec.parameters.to_user(theta[:, None]), generator)
        return {name: as_float_tensor(value) for name, value in found.items()}

    def fitted(self) -> Task:
        """This task with the outcome's scale measured on simulations from the prior.

        >>> task.fitted().outcome
        Binary()
        """
        if self.spec.outcome.is_fitted:
            return self
        generator = torch.Generator()  # its default seed: the scale is a constant of the task
        world = self.draw(512, generator)
        outcomes = world.simulate(world.sample(16, generator), generator)
        return self._with(replace(self.spec, outcome=self.spec.outcome.fitted(outcomes)))

    def checked(self) -> Task:
        """This task, if its simulator answers a few designs as its outcome says.

        What is most likely a mistake, though it can be meant, is a `TaskWarning`.

        >>> from aline.tasks import get
        >>> line = get("linear")
        >>> line.checked() is line
        True
        """
        import_module("aline.tasks.mistakes").check(self)  # which builds on this module
        return self

    def described_by(self, spec: Spec) -> Task:
        """This task's simulator on the scales of a trained model's spec, which must be its own.

        >>> task.described_by(task.fitted().spec).horizon
        10
        """
        mine, theirs = (
            {**one.to_json(), "outcome": one.outcome.signature()} for one in (self.spec, spec)
        )
        for part in ("parameters", "design", "outcome"):
            if mine[part] != theirs[part]:
                raise InputError(
                    f"the model was trained with other {part} than this task {self.spec.name} "
                    "has: pass the task it was trained for"
                )
        spec.design.knowing(self.spec.design)
        return self._with(spec)

    def _with(self, spec: Spec) -> Task:
        task = object.__new__(type(self))
        task.__dict__.update(self.__dict__)
        task.spec = spec
        return task

    def informative(self, theta: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """What `explore` names for truths [batch, parameter], [batch, count, design].

        All on the network's scale.

        >>> from aline.tasks import get
        >>> ces = get("ces")
        >>> worlds = ces.draw(2, torch.Generator())
        >>> ces.informative(worlds.theta, 5, torch.Generator()).shape
        torch.Size([2, 5, 6])
        """
        if self.explore is None:
            raise InputError(f"task {self.spec.name} has no explore: give one to Task(...)")
        near = self.explore(self.spec.parameters.to_user(theta[:, None]), count, generator)
        columns = [as_float_tensor(near[name]) for name in self.spec.design.names]
        space = self.spec.design
        x = space.to_network(torch.stack(columns, -1))
        if space.is_plain:
            return x
        return space.possible(x, space.sample(x.shape[0], x.shape[1], generator))

    def log_prob(self, theta: Tensor, designs: Tensor, outcomes: Tensor) -> Tensor:
        """Log likelihood [batch, count] of network-scale values; batch axes broadcast.

        Outcomes are [batch, count, *event].

        >>> from aline.tasks import get
        >>> line = get("linear")
        >>> line.log_prob(torch.zeros(3, 2), torch.zeros(3, 5, 1), torch.zeros(3, 5)).shape
        torch.Size([3, 5])
        """
        if self.log_likelihood is None:
            raise InputError(f"task {self.spec.name} has no log_likelihood: give one to Task(...)")
        try:
            found = self._log_likelihood_of(theta[..., None, :], designs, outcomes)
        except (IndexError, RuntimeError):
            # A likelihood that does not broadcast: with tensors of one shape it is only slower.
            event = len(self.spec.outcome.event_shape)
            told = outcomes.shape[: outcomes.dim() - event]
            shape = torch.broadcast_shapes((*theta.shape[:-1], 1), designs.shape[:-1], told)
            found = self._log_likelihood_of(
                theta[..., None, :].expand(*shape, theta.shape[-1]),
                designs.expand(*shape, designs.shape[-1]),
                outcomes.expand(*shape, *outcomes.shape[outcomes.dim() - event :]),
            )
        return found if torch.is_tensor(found) else torch.as_tensor(found, dtype=theta.dtype)

    def _log_likelihood_of(self, theta: Tensor, designs: Tensor, outcomes: Tensor) -> Tensor:
        """By the user's own function, in the user's units."""
        assert self.log_likelihood is not None
        return self.log_likelihood(
            self.spec.parameters.to_user(theta),
            self.spec.design.name_columns(designs),
            self.spec.outcome.to_user(outcomes),
        )


@dataclass(frozen=True)
class SimulatedWorld:
    """Parameters drawn for a batch, answered by the task's simulator."""

    task: Task
    theta: Tensor
    hidden: Named = field(default_factory=dict)  # what the task calls latent, name -> [batch, ...]

    is_recorded: ClassVar[bool] = False

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Designs [batch, count, design], uniform over what is allowed."""
        return self.task.spec.design.sample(len(self.theta), count, generator)

    def answer(self, designs: Tensor, generator: torch.Generator) -> Tensor:
        """Simulate in the user's units, return on the network's scale."""
        outcomes = self.simulate(designs, generator)
        return self.task.spec.outcome.to_network(outcomes).float()

    def simulate(self, designs: Tensor, generator: torch.Generator) -> Any:
        """Outcomes in the user's units, checked."""
        spec = self.task.spec
        outcomes = self.task.simulate(self.values(), spec.design.name_columns(designs), generator)
        return spec.outcome.simulated(outcomes, designs.shape[:2])

    def values(self) -> Named:
        """Parameters in the user's units, and what is latent."""
        return {**self.task.spec.parameters.to_user(self.theta[:, None, :]), **self.hidden}

    def branches(self, designs: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Every outcome, where they are few and their likelihood is known, else one draw."""
        every = self.task.spec.outcome.enumerate()
        if every is None or len(every) > BRANCHES or self.task.log_likelihood is None:
            outcomes = self.answer(designs, generator)[:, :, None]
            return outcomes, torch.ones(outcomes.shape[:3])
        outcomes = every.expand(*designs.shape[:2], *every.shape)
        log_prob = [self.task.log_prob(self.theta, designs, y) for y in outcomes.unbind(2)]
        return outcomes, torch.stack(log_prob, -1).exp()


def _check(
    parameters: Parameters, design: Design, outcome: Outcome, simulate: Simulator, horizon: int
) -> None:
    if not isinstance(design, Design):
        raise InputError(f"design must be a Box, Pool or Grid, got {design!r}")
    if not design.repeats and design.points is not None and len(design.points) < horizon:
        raise InputError(
            f"a pool whose points are used once must have one for each of {horizon} trials, got "
            f"{len(design.points)}: lower the horizon, or allow repeats"
        )
    if not isinstance(outcome, Outcome):
        raise InputError(
            "outcome must be Real(), Binary(), Categorical(labels), Ordinal(levels), Count() or "
            f"Outcomes(...), got {outcome!r}"
        )
    outcome.check_declared()
    if not callable(simulate):
        raise InputError(f"simulate must be callable, got {simulate!r}")
    if not (isinstance(horizon, int) and horizon >= 1):
        raise InputError(f"horizon must be a whole number of trials, at least 1, got {horizon!r}")
    if PREDICTIONS in parameters.labels:
        raise InputError(f"{PREDICTIONS!r} names a target of its own: rename the parameter")


def _shares(
    parameters: Parameters, targets: Mapping[tuple[str, ...], float] | None
) -> tuple[tuple[tuple[str, ...], float], ...]:
    """The share of episodes aimed at each target, summing to one."""
    names = tuple(parameters.priors)
    if targets is None:
        targets = {names: 0.4, (PREDICTIONS,): 0.2} if names else {(PREDICTIONS,): 1.0}
        for name in names:
            targets[(name,)] = targets.get((name,), 0.0) + 0.4 / len(names)
    if not targets:
        raise InputError('targets must not be empty: targets={("rate",): 1.0}')
    for target in targets:
        parameters.mask(name for name in target if name != PREDICTIONS)
    total = sum(targets.values())
    if not (0 < total < math.inf and min(targets.values()) >= 0):
        raise InputError(f"the shares of targets must be positive, got {dict(targets)!r}")
    return tuple((tuple(target), share / total) for target, share in targets.items())


def _turns(
    targets: Container[tuple[str, ...]], turns: Mapping[tuple[str, ...], int]
) -> tuple[tuple[tuple[str, ...], int], ...]:
    """Checked: of targets that there are, and whole numbers."""
    for names, count in turns.items():
        if names not in targets or not (isinstance(count, int) and count >= 1):
            raise InputError(
                "turns must be a whole number of trials, at least 1, for some of the targets, got "
                f"{dict(turns)!r}"
            )
    return tuple((tuple(names), count) for names, count in turns.items())


def as_float_tensor(values: Any) -> Tensor:
    """A tensor as it is; of a numpy array's numbers, those with a fraction in single precision."""
    if torch.is_tensor(values):
        return values
    tensor = torch.as_tensor(values)
    return tensor.float() if tensor.is_floating_point() else tensor


def is_differentiable(task: Task) -> bool:
    """Whether outcomes carry a gradient with respect to the design."""
    if not task.spec.outcome.is_continuous:
        return False
    generator = torch.Generator()
    world = task.fitted().draw(2, generator)
    designs = world.sample(3, generator)
    world.answer(designs, generator)  # says so if the simulator is wrong
    try:
        return world.answer(designs.requires_grad_(), generator).requires_grad
    except (RuntimeError, TypeError):  # numpy takes no tensor that a gradient passes
        return False
