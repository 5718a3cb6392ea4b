"""What an experiment expects to measure at given designs, in the user's units."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
from torch import Tensor

from aline.errors import InputError
from aline.experiment.marginals import Shape, axes_of, check_probability, tails
from aline.spaces import Belief, Outcome
from aline.spaces.outcomes.several import Joint


class Predictive:
    """Beliefs about one outcome a design; everything comes as [design], in the order asked.

    >>> import aline
    >>> experiment = aline.Experiment(aline.load("psychometric"))
    >>> prediction = experiment.predict({"stimulus": [-4.0, 4.0]})
    >>> low, high = prediction.probability.tolist()
    >>> low < high
    True
    >>> prediction.mean.shape, prediction.std.shape, prediction.log_prob([0, 1]).shape
    (torch.Size([2]), torch.Size([2]), torch.Size([2]))
    >>> prediction.sample(7).shape
    torch.Size([7, 2])
    >>> low, high = prediction.interval(0.9)
    >>> prediction.quantile(0.99).tolist()
    [1.0, 1.0]
    >>> [*prediction.probabilities], [*prediction.curves], [*prediction.parts]
    (['no', 'yes'], [''], ['outcome'])
    >>> sorted(prediction.summary())
    ['interval', 'mean', 'probabilities', 'std']
    """

    def __init__(self, belief: Belief, outcome: Outcome):
        self._outcome, self._belief = outcome, belief.double()

    def __len__(self) -> int:
        return self._belief.shape[0]

    @property
    def parts(self) -> dict[str, Predictive]:
        """This one alone, as several have it."""
        return {"outcome": self}

    @property
    def probability(self) -> Tensor:
        """The probability of a yes, for binary outcomes."""
        if self._outcome.labels != ("no", "yes"):
            raise InputError(
                f"{self._outcome.words()} has no probability of a yes: use "
                f"{'probabilities' if self._outcome.labels else 'mean or interval'}"
            )
        return self.probabilities["yes"]

    @property
    def probabilities(self) -> dict[str, Tensor]:
        """The probability of each label or level."""
        if not self._outcome.labels:
            raise InputError(f"{self._outcome.words()} has no labels: use log_prob, or mean")
        weights = self._belief.outcomes()[1].float().unbind(-1)
        return dict(zip(self._outcome.labels, weights, strict=True))

    @property
    def mean(self) -> Tensor:
        """The expected outcome; for a binary one, the probability of a yes."""
        return self._outcome.moments(self._belief)[0].float()

    @property
    def std(self) -> Tensor:
        """The outcome's standard deviation, noise included."""
        return self._outcome.moments(self._belief)[1].float()

    @property
    def curves(self) -> dict[str, Tensor]:
        """What to draw over the designs: the mean by the name "", or a curve a label."""
        return {k: v.float() for k, v in self._outcome.curves(self._belief).items()}

    def quantile(self, p: float) -> Tensor:
        """The value below which each outcome lies with probability p; 0 or 1 for a binary one."""
        found: Tensor = self._outcome.to_user(self._belief.quantile(check_probability(p)))
        return found.float()

    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """The lower and upper ends of the central interval of each outcome."""
        low, high = tails(level)
        return self.quantile(low), self.quantile(high)

    def sample(self, shape: Shape = (), generator: torch.Generator | None = None) -> Tensor:
        """Draws [*shape, design], independent across designs; repeatable without a generator."""
        axes = axes_of(shape)
        flat = self._belief.sample(math.prod(axes), generator or torch.Generator())
        drawn: Tensor = self._outcome.to_user(flat.reshape(*axes, len(self)))
        return drawn.float()

    def log_prob(self, outcome: Any) -> Tensor:
        """Log density (or log probability) of outcomes that broadcast with [design]."""
        return log_prob(self._belief, self._outcome, outcome)

    def summary(self, level: float = 0.95) -> dict[str, Any]:
        """As plain lists; None where an outcome of this kind has no such thing."""
        found: dict[str, Any] = dict.fromkeys(("mean", "std", "interval", "probabilities"))
        if self._outcome.labels:
            found["probabilities"] = {k: v.tolist() for k, v in self.probabilities.items()}
        if self._outcome.has_mean:
            mean, std = self._outcome.moments(self._belief)
            found |= {"mean": mean.float().tolist(), "std": std.float().tolist()}
        if self._outcome.has_interval:
            ends = (end.tolist() for end in self.interval(level))
            found["interval"] = [list(pair) for pair in zip(*ends, strict=True)]
        return found

    def __repr__(self) -> str:
        columns = {"mean": self.mean, "sd": self.std} if self._outcome.has_mean else {}
        columns = columns or self.probabilities
        names = [f"{name:>9}" for name in columns]
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        lines = ["  ".join(f"{value:9.4g}" for value in row) for row in rows]
        return "\n".join(["  ".join(names), *lines])


