"""Functions beyond those that a network was trained for.

A network knows the functions of its task's prior. Those that people bring may be much smoother,
along one axis or all, or nearly free of noise. A Gaussian process covers these: an RBF kernel with
a lengthscale an axis, whose hyperparameters are found anew for the data at hand. What the data
leave open about them is averaged over; and their evidence, beside that of the network's own bank of
kernels, says how much of a prediction and of the next choice is the process's.

Nothing is carried over from one observation to the next, so the order of the data does not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from aline.episodes import Goal
from aline.functions.bank import NOISE as BANK_NOISE
from aline.functions.bank import Bank
from aline.spaces.outcomes import Mixture

ODDS = 4.0  # of a function beyond the network's prior, before any data
LENGTHSCALE = (0.5, 1.5)  # in a design space of [-1, 1]: a middle, and the spread of the log
NOISE = 0.02  # its deviation over that of the outcomes is half normal with this scale
# Where the search begins: lengthscales along each axis, and noise over the function's variance or,
# where the noise is known, that variance.
LENGTHSCALES = (0.08, 0.2, 0.5, 1.3, 3.2)
RATIOS = (1e-6, 1e-4, 1e-3)
VARIANCES = (0.3, 10.0, 300.0)
LEAST_RATIO = 1e-10
ROUNDS = 5  # of the search
MOST = 200  # observations that it looks at
LENGTHS = (0.0, 0.1, 0.3, 1.0, 3.0, 9.0)  # of a step
STRIDE = 2.0  # that a log moves at most in a step of length one
_TINY = 1e-300
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


class Tried(NamedTuple):
    """Hyperparameters [batch, kernel], as the data see them."""

    logs: Tensor  # [..., design + 1], of what is searched: lengthscales, and a ratio or a variance
    log_ratio: Tensor  # [...], of the noise over the function's variance
    factor: Tensor  # [..., context, context]
    white: Tensor  # [..., context], the outcomes over the factor
    log_variance: Tensor  # [...], the function's
    log_density: Tensor  # [...], of data and hyperparameters

    def best(self) -> Tried:
        """The likeliest one of each episode."""
        index = self.log_density.argmax(1)
        rows = torch.arange(len(index))
        return Tried(*(part[rows, index][:, None] for part in self))


@dataclass(frozen=True)
class Data:
    """Standardised outcomes [batch, context] at designs [batch, context, design], in doubles.

    What is searched beside lengthscales is the noise over the function's variance, this variance
    then being the likeliest; or where the noise is known, the variance itself.
    """

    designs: Tensor
    outcomes: Tensor
    log_noise: Tensor | None = None  # [batch], the log of its variance, where it is known

    @cached_property
    def squares(self) -> Tensor:
        """How far apart the designs are."""
        return squares(self.designs, self.designs)

    def attempt(self, logs: Tensor) -> Tried:
        """Weigh hyperparameters [batch, kernel, design + 1].

        The function's variance has the prior that one more outcome, of size one, would leave of it.
        """
        count = self.outcomes.shape[1]
        log_ratio = self._log_ratio(logs)
        matrix = covariance(self.squares, logs)
        matrix.diagonal(dim1=-2, dim2=-1).add_(log_ratio[..., None].exp())
        factor, failed = torch.linalg.cholesky_ex(matrix)
        y = self.outcomes[:, None, :, None].expand(-1, logs.shape[1], -1, 1)
        white = torch.linalg.solve_triangular(factor, y, upper=False)[..., 0]
        likeliest = (white.square().sum(-1) + 1) / (count + 1)
        log_root = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        density = _log_normal(logs[..., :-1], *LENGTHSCALE).sum(-1) - log_root
        if self.log_noise is None:
            log_variance = likeliest.log()
            density = density + _log_half_normal(log_ratio + log_variance)
        else:
            log_variance = logs[..., -1]
            density = density + 0.5 * (count + 1) * (1 - likeliest / log_variance.exp())
        density = density - 0.5 * (count + 1) * log_variance
        density = density.masked_fill((failed > 0) | density.isnan(), -torch.inf)
        return Tried(logs, log_ratio, factor, white, log_variance, density)

    def _log_ratio(self, logs: Tensor) -> Tensor:
        """Of the noise over the function's variance, [batch, kernel]."""
        if self.log_noise is None:
            return logs[..., -1]
        # A smaller one no factor would bear.
        return (self.log_noise[:, None] - logs[..., -1]).clamp_min(math.log(LEAST_RATIO))

    def start(self) -> Tried:
        """The likeliest of the combinations that the search begins with, one an episode."""
        lengths = torch.tensor(LENGTHSCALES, dtype=torch.float64).log()
        last = torch.tensor(RATIOS if self.log_noise is None else VARIANCES, dtype=torch.float64)
        batch, _, design = self.designs.shape
        every = torch.cartesian_prod(*[lengths] * design, last.log()).expand(batch, -1, -1)
        return self.attempt(every).best()

    def climb(self) -> tuple[Tried, Tensor]:
        """The likeliest hyperparameters, one kernel an episode, and the root of their covariance.

        Of many observations some have to do for the search: its cost is cubic in their number.
        """
        best = self.attempt(self.thinned().search())
        return best, self._slope(best)[1]

    def thinned(self) -> Data:
        """At most MOST observations, the same in whatever order they came."""
        count = self.outcomes.shape[1]
        if count <= MOST:
            return self
        axes = torch.arange(1.0, 1 + self.designs.shape[2], dtype=self.designs.dtype)
        order = (self.designs @ axes.sqrt()).argsort(1)
        kept = order[:, torch.linspace(0, count - 1, MOST).long()]
        rows = torch.arange(len(kept))[:, None]
        return Data(self.designs[rows, kept], self.outcomes[rows, kept], self.log_noise)

    def search(self) -> Tensor:
        """The likeliest hyperparameters [batch, 1, design + 1] that are found.

        The evidence may bend less than its information says: each round tries several lengths of
        its step.
        """
        best = self.start()
        lengths = torch.tensor(LENGTHS, dtype=torch.float64)[:, None]
        for _ in range(ROUNDS):
            logs = best.logs + lengths * self._slope(best)[0][:, None]
            if self.log_noise is None:
                logs[..., -1].clamp_(min=math.log(LEAST_RATIO))
            best = self.attempt(logs).best()
        return best.logs

    def _slope(self, at: Tried) -> tuple[Tensor, Tensor]:
        """The step [batch, design + 1] that the search takes, and the root of the covariance there.

        The covariance is by the information that is expected. The step is by the average of this
        and the observed (Gilmour, Thompson and Cullis 1995): as definite, and of functions that are
        no draws of a process, as polynomials are, it finds the likeliest in fewer rounds.
        """
        slopes, count = self._slopes(at), self.outcomes.shape[1]
        white = at.white * (-0.5 * at.log_variance).exp()[..., None]
        pull = (slopes @ white[..., None])[..., 0]
        fit, size = (pull @ white.mT)[..., 0], slopes.diagonal(dim1=-2, dim2=-1).sum(-1)
        flat = slopes.flatten(2)
        gradient, held = self._priors(at, fit)
        gradient = gradient + 0.5 * (fit - size)
        average = held + 0.5 * (pull @ pull.mT - self._followed(fit, count + 1))
        expected = held + 0.5 * (flat @ flat.mT - self._followed(size, count))
        step = torch.linalg.solve(average, gradient)
        factor = torch.linalg.cholesky(expected)
        unit = torch.eye(factor.shape[-1], dtype=factor.dtype).expand_as(factor)
        root = torch.linalg.solve_triangular(factor.mT, unit, upper=True)
        far = step.abs().amax(1, keepdim=True) / STRIDE
        return step / far.clamp_min(1), root

    def _slopes(self, at: Tried) -> Tensor:
        """How the outcomes' covariance over the variance moves [batch, design + 1, n, n].

        With each of the logs, and over the factor on both sides.
        """
        apart, count = covariance(self.squares, at.logs), self.outcomes.shape[1]
        rates = (-2 * at.logs[:, 0, :-1]).exp()[..., None, None]
        ratio = at.log_ratio[:, 0].exp()
        noise = ratio[:, None, None, None] * torch.eye(count, dtype=apart.dtype)
        if self.log_noise is None:
            last = noise
        else:  # the noise moves only with a variance that it cannot be smaller beside
            last = apart + noise * (ratio <= LEAST_RATIO)[:, None, None, None]
        slopes = torch.cat([apart * self.squares * rates, last], 1)
        half = torch.linalg.solve_triangular(at.factor, slopes, upper=False)
        over: Tensor = torch.linalg.solve_triangular(at.factor, half.mT, upper=False)
        return over

    def _followed(self, moved: Tensor, count: int) -> Tensor:
        """What a variance that follows the other hyperparameters could explain of information."""
        if self.log_noise is not None:
            return torch.zeros(())
        return moved[:, :, None] * moved[:, None] / count

    def _priors(self, at: Tried, fit: Tensor) -> tuple[Tensor, Tensor]:
        """What the priors add to gradient [batch, design + 1] and information."""
        gradient = (math.log(LENGTHSCALE[0]) - at.logs[:, 0]) / LENGTHSCALE[1] ** 2
        information = torch.full_like(gradient, LENGTHSCALE[1] ** -2).diag_embed()
        if self.log_noise is not None:
            gradient[:, -1] = 0.5 * ((-at.log_variance[:, 0]).exp() - 1)
            information[:, -1, -1] = 0.5
            return gradient, information
        # Its ratio has no prior but through the noise. To the information it adds as if it had:
        # where noise is not to be seen, nothing else would bound its spread.
        gradient[:, -1] = 0
        noise = -fit / (self.outcomes.shape[1] + 1)  # how the noise's log moves
        noise[:, -1] += 1
        much = 0.5 * (at.log_ratio + at.log_variance).exp() / NOISE**2
        information = information + much[..., None] * noise[:, :, None] * noise[:, None]
        return gradient + noise * (0.5 - much), information


