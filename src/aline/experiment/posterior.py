"""What an experiment knows about its parameters, in the user's units.

The network gives a Gaussian mixture for every coordinate, on the scale where the prior is a
standard normal. Each coordinate is a monotone map of one parameter, so quantiles map through it,
densities get its Jacobian, and moments are Gauss-Hermite quadratures: all deterministic. Only
the later shares of a simplex, which are products of coordinates, need draws, and these have a
fixed seed. Nothing is computed until asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aline.errors import InputError, UserError
from aline.experiment.drawing import drawing
from aline.experiment.drawn import drawn_share
from aline.experiment.frames import import_pandas
from aline.experiment.given_values import complete, find_label, read_values
from aline.experiment.marginals import (
    Array,
    Components,
    Coordinate,
    Marginal,
    Shape,
    Share,
    axes_of,
)
from aline.experiment.settings import check_count
from aline.experiment.values import Values
from aline.model import Joint, Mixture
from aline.spaces import Parameters
from aline.spaces.outcomes.cut import CutMixture

if TYPE_CHECKING:
    import arviz
    import pandas

SHARE_DRAWS = 4096  # where sticks depend: quantiles to about 3 % of a standard deviation


class Posterior:
    """What is known of each parameter, and of all of them together.

    `names` are scalars: a vector parameter `a` appears as a_1, a_2, ... Of a discrete parameter
    `probabilities` tells; numbers are about the places of its values, counting from 0. One that
    exists only under a value is described given that value. `mixture` holds the marginal densities
    on the network's scale. Draws and joint densities come from `joint`; without it parameters are
    taken as independent.

    >>> import aline
    >>> experiment = aline.Experiment(aline.load("detection"), known={"guess": 0.5})
    >>> data = experiment.attach({"stimulus": [0.2, 0.4, 0.6, 0.9]}, [0, 1, 1, 1])
    >>> posterior = experiment.posterior()
    >>> low, high = posterior.interval("threshold", 0.9)
    >>> low < posterior.mean["threshold"] < high
    True
    """

    def __init__(
        self,
        mixture: Mixture,
        parameters: Parameters,
        joint: Callable[[], Joint] | None = None,
        warnings: Callable[[], tuple[str, ...]] = tuple,
    ):
        self.mixture, self._parameters, self._find_joint = mixture, parameters, joint
        self._find_warnings = warnings
        self._marginals: dict[str, Marginal] = {}

    @property
    def parameters(self) -> Parameters:
        """The parameters with their priors.

        >>> posterior.parameters.names
        ('threshold', 'slope', 'guess', 'lapse')
        """
        return self._parameters

    @property
    def names(self) -> tuple[str, ...]:
        """Every scalar the posterior can be asked about.

        >>> posterior.names
        ('threshold', 'slope', 'guess', 'lapse')
        """
        return self._parameters.labels

    @property
    def is_joint(self) -> bool:
        """Whether it knows how parameters depend on each other; else it has them independent.

        >>> posterior.is_joint
        True
        """
        return self._find_joint is not None

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt it, a sentence each; empty if there is none.

        >>> posterior.warnings
        ()
        """
        return self._find_warnings()

    @property
    def is_doubtful(self) -> bool:
        """Whether there is a reason not to believe it.

        >>> posterior.is_doubtful
        False
        """
        return bool(self.warnings)

    @property
    def mean(self) -> dict[str, float]:
        """Posterior means by name.

        >>> 0 < posterior.mean["threshold"] < 1
        True
        """
        return {name: self[name].mean for name in self.names}

    @property
    def std(self) -> dict[str, float]:
        """Posterior standard deviations by name.

        >>> posterior.std["threshold"] < 0.3
        True
        """
        return {name: self[name].std for name in self.names}

    def __getitem__(self, name: str) -> Marginal:
        """One parameter's posterior: `posterior["threshold"].interval(0.9)`."""
        if name not in self._marginals:
            self._marginals[name] = self._make(name)
        return self._marginals[name]

    def quantile(self, name: str, p: float) -> float:
        """The value below which the parameter lies with probability p.

        >>> posterior.quantile("threshold", 0.1) < posterior.quantile("threshold", 0.9)
        True
        """
        return self[name].quantile(p)

    def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        """The central interval that holds the parameter with probability `level`.

        >>> low, high = posterior.interval("slope", 0.9)
        """
        return self[name].interval(level)

    def pdf(self, name: str, grid: Any) -> Tensor:
        """The density at each value of a grid, in the user's units; 0 outside the support.

        >>> posterior.pdf("threshold", [-1.0, 2.0])  # outside of the prior
        tensor([0., 0.], dtype=torch.float64)
        """
        return self[name].pdf(grid)

    def probabilities(self, name: str) -> dict[str, float]:
        """Of each value of a discrete parameter, by its label.

        >>> try:
        ...     posterior.probabilities("threshold")
        ... except aline.UserError as error:
        ...     print(error)
        threshold is a number, which has no probabilities: use quantile or pdf
        """
        found = self[name].probabilities
        if not found:
            discrete = [n for n in self._parameters.priors if self._parameters.values_of(n)]
            raise InputError(
                f"{name} is a number, which has no probabilities: use quantile or pdf"
                + (f", or ask about {', '.join(discrete)}" if discrete else "")
            )
        return found

    def sample(
        self, shape: Shape = (), generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Draws of all parameters together as declared: name -> [*shape] or [*shape, n].

        As a simulator takes them: of a discrete parameter the places of its values, counting from
        0; one that does not exist in a draw has a value there nevertheless, of its prior.
        Without a generator the same draws come every time.

        >>> posterior.sample(1000)["threshold"].shape
        torch.Size([1000])
        """
        axes = axes_of(shape)
        flat = self.draw(math.prod(axes), generator or torch.Generator())
        draws = self._parameters.to_user(flat.reshape(*axes, len(self._parameters)))
        return {n: v.float() if v.is_floating_point() else v for n, v in draws.items()}

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws [count, parameter] on the network's scale.

        >>> import torch
        >>> posterior.draw(10, torch.Generator()).shape
        torch.Size([10, 4])
        """
        if self.joint is None:
            return self._mixture.sample(count, generator)
        return self.joint.sample(count, generator)[0, 0].double()

    def correlation(self, draws: int = 4000) -> dict[str, dict[str, float]]:
        """How parameters depend on each other: correlations of draws, by name and name.

        In the user's units, to about one over the root of the number of draws.

        >>> posterior.correlation()["threshold"]["threshold"]
        1.0
        """
        columns = self._parameters.to_labels(self.draw(draws, torch.Generator()))
        if not columns:
            return {}
        matrix = torch.stack(list(columns.values())).corrcoef().reshape(len(columns), -1)
        found = matrix.nan_to_num(0.0).fill_diagonal_(1.0).tolist()  # NaN: one does not vary
        return {
            name: dict(zip(columns, row, strict=True))
            for name, row in zip(columns, found, strict=True)
        }

    def log_prob(self, theta: Mapping[str, Any]) -> Tensor:
        """The joint log density of the parameters named, in the user's units.

        `theta` maps declared names, all or some, to values [...] or [..., n], which broadcast.
        Outside the support it is -inf. A simplex is a density of all its shares but the last.

        >>> there, here = posterior.log_prob({"threshold": [0.9, 0.4]}).tolist()
        >>> there < here
        True
        """
        full, inside = complete(self._parameters, read_values(self._parameters, theta))
        z, columns = self._parameters.to_network(full, dtype=torch.float64), self._columns(theta)
        volume = self._parameters.log_volume(z)[..., columns].sum(-1)
        return torch.where(inside, self._log_density(z, columns) - volume, -torch.inf)

    def _columns(self, names: Iterable[str]) -> list[int]:
        return [i for i, wanted in enumerate(self._parameters.mask(names).tolist()) if wanted]

    def _log_density(self, z: Tensor, columns: list[int]) -> Tensor:
        """Of some coordinates of z [..., parameter], on the network's scale."""
        if self.joint is None or len(columns) == 1:
            return self._mixture.log_prob(z)[..., columns].sum(-1)
        flat = z.reshape(1, 1, -1, z.shape[-1]).float()
        with torch.no_grad():
            return self.joint.log_prob(flat, columns).double().reshape(z.shape[:-1])

    @cached_property
    def joint(self) -> Joint | None:
        """All parameters together, on the network's scale; None if they are independent.

        >>> posterior.joint is not None
        True
        """
        with torch.no_grad():
            return None if self._find_joint is None else self._find_joint()

    def to_arviz(self, draws: int = 4000) -> arviz.InferenceData:
        """Draws as an arviz InferenceData, for its plots and summaries.

        >>> posterior.to_arviz(draws=100).posterior["threshold"].shape  # doctest: +SKIP
        (1, 100)
        """
        try:
            import arviz
        except ImportError:
            raise UserError("to_arviz needs arviz: pip install aline[arviz]") from None
        sample = self.sample((1, draws))
        data: arviz.InferenceData = arviz.from_dict(
            {name: value.numpy() for name, value in sample.items()}
        )
        return data

    def to_frame(self, draws: int | None = None) -> pandas.DataFrame:
        """As a pandas DataFrame: a row a parameter with its mean, sd and 95 % interval.

        A discrete parameter has a row for each value, whose mean is its probability. With `draws`,
        so many draws of all parameters together: a row each, a column a parameter, with the labels
        of discrete ones and nothing where a parameter does not exist.

        >>> posterior.to_frame().columns.to_list()
        ['mean', 'sd', 'low', 'high']
        >>> posterior.to_frame(draws=50).shape
        (50, 4)
        """
        pandas = import_pandas("to_frame")
        if draws is not None:
            flat = self.draw(check_count("draws", draws), torch.Generator())
            return pandas.DataFrame(self._columns_of(flat))
        rows: dict[str, tuple[float, float, float, float]] = {}
        for name, one in ((name, self[name]) for name in self.names):
            for label, p in one.probabilities.items():
                rows[f"{name}={label}"] = p, math.sqrt(p * (1 - p)), math.nan, math.nan
            if not one.probabilities:
                rows[name] = one.mean, one.std, *one.interval()
        index = pandas.Index(rows, name="parameter")
        return pandas.DataFrame(rows.values(), index=index, columns=["mean", "sd", "low", "high"])

    def _columns_of(self, draws: Tensor) -> dict[str, NDArray[Any]]:
        """Draws [draw, parameter] as the columns of a table."""
        columns = {}
        for name, values in self._parameters.to_labels(draws).items():
            column, exists = values.numpy(), self._parameters.exists(name, draws)
            if labels := self._parameters.values_of(name):
                column = np.array(labels, dtype=object)[column]
            columns[name] = column if exists is None else np.where(exists, column, np.nan)
        return columns

    def plot(
        self, names: Iterable[str] | None = None, *, truth: Mapping[str, float] | None = None
    ) -> NDArray[Any]:
        """Draw it with matplotlib and return the axes, an array of panels.

        Where it is known how parameters depend on each other, they are drawn two by two; else each
        by itself, over its prior. `names` are some of the parameters, `truth` values to mark.

        >>> import tempfile
        >>> axes = posterior.plot(["threshold", "slope"])
        >>> axes.flat[0].figure.savefig(f"{tempfile.mkdtemp()}/posterior.png")
        """
        axes: NDArray[Any] = drawing().plot_posterior(self, names, truth)
        return axes

    def __repr__(self) -> str:
        wide = max((len(name) for name in self.names), default=0)
        lines = [f"{'':{wide}}  {'mean':>9}  {'sd':>9}  95 % interval"]
        for one in map(self.__getitem__, self.names):
            if one.probabilities:
                lines.append(f"{one.name:{wide}}  {one.in_words()}")
                continue
            low, high = one.interval()
            row = f"{one.name:{wide}}  {one.mean:9.4g}  {one.std:9.4g}  [{low:.4g}, {high:.4g}]"
            lines.append(row)
        return "\n".join([*lines, *(f"warning: {text}" for text in self.warnings)])

    def _make(self, name: str) -> Marginal:
        owner, position = find_label(self._parameters, name)
        if labels := self._parameters.values_of(name):
            return Values(name, labels, self._shares(name, len(labels)))
        columns = self._parameters.index(owner)
        if self._parameters.is_direct(name):
            return self._coordinate(name, columns[position])
        if self.joint is not None:
            return drawn_share(name, self._share_draws[name])
        sticks = [self._coordinate(name, column) for column in columns[: position + 1]]
        return Share(name, sticks, is_rest=position == len(columns))

    def _coordinate(self, name: str, column: int) -> Coordinate:
        weights, means, stds = (part[column] for part in self._components_of(name))
        return Coordinate(name, (weights, means, stds), self._parameters.scales[column])

    def _shares(self, name: str, count: int) -> Array:
        """Probabilities of the values of a discrete parameter."""
        (column,) = self._parameters.index(name)
        belief = self._mixture
        assert isinstance(belief, CutMixture)
        found: Array = belief.probabilities()[column, :count].numpy()
        return found

    def _components_of(self, name: str) -> Components:
        """The mixtures, of a parameter that exists only under a value given that value."""
        owner, _ = find_label(self._parameters, name)
        given = self._parameters.priors[owner].given
        if not given or self.joint is None:
            return self._components
        return _components(self.joint.marginals_given(*self._parameters.place(given)))

    @cached_property
    def _share_draws(self) -> dict[str, Tensor]:
        """For the shares of a simplex, which are products of coordinates that depend."""
        return self._parameters.to_labels(self.draw(SHARE_DRAWS, torch.Generator()))

    # In double precision, as float32 loses the probit's tails; weights that sum to one there.

    @cached_property
    def _mixture(self) -> Mixture:
        mine = self.mixture
        return (mine if isinstance(mine, CutMixture) else self._parameters.cut(mine)).double()

    @cached_property
    def _components(self) -> Components:
        return _components(self.mixture)


def _components(m: Mixture) -> Components:
    log_weights, means, stds = (
        part.detach().numpy().astype(np.float64) for part in (m.log_weight, m.mean, m.std)
    )
    weights = np.exp(log_weights)
    return weights / weights.sum(-1, keepdims=True), means, stds
