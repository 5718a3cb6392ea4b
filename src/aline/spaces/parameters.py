"""The parameters of a task: names, priors, and the network's coordinates for them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch import distributions as td

from aline.errors import InputError, nearest
from aline.spaces.outcomes.cut import NEVER, Cells, CutMixture
from aline.spaces.outcomes.mixture import Mixture
from aline.spaces.priors import CategoricalScale, Declared, Prior, Scale, log_volume


class SoleValues(NamedTuple):
    """Of the only discrete parameter."""

    column: int
    is_column: Tensor  # bool [parameter]
    centres: Tensor  # [value], on the network's scale


class Parameters:
    """Named parameters with independent priors.

    A scalar prior is one coordinate; a vector prior named `a` has coordinates a_1 .. a_n; a
    Dirichlet of K has K - 1, the sticks of its stick-breaking, because K marginals of a simplex
    are no density. On the network's scale every coordinate is standard normal under the prior. A
    discrete parameter (`Categorical`) is one coordinate, cut into a cell for each value.

    >>> from torch.distributions import Uniform
    >>> Parameters({"rate": Uniform(0.1, 2.0)}).names
    ('rate',)
    """

    def __init__(self, priors: Mapping[str, Declared | Prior]):
        if not isinstance(priors, Mapping):
            raise InputError(
                f"parameters must map names to priors, got {type(priors).__name__}: "
                'write parameters={"rate": Uniform(0.1, 2.0)}'
            )
        self.priors = {
            name: prior if isinstance(prior, Prior) else Prior.of(name, prior)
            for name, prior in priors.items()
        }
        self._columns: dict[str, list[int]] = {}
        names: list[str] = []
        self.scales: list[Scale] = []
        for name, prior in self.priors.items():
            scales = prior.scales()
            self._columns[name] = list(range(len(names), len(names) + len(scales)))
            names += [f"{name}_{i + 1}" for i in range(len(scales))] if prior.size else [name]
            self.scales += scales
        self.names = tuple(names)
        for name, prior in self.priors.items():
            for owner, label in prior.given.items():
                if owner == name or label not in self.values_of(owner):
                    raise InputError(
                        f"{name} exists only where another, discrete parameter has one of its "
                        f"values, got {owner}={label!r}: declare {owner} as a Categorical"
                    )

    def values_of(self, name: str) -> tuple[str, ...]:
        """The labels of a discrete parameter; none of another."""
        prior = self.priors.get(name)
        is_discrete = prior is not None and prior.family == "Categorical"
        return tuple(prior.arguments["labels"]) if prior and is_discrete else ()

    @cached_property
    def cells(self) -> Cells | None:
        """The cells of discrete parameters on the network's scale, if there are such."""
        probs = [s.probs if isinstance(s, CategoricalScale) else None for s in self.scales]
        return Cells(probs) if any(probs) else None

    def cut(
        self,
        mixture: Mixture,
        column: Tensor | None = None,
        prior: tuple[Tensor, Tensor] | None = None,
    ) -> Mixture:
        """A mixture [..., parameter], or about `column` [...], as what it says of discrete ones.

        With a prior, means and standard deviations [...], the mixture is under the task's own, and
        the values of discrete parameters are weighed by Bayes' rule, which is exact.
        """
        if self.cells is None:
            return mixture
        column = torch.arange(len(self)) if column is None else column
        column = column.expand(mixture.shape)[..., None]
        parts = mixture.log_weight, mixture.mean, mixture.std, column
        odds = mixture.mean.new_zeros(()).expand(*mixture.shape, self.cells.share.shape[-1])
        belief = CutMixture(*parts, odds, self.cells)
        if prior is None:
            return belief
        log_prior = self._log_mass(column, prior)
        return replace(belief, log_odds=self.cells.log_odds(log_prior, column[..., 0]))

    @cached_property
    def sole_values(self) -> SoleValues | None:
        """The values of the only discrete parameter; None where there are none, or several."""
        if self.cells is None or int(self.cells.is_discrete.sum()) != 1:
            return None
        column = int(self.cells.is_discrete.nonzero()[0])
        return SoleValues(column, self.cells.is_discrete, self.cells.medians[column])

    def log_prior_of_values(
        self, column: int, prior: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """Of a discrete parameter [..., value], by the task's prior or one with means and stds."""
        assert self.cells is not None
        count = len(self.cells.medians[column])
        if prior is None:
            return self.cells.share[column, :count].log()
        which = torch.full((*prior[0].shape, 1), column)
        return self._log_mass(which, prior)[..., :count].clamp_min(-NEVER)

    def _log_mass(self, column: Tensor, prior: tuple[Tensor, Tensor]) -> Tensor:
        """Of the values of parameters `column` [..., 1] under normal priors, [..., value]."""
        assert self.cells is not None
        mean, std = (part[..., None] for part in prior)
        none = mean.new_zeros(()).expand(*mean.shape[:-1], self.cells.share.shape[-1])
        chosen = CutMixture(torch.zeros_like(mean), mean, std, column, none, self.cells)
        return chosen.log_mass

    def uncut(self, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor]:
        """Chosen priors [..., parameter] with the task's own in the place of discrete ones."""
        if self.cells is None:
            return mean, std
        return (
            mean.masked_fill(self.cells.is_discrete, 0.0),
            std.masked_fill(self.cells.is_discrete, 1.0),
        )

    def settled(self, z: Tensor) -> Tensor:
        """Numbers [..., parameter] with those that mean the same value alike."""
        return z if self.cells is None else self.cells.settle(z)

    def redrawn(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """Numbers [..., parameter] of the same values, as the prior has them given these."""
        return z if self.cells is None else self.cells.redraw(z, generator)

    def place(self, given: Mapping[str, str]) -> tuple[int, int]:
        """A value of a discrete parameter, {name: label}: its column, and its place there."""
        ((name, label),) = given.items()
        values = self.values_of(name)
        if label not in values:
            raise InputError(
                f"{name} is {'one of ' + ', '.join(values) if values else 'a number'}, got "
                f"{label!r}: {nearest(label, values) if values else 'pass a number'}"
            )
        return self.index(name)[0], values.index(label)

    def exists(self, label: str, z: Tensor) -> Tensor | None:
        """In which of draws [..., parameter] a parameter exists, [...]; None if in all."""
        given = self.priors[self._owner(label)].given
        if not given:
            return None
        column, place = self.place(given)
        return self.scales[column].to_user(z[..., column]) == place

    def __len__(self) -> int:
        return len(self.names)

    @property
    def labels(self) -> tuple[str, ...]:
        """Every scalar a user can ask about: the coordinates, and a simplex's derived last one."""
        return tuple(
            label
            for name, prior in self.priors.items()
            for label in ([f"{name}_{i + 1}" for i in range(prior.size)] if prior.size else [name])
        )

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Prior draws [count, parameter] on the network's scale."""
        return torch.randn(count, len(self), generator=generator)

    def index(self, name: str) -> list[int]:
        """The coordinates that a name stands for: one, or those of a vector parameter."""
        if name in self._columns:
            return self._columns[name]
        if name in self.names:
            return [self.names.index(name)]
        raise InputError(
            f"parameters are {', '.join(self.labels) or 'none'}, got {name!r}: "
            + nearest(name, [*self.priors, *self.labels])
        )

    def mask(self, names: Iterable[str]) -> Tensor:
        """Which coordinates the names select, bool [parameter]."""
        selected = torch.zeros(len(self), dtype=torch.bool)
        for name in names:
            selected[self.index(name)] = True
        return selected

    def is_direct(self, label: str) -> bool:
        """Whether a label is a monotone map of one coordinate (a simplex's later ones are not)."""
        owner = self._owner(label)
        return self.priors[owner].family != "Dirichlet" or label == f"{owner}_1"

    def _owner(self, label: str) -> str:
        for name, prior in self.priors.items():
            if label == name or (
                prior.size and label in {f"{name}_{i + 1}" for i in range(prior.size)}
            ):
                return name
        raise InputError(
            f"parameters are {', '.join(self.labels) or 'none'}, got {label!r}: "
            + nearest(label, [*self.priors, *self.labels])
        )

    def to_user(self, z: Tensor) -> dict[str, Tensor]:
        """Network coordinates [..., parameter] as declared: name -> [...] or [..., n]."""
        user = {}
        for name, columns in self._columns.items():
            parts = [self.scales[c].to_user(z[..., c]) for c in columns]
            prior = self.priors[name]
            if prior.family == "Dirichlet":
                user[name] = _break_sticks(torch.stack(parts, -1))
            else:
                user[name] = torch.stack(parts, -1) if prior.size else parts[0]
        return user

    def to_labels(self, z: Tensor) -> dict[str, Tensor]:
        """Network coordinates [..., parameter] as scalars: label -> [...]."""
        flat: dict[str, Tensor] = {}
        for name, value in self.to_user(z).items():
            size = self.priors[name].size
            columns = value.unbind(-1) if size else (value,)
            labels = [f"{name}_{i + 1}" for i in range(size)] if size else [name]
            flat.update(zip(labels, columns, strict=True))
        return flat

    def to_network(self, theta: Mapping[str, Any], dtype: torch.dtype = torch.float32) -> Tensor:
        """Declared parameters (name -> [...] or [..., n]) as network coordinates."""
        missing = [name for name in self.priors if name not in theta]
        unknown = [name for name in theta if name not in self.priors]
        if missing or unknown:
            raise InputError(
                f"parameter values must name exactly {', '.join(self.priors)}; "
                f"missing {missing or 'none'}, unknown {unknown or 'none'}"
            )
        columns: list[Tensor] = []
        for name, prior in self.priors.items():
            value = _read(name, prior, theta[name], dtype)
            parts = value.unbind(-1) if prior.size else (value,)
            for column, part in zip(self._columns[name], parts, strict=True):
                columns.append(self._checked(column, part))
        try:
            columns = list(torch.broadcast_tensors(*columns))
        except RuntimeError:
            shapes = ", ".join(str(tuple(column.shape)) for column in columns)
            raise InputError(f"parameter values must fit one shape, got {shapes}") from None
        return torch.stack(columns, -1) if columns else torch.zeros(0)

    def coordinate(self, name: str, value: Tensor) -> Tensor:
        """Values [...] of a parameter that is one number, on the network's scale."""
        (column,) = self.index(name)
        return self._checked(column, value)

    def _checked(self, column: int, value: Tensor) -> Tensor:
        """On the network's scale, if it lies in the prior's support."""
        low, high = self.scales[column].support
        # A bound was declared in float32, and a value may come in float64.
        slack = 1e-6 * (high - low) if math.isfinite(high - low) else 0.0
        inside = (value >= low - slack) & (value <= high + slack) & value.isfinite()
        if not bool(inside.all()):
            raise InputError(
                f"{self.names[column]} must lie in [{low:g}, {high:g}], got "
                f"{value[~inside].flatten()[0].item():g}: pass parameter values in the task's units"
            )
        return self.scales[column].to_network(value.clamp(low, high))

    def log_volume(self, z: Tensor) -> Tensor:
        """Log |d theta / d z| a coordinate, [..., parameter].

        Subtract it from a log density on the network's scale to get one in the user's units. The
        sticks of a simplex include the Jacobian from sticks to the free coordinates.
        """
        columns = [log_volume(scale, z[..., c]) for c, scale in enumerate(self.scales)]
        for name, prior in self.priors.items():
            if prior.family == "Dirichlet":
                left = torch.zeros_like(z[..., 0])
                for column in self._columns[name]:
                    columns[column] = columns[column] + left
                    stick = self.scales[column].to_user(z[..., column].double())
                    left = left + torch.log1p(-stick).to(z.dtype)
        return torch.stack(columns, -1) if columns else torch.zeros(*z.shape[:-1], 0)

    def log_prior(self, z: Tensor) -> Tensor:
        """The prior's log density in the user's units a coordinate, [..., parameter]."""
        normal: Tensor = td.Normal(0.0, 1.0).log_prob(z)
        return normal - self.log_volume(z)

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card."""
        return {name: prior.to_json() for name, prior in self.priors.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Parameters:
        """Read what `to_json` wrote."""
        return cls({name: Prior.from_json(prior) for name, prior in data.items()})


def _read(name: str, prior: Prior, value: Any, dtype: torch.dtype) -> Tensor:
    """A user's value of one declared parameter, as its free coordinates in the last axis."""
    if isinstance(value, str) and prior.family == "Categorical":
        value = Parameters({name: prior}).place({name: value})[1]
    try:
        number = torch.as_tensor(value, dtype=dtype)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} must be a number or an array of them, got {value!r}") from None
    if prior.size and (number.dim() == 0 or number.shape[-1] != prior.size):
        raise InputError(
            f"{name} must have {prior.size} numbers in its last axis, got shape "
            f"{tuple(number.shape)}"
        )
    if prior.family != "Dirichlet":
        return number
    total = number.sum(-1)
    if not bool(((total - 1).abs() < 1e-4).all()):
        raise InputError(
            f"{name} must sum to 1, got {total.flatten()[0].item():g}: pass the shares of a whole"
        )
    return _sticks(number)


def _break_sticks(sticks: Tensor) -> Tensor:
    """Stick fractions [..., K - 1] as simplex weights [..., K]."""
    left = torch.cumprod(1 - sticks, -1)
    before = torch.cat([torch.ones_like(left[..., :1]), left], -1)
    return before * torch.cat([sticks, torch.ones_like(sticks[..., :1])], -1)


def _sticks(weights: Tensor) -> Tensor:
    """Simplex weights [..., K] as stick fractions [..., K - 1]."""
    used = torch.cumsum(weights, -1) - weights
    return (weights[..., :-1] / (1 - used[..., :-1]).clamp_min(1e-12)).clamp(max=1.0)