class Spread(NamedTuple):
    """Rows for each of m points, whose products are covariances: by kernel, each by its weight."""

    known: Tensor  # [batch, kernel * context, m], what the data take away
    apart: Tensor  # [batch, kernel, m], what the kernels' disagreement adds


@dataclass(frozen=True)
class Wider:
    """The process for each episode's data: a few hyperparameters, and what each weighs."""

    data: Data
    kernels: Tried
    log_weight: Tensor  # [batch, kernel]
    log_evidence: Tensor  # [batch]

    @classmethod
    @torch.no_grad()
    def of(cls, designs: Tensor, outcomes: Tensor, noise: Tensor | None = None) -> Wider:
        """For outcomes [batch, context], standardised, at designs [batch, context, design].

        `noise` [batch] is their standard deviation about the function, where it is known. The
        hyperparameters lie around the likeliest ones, as the normal that fits there has its
        moments; each weighs what its density is beside the normal's.
        """
        log_noise = None if noise is None else 2 * noise.double().log()
        data = Data(designs.double(), outcomes.double(), log_noise)
        best, root = data.climb()
        size = root.shape[-1]
        axes = math.sqrt(size + 1) * torch.eye(size, dtype=root.dtype)
        z = torch.cat([torch.zeros(1, size, dtype=root.dtype), axes, -axes])
        share = torch.full((len(z),), 0.5 / (size + 1), dtype=root.dtype)
        share[0] *= 2
        kernels = data.attempt(best.logs + z @ root.mT)
        volume = root.diagonal(dim1=-2, dim2=-1).log().sum(-1, keepdim=True)
        normal = -0.5 * z.square().sum(-1) - size * _LOG_SQRT_2PI - volume
        weight = share.log() + kernels.log_density - normal
        return cls(data, kernels, weight.log_softmax(1), weight.logsumexp(1))

    def share(self, bank: Bank) -> Tensor:
        """The probability [batch] that the data are of this process, not of the bank's."""
        other = evidence_of(bank, self.data.outcomes.shape[1], self.data.log_noise is not None)
        return torch.sigmoid(math.log(ODDS) + self.log_evidence - other)

    def _whiten(self, points: Tensor, kernels: Tried) -> Tensor:
        """Points [batch, m, design] over the factor, [batch, kernel, context, m]."""
        cross = covariance(squares(self.data.designs, points), kernels.logs)
        white: Tensor = torch.linalg.solve_triangular(kernels.factor, cross, upper=False)
        return white

    @torch.no_grad()
    def predict(self, points: Tensor) -> Mixture:
        """Beliefs [batch, 1, m] about outcomes at [batch, m, design]: a component a kernel."""
        white = self._whiten(points.double(), self.kernels)
        mean = (self.kernels.white[:, :, None] @ white)[:, :, 0].mT
        noise = self.kernels.log_ratio.exp()[..., None]
        left = (1 - white.square().sum(2)).clamp_min(0) + noise
        std = (0.5 * (left.log() + self.kernels.log_variance[..., None])).exp().mT
        weight = self.log_weight[:, None].expand_as(mean)
        return Mixture(weight[:, None], mean[:, None], std[:, None])

    @torch.no_grad()
    def worth(self, candidates: Tensor, goal: Goal) -> Tensor:
        """The log of how much of the variance at the goal's points an outcome would take away.

        For candidates [batch, query, design]: [batch, query]. The variance is that of all kernels
        together, and the fall as if what they expect were linear and normal. So what they disagree
        about is to be learned as well: an outcome counts too for telling which of them is right.
        """
        candidates, targets = candidates.double(), goal.points.double()
        here, there = self._spread(candidates), self._spread(targets)
        every = covariance(squares(candidates, targets), self.kernels.logs)
        common = (self._sizes[:, None] @ every.flatten(2)).view(every[:, 0].shape)
        common = common - here.known.mT @ there.known + here.apart.mT @ there.apart
        wanted = goal.points_mask.to(common.dtype)[..., None]
        told = (common.square() @ wanted)[..., 0]
        left = (self._sizes.sum(1, keepdim=True) - here.known.square().sum(1)).clamp_min(0)
        noise = (self._sizes * self.kernels.log_ratio.exp()).sum(1, keepdim=True)
        own = left + here.apart.square().sum(1) + noise
        return (told / own).clamp_min(_TINY).log()

    @cached_property
    def _sizes(self) -> Tensor:
        """Each kernel's variance times its weight, [batch, kernel]."""
        return (self.log_weight + self.kernels.log_variance).exp()

    def _spread(self, points: Tensor) -> Spread:
        """What kernels know of points [batch, m, design], and where they disagree."""
        white = self._whiten(points, self.kernels)
        mean = (self.kernels.white[:, :, None] @ white)[:, :, 0]
        weight = self.log_weight.exp()[..., None]
        apart = weight.sqrt() * (mean - (weight * mean).sum(1, keepdim=True))
        return Spread((self._sizes.sqrt()[..., None, None] * white).flatten(1, 2), apart)