class JointPredictive(Mapping[str, Predictive]):
    """Beliefs about several outcomes a design: name -> Predictive, and all of them together.

    >>> import aline, torch
    >>> from torch.distributions import Uniform
    >>> def simulate(theta, design, generator):
    ...     drive = theta["gain"] * design["contrast"]
    ...     yes = torch.rand(drive.shape, generator=generator) < drive.sigmoid()
    ...     return {"choice": yes, "rt": 0.8 + 0.1 * torch.randn(drive.shape, generator=generator)}
    >>> task = aline.Task(
    ...     parameters={"gain": Uniform(0.1, 3.0)},
    ...     design=aline.Box(contrast=(-2.0, 2.0)),
    ...     outcome=aline.Outcomes(choice=aline.Binary(), rt=aline.Real()),
    ...     simulate=simulate,
    ...     horizon=3,
    ... )
    >>> model = aline.train(task, rounds=1, progress=False, verdict=False)
    >>> prediction = aline.Experiment(model).predict({"contrast": [0.5, 1.0]})
    >>> prediction["choice"].probability.shape, prediction.sample(5)["rt"].shape
    (torch.Size([2]), torch.Size([5, 2]))
    >>> prediction.log_prob({"choice": 1, "rt": 0.6}).shape  # of both together
    torch.Size([2])
    >>> sorted(prediction.summary()["parts"])
    ['choice', 'rt']
    """

    def __init__(self, belief: Joint, outcome: Outcome):
        self._outcome, self._belief = outcome, belief.double()
        self.parts = {
            name: Predictive(self._belief.part(name), part) for name, part in outcome.parts.items()
        }

    def __getitem__(self, name: str) -> Predictive:
        """One outcome, whatever the others are."""
        return self.parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def sample(
        self, shape: Shape = (), generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Draws of all outcomes together, name -> [*shape, design]."""
        axes = axes_of(shape)
        flat = self._belief.sample(math.prod(axes), generator or torch.Generator())
        drawn = self._outcome.to_user(flat.reshape(*axes, *flat.shape[1:]))
        return {name: value.float() for name, value in drawn.items()}

    def log_prob(self, outcome: Mapping[str, Any]) -> Tensor:
        """Of outcomes by name that broadcast with [design], all together."""
        return log_prob(self._belief, self._outcome, outcome)

    def summary(self, level: float = 0.95) -> dict[str, Any]:
        """As plain lists."""
        return {"parts": {name: part.summary(level) for name, part in self.parts.items()}}

    def __repr__(self) -> str:
        return "\n".join(f"{name}\n{part!r}" for name, part in self.parts.items())


def log_prob(belief: Belief, outcome: Outcome, value: Any) -> Tensor:
    """Log density in the user's units."""
    y = outcome.to_network(outcome.values(value)).double()
    return belief.log_prob(y) - outcome.log_volume(y)


def predictive_of(belief: Belief, outcome: Outcome) -> Predictive | JointPredictive:
    """Beliefs [design] in the user's units."""
    if outcome.event_shape:
        return JointPredictive(cast(Joint, belief), outcome)
    return Predictive(belief, outcome)
