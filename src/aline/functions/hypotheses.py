"""What data say of the parameters of the Gaussian process behind them, by weighted hypotheses.

Some hundred values of all parameters, spread evenly over the prior, are as many Gaussian processes,
each of which says how likely the data are. Where the data say much, few of them fit: more are drawn
near those (importance_draws.py), and all are weighted together. Should even then too few count, the
likelihood is tempered: raised to a power below one, which leaves its shape but makes it wider. The
weighted mean is still about the posterior's, the covariance about the posterior's over the power.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from aline.episodes import Context
from aline.functions import ensemble
from aline.functions.ensemble import Posterior
from aline.functions.importance_draws import EFFECTIVE, Cloud, draw_near_data
from aline.functions.kernels import KINDS, Kernels, fill_cube
from aline.functions.task import NOISE
from aline.policies.importance import tempering_power
from aline.tasks import Spec

LEVELS = (-2.0, -1.0, 0.0, 1.0, 2.0)  # at which features describe the posterior's shape
SMOOTH = 0.4  # standard deviations by which a hypothesis is spread for that
EDGE = 0.005  # shares of a prior's mass beyond which there are no hypotheses
LEAST_STD = 0.02  # of a parameter, on the normal scale
RIDGE = 1e-3  # of a variance, so that few hypotheses do not seem to explain everything
LEAST_NATS = 1e-6
AT_ONCE = 2**26  # numbers over the factors of candidates that are held at a time
OF_ONE = 2**22  # likewise of one episode, beyond which what its candidates need is not kept
LEAST_HELD = 8  # hypotheses
HELD = 2**23  # numbers of factors of one long episode; who explains the data best has one


class Hypotheses(nn.Module):
    """Values of all parameters that fill the prior, with kinds of kernels in turn."""

    z: Tensor  # [hypothesis, parameter], on the network's scale
    tied: Tensor  # bool [hypothesis], whether all axes have one lengthscale
    kind: Tensor  # [hypothesis], of KINDS
    log_scale: Tensor  # [hypothesis], of the function's standard deviation

    def __init__(self, spec: Spec, count: int, draws: bool = True):
        super().__init__()
        self.spec, self.draws = spec, draws
        self.lengthscale_columns = spec.parameters.index("lengthscale")
        z, tied = self._spread(count)
        kind = torch.arange(count) % len(KINDS)
        self.kernels, log_scale = self.processes(z, kind)
        self.register_buffer("z", z, persistent=False)
        self.register_buffer("tied", tied, persistent=False)
        self.register_buffer("kind", kind, persistent=False)
        self.register_buffer("log_scale", log_scale, persistent=False)

    @property
    def width(self) -> int:
        """How many numbers describe a posterior."""
        return (2 + len(LEVELS)) * self.z.shape[1] + 1

    def _spread(self, count: int) -> tuple[Tensor, Tensor]:
        """Values [hypothesis, parameter], and which have one lengthscale for all axes."""
        columns = self.lengthscale_columns
        share = fill_cube(count, len(self.spec.parameters) + 1)
        z = torch.special.ndtri(EDGE + (1 - 2 * EDGE) * share[:, :-1])
        tied = (share[:, -1] < 0.5) & (len(columns) > 1)
        z[:, columns] = torch.where(tied[:, None], z[:, columns[:1]], z[:, columns])
        return z, tied

    def processes(self, z: Tensor, kind: Tensor) -> tuple[Kernels, Tensor]:
        """Gaussian processes with parameters z [..., hypothesis, parameter].

        The logs of their standard deviations [..., hypothesis] are on the network's scale.
        """
        user = self.spec.parameters.to_user(z)
        half = (self.spec.design.high - self.spec.design.low) / 2
        scale = user["output_scale"]
        ends = self.spec.outcome.to_network(torch.stack([scale, torch.zeros_like(scale)]))
        lengthscale = user["lengthscale"].reshape(*z.shape[:-1], -1) / half
        noise = (NOISE / scale).square()
        return Kernels.of(kind, lengthscale, noise), (ends[0] - ends[1]).log()

    def read(
        self,
        context: Context,
        visible: Tensor | None = None,
        standardise: bool = False,
    ) -> Posterior:
        """Take a context in, as `ensemble.read`."""
        most = max(LEAST_HELD, HELD // max(1, context.length) ** 2)
        if self.kernels.number <= most or len(context.outcomes) > 1 or visible is not None:
            return ensemble.read(self.kernels, context, visible, standardise)
        which = self._likeliest(context, most, standardise)
        found = ensemble.read(self.kernels.part(which), context, None, standardise)
        return replace(found, which=which)

    def _likeliest(self, context: Context, count: int, standardise: bool) -> Tensor:
        """Which hypotheses explain a long episode best, in order; the others weigh nothing."""
        fits = []
        for some in torch.arange(self.kernels.number).split(LEAST_HELD):
            state = ensemble.read(self.kernels.part(some), context, standardise=standardise)
            fits.append(self.log_likelihood(replace(state, which=some))[0, 0])
        return torch.cat(fits).topk(count).indices.sort().values

    def log_likelihood(self, state: Posterior) -> Tensor:
        """Of what each group has seen, [batch, group, hypothesis]."""
        squares, log_root, count = state.sums
        log_scale = _of(state, self.log_scale)
        fit = -0.5 * squares * (-2 * log_scale).exp()
        return fit - count * log_scale - log_root

    def posterior(self, state: Posterior) -> ParameterPosterior:
        """What the data leave of the parameters, by the grid and by draws near the data."""
        if not self.draws:
            return self._grid_posterior(state)
        fit = self.log_likelihood(state)
        parts = (_of(state, part) for part in (self.z, self.kind, self.tied))
        grid = Cloud(*(part.expand(fit.shape[:2].numel(), *part.shape) for part in parts))
        drawn = draw_near_data(self, grid, fit.flatten(0, 1), state, len(self.z))
        return ParameterPosterior.of(*(part.unflatten(0, fit.shape[:2]) for part in drawn))

    def _grid_posterior(self, state: Posterior) -> ParameterPosterior:
        fit = self.log_likelihood(state)
        return ParameterPosterior.of(_of(state, self.z).expand(*fit.shape, -1), fit)

    def log_information_gain(self, state: Posterior, candidates: Tensor, wanted: Tensor) -> Tensor:
        """The log of the nats that an outcome at each candidate gives about some parameters.

        [batch, group, query] for candidates [batch, query, design] and parameters `wanted`
        [batch, parameter]. As if the posterior were normal and the mean and log variance
        of an outcome linear in the parameters: the outcome then informs about the first with the
        noise of its own variance, and about the second with a variance of two.

        By the grid alone: draws near the data add nothing here (results/functions.json).
        """
        batch = len(state.designs)
        held = state.kernels.number * candidates.shape[-2] * max(1, state.count)
        step = max(1, AT_ONCE // held)
        if batch > step:
            parts = (slice(i, i + step) for i in range(0, batch, step))
            each = ((state.episodes(p), candidates[p], wanted[p]) for p in parts)
            return torch.cat([self.log_information_gain(*part) for part in each])
        if held > OF_ONE:
            each_time = max(1, candidates.shape[-2] * OF_ONE // (4 * held))
            some, bare = candidates.split(each_time, -2), state.afresh
            return torch.cat([self._log_information_gain(bare, c, wanted) for c in some], -1)
        return self._log_information_gain(state, candidates, wanted)

    def _log_information_gain(self, state: Posterior, candidates: Tensor, wanted: Tensor) -> Tensor:
        mean, left = state.moments(candidates)
        log_variance = left.log() + 2 * _of(state, self.log_scale)[:, None, None]
        return self._grid_posterior(state).log_information(mean, log_variance, wanted)


def _of(state: Posterior, part: Tensor) -> Tensor:
    """A part [hypothesis, ...] of those that a state has."""
    return part if state.which is None else part[state.which]


class Explained(NamedTuple):
    """How hypotheses differ about a number [batch, group, query], as wide as the posterior is."""

    mean: Tensor
    variance: Tensor
    explained: Tensor  # part of the variance that goes with the wanted parameters

    def nats(self, noise: Tensor) -> Tensor:
        """What the number, seen through noise of some variance, says of the parameters."""
        share = self.explained / (self.variance + noise)
        return -0.5 * torch.log1p(-share.clamp_max(0.999))


class ParameterPosterior(NamedTuple):
    """Hypotheses, weighted by the data."""

    apart: Tensor  # [batch, group, hypothesis, parameter], from the mean
    weight: Tensor  # [batch, group, hypothesis]
    power: Tensor  # [batch, group, 1] that the likelihood was raised to
    mean: Tensor  # [batch, group, parameter]

    @classmethod
    def of(cls, z: Tensor, log_weight: Tensor) -> ParameterPosterior:
        """Of hypotheses z [batch, group, hypothesis, parameter] with the logs of their weights."""
        power = tempering_power(log_weight.flatten(0, 1), EFFECTIVE).view(*log_weight.shape[:2], 1)
        weight = (power * log_weight).softmax(-1)
        mean = (weight[..., None, :] @ z)[..., 0, :]
        return cls(z - mean[..., None, :], weight, power, mean)

    @property
    def tempered_variance(self) -> Tensor:
        """Of each parameter [batch, group, parameter], with the likelihood tempered."""
        return (self.weight[..., None] * self.apart.square()).sum(-2)

    @property
    def std(self) -> Tensor:
        """Of the posterior, about, [batch, group, parameter]."""
        return (self.power * self.tempered_variance).sqrt().clamp_min(LEAST_STD)

    def describe(self) -> Tensor:
        """Features [batch, group, width]: where it is, how wide, and of what shape.

        The shape is how much lies below some levels, in standard deviations; smoothly, as there are
        few hypotheses.
        """
        away = self.apart / self.tempered_variance.sqrt().clamp_min(LEAST_STD)[..., None, :]
        below = torch.special.ndtr((torch.tensor(LEVELS) - away[..., None]) / SMOOTH)
        shape = (self.weight[..., None, None] * below).sum(2).flatten(2)
        return torch.cat([self.mean, self.std.log(), self.power.log() / 4, shape], -1)

    def log_information(self, mean: Tensor, log_variance: Tensor, wanted: Tensor) -> Tensor:
        """Of outcomes with these means and log variances [batch, hypothesis, group, query]."""
        of_mean, of_variance = (self._explain(part, wanted) for part in (mean, log_variance))
        noise = of_variance.mean.exp()
        nats = of_mean.nats(noise) + of_variance.nats(torch.full_like(noise, 2.0))
        return nats.clamp_min(LEAST_NATS).log()

    def _explain(self, values: Tensor, wanted: Tensor) -> Explained:
        """How values [batch, hypothesis, group, query] go with the parameters wanted."""
        values, weight = values.transpose(1, 2), self.weight[..., None]
        mean = (weight * values).sum(2, keepdim=True)
        away = values - mean
        variance = (weight * away.square()).sum(2)
        apart = self.apart * wanted[:, None, None]
        weighted = (weight * apart).mT
        within = weighted @ apart + torch.diag_embed(self._ridge(wanted))
        common = weighted @ away  # [batch, group, parameter, query]
        explained = (common * torch.linalg.solve(within, common)).sum(2)
        return Explained(mean[:, :, 0], self.power * variance, self.power * explained)

    def _ridge(self, wanted: Tensor) -> Tensor:
        """What is added to the parameters' variances; one for those that are not wanted."""
        wide = wanted[:, None].expand_as(self.mean)
        return torch.where(wide, RIDGE * self.tempered_variance, 1 + RIDGE)