def mixed(belief: Mixture, other: Mixture, share: Tensor) -> Mixture:
    """A belief in which another has a share [batch] of the weight."""
    share = share.view(-1, *[1] * (belief.mean.dim() - 1))
    weights = [belief.log_weight + (-share).log1p(), other.log_weight + share.log()]
    pairs = weights, (belief.mean, other.mean), (belief.std, other.std)
    dtype = belief.mean.dtype
    return Mixture(*(torch.cat([a.to(dtype), b.to(dtype)], -1) for a, b in pairs))


def evidence_of(bank: Bank, count: int, noise_known: bool = False) -> Tensor:
    """The log evidence [batch] of a bank of one group, of `count` outcomes.

    By the measure of `Data.attempt`. Where the noise is not known, the one that its kernels imply
    is given, and so held against the likeliest. A known noise is not held against them: the bank
    stands for the network, whose noise is not the bank's. With the bank's kernels at the known
    noise, the shares were the same but for 0.1 (nine problems, 15 runs each); with the known one
    held strictly against theirs, nothing of Ackley was the network's, which predicts it best.
    """
    log_scale, log_density, _ = bank.fit()
    if noise_known:  # the variance is then averaged over there, and so here, about its likeliest
        half = (count + 1) / 2
        held = log_density + math.lgamma(half) + half - half * math.log(half)
    else:
        noise = _log_half_normal(2 * log_scale + math.log(BANK_NOISE))
        most = _log_half_normal(torch.tensor(2 * math.log(NOISE)))
        held = log_density + noise - most
    held = held[:, 0].double()
    return held.logsumexp(-1) - math.log(held.shape[-1])


def covariance(apart: Tensor, logs: Tensor) -> Tensor:
    """Of unit variance [batch, kernel, n, m], at squared distances [batch, design, n, m]."""
    rate = -0.5 * (-2 * logs[..., :-1]).exp()
    return (rate @ apart.flatten(2)).exp_().view(*logs.shape[:2], *apart.shape[2:])


def squares(a: Tensor, b: Tensor) -> Tensor:
    """Squared distances along each axis [batch, design, n, m]."""
    return (a.mT[..., :, None] - b.mT[..., None, :]).square()


def _log_normal(logs: Tensor, middle: float, spread: float) -> Tensor:
    z = (logs - math.log(middle)) / spread
    return -0.5 * z.square() - math.log(spread) - _LOG_SQRT_2PI


def _log_half_normal(log_variance: Tensor) -> Tensor:
    """The density of the log of a noise's variance when the noise's deviation is half normal."""
    size = log_variance - 2 * math.log(NOISE)
    return 0.5 * (size - size.exp()) - _LOG_SQRT_2PI
