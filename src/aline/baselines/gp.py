"""Active learning with a Gaussian process that is fitted again at every step (appendix C.1.2).

On scikit-learn's GaussianProcessRegressor: a kernel with a lengthscale an axis, its hyperparameters
those of the largest marginal likelihood, the noise known. The kernel is RBF, or of several the one
with the most evidence. Four ways to choose:

- random sampling (rs);
- uncertainty sampling (us): the largest predictive standard deviation;
- variance reduction (vr): the largest reduction of the goal points' variance, summed;
- expected predictive information gain (epig): the most nats about the goal points, on average.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from scipy.linalg import lapack, solve_triangular
from scipy.optimize import minimize
from torch import Tensor

from aline.episodes import Goal, Offer, take
from aline.errors import InputError, UserError
from aline.functions.task import NOISE
from aline.tasks import Spec

if TYPE_CHECKING:
    from sklearn.gaussian_process import GaussianProcessRegressor

Array = np.ndarray[Any, np.dtype[np.float64]]
Acquisition = Literal["rs", "us", "vr", "epig"]
Kind = Literal["rbf", "matern32", "matern52"]
SMOOTHNESS = {"matern32": 1.5, "matern52": 2.5}


@dataclass(frozen=True)
class Fit:
    """A Gaussian process with one episode's data; everything in the user's units."""

    x: Array  # [n, design]
    y: Array  # [n]
    loc: float
    scale: float
    noise: float  # 0 where the kernel has it
    regressor: GaussianProcessRegressor

    @classmethod
    def of(
        cls,
        x: Array,
        y: Array,
        noise: float | None,
        normalise: bool,
        quick: bool = True,
        restarts: int = 0,
        kind: Kind = "rbf",
    ) -> Fit:
        """Maximise the marginal likelihood, in units of the data's spread if `normalise` is set.

        From one start, and `restarts` random ones. Noise that is None is fitted too.
        """
        loc, scale = (float(y.mean()), float(y.std())) if normalise else (0.0, 1.0)
        scale = scale if scale > 1e-9 else 1.0
        known = None if noise is None else noise / scale
        regressor = _regressor(x.shape[1], known, restarts, kind)
        if quick:
            regressor.optimizer = Evidence.of(
                x, (y - loc) / scale, regressor.alpha, noise is None, kind
            ).maximise
        with warnings.catch_warnings():
            # A hyperparameter at its bound is an answer: little data says no more.
            warnings.simplefilter("ignore")
            regressor.fit(x, (y - loc) / scale)
        return cls(x, y, loc, scale, noise or 0.0, regressor)

    @property
    def log_evidence(self) -> float:
        """The largest marginal likelihood's log, less what it is for every kernel."""
        return float(self.regressor.log_marginal_likelihood_value_)

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of outcomes at x [m, design]."""
        prior = self.regressor.kernel_.diag(x)
        cross = self.regressor.kernel_(x, self.regressor.X_train_)
        mean = cross @ self.regressor.alpha_
        variance = np.maximum(prior - np.square(self._whiten(x)).sum(0), 0.0)
        std = np.sqrt(variance * self.scale**2 + self.noise**2)
        return mean * self.scale + self.loc, std

    def covariance(self, a: Array, b: Array) -> Array:
        """Posterior covariance [n, m] of the function at a [n, design] and b [m, design]."""
        prior: Array = self.regressor.kernel_(a, b)
        return (prior - self._whiten(a).T @ self._whiten(b)) * self.scale**2

    def _whiten(self, x: Array) -> Array:
        cross = self.regressor.kernel_(self.regressor.X_train_, x)
        white: Array = solve_triangular(self.regressor.L_, cross, lower=True, check_finite=False)
        return white


@dataclass(frozen=True)
class Evidence:
    """The marginal likelihood that scikit-learn maximises, in fewer operations.

    Its kernels are objects that are built and combined anew at every step of the optimiser, which
    takes most of the time of a fit; for these kernels a few matrix operations do.
    """

    squares: Array  # [design, n, n], squared distances along each axis
    y: Array  # [n]
    alpha: float  # variance of the noise
    fits_noise: bool = False  # whether there is more of it, whose log is the last hyperparameter
    kind: Kind = "rbf"

    @classmethod
    def of(
        cls, x: Array, y: Array, alpha: float, fits_noise: bool = False, kind: Kind = "rbf"
    ) -> Evidence:
        """Of outcomes y [n] at x [n, design]."""
        return cls(np.square(x.T[:, :, None] - x.T[:, None, :]), y, alpha, fits_noise, kind)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Minus its log, less a constant, and the gradient, at logs of the scale and lengthscales.

        The scale is the function's variance.
        """
        lengths = theta[1:-1] if self.fits_noise else theta[1:]
        more = float(np.exp(theta[-1])) if self.fits_noise else 0.0
        apart = self.squares * np.exp(-2 * lengths)[:, None, None]
        cover, steep = np.exp(theta[0]) * correlation(self.kind, apart.sum(0))
        matrix = cover.copy()
        matrix.flat[:: len(self.y) + 1] += self.alpha + more
        factor, failed = lapack.dpotrf(matrix, lower=1, clean=1)
        if failed:
            return np.inf, np.zeros_like(theta)
        inverse, _ = lapack.dpotri(factor, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        weights = inverse @ self.y
        value = 0.5 * float(self.y @ weights) + float(np.log(factor.diagonal()).sum())
        residual = 0.5 * (inverse - np.outer(weights, weights))
        along = (residual * steep * apart).sum((1, 2))
        gradient = np.append((residual * cover).sum(), along)
        if self.fits_noise:
            gradient = np.append(gradient, more * residual.trace())
        return value, gradient

    def maximise(self, _: Any, start: Any, bounds: Any) -> tuple[Array, float]:
        """As scikit-learn does, from the same start by the same method."""
        found = minimize(self.__call__, start, method="L-BFGS-B", jac=True, bounds=bounds)
        return found.x, found.fun


def correlation(kind: Kind, square: Array) -> Array:
    """At squared distances in lengthscales; and how it rises, [2, ...].

    The second, times the squared distance along an axis, is the derivative by that axis's log
    lengthscale.
    """
    if kind == "rbf":
        same = np.exp(-0.5 * square)
        return np.stack([same, same])
    r = np.sqrt((3 if kind == "matern32" else 5) * square)
    if kind == "matern32":
        return np.stack([1 + r, np.full_like(r, 3)]) * np.exp(-r)
    return np.stack([1 + r + r**2 / 3, 5 / 3 * (1 + r)]) * np.exp(-r)


def _regressor(
    dimensions: int, noise: float | None, restarts: int, kind: Kind
) -> GaussianProcessRegressor:
    try:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
    except ImportError:
        raise UserError("the GP baselines need scikit-learn: pip install aline[bench]") from None
    lengths = np.ones(dimensions), (0.05, 30.0)
    shape = RBF(*lengths) if kind == "rbf" else Matern(*lengths, nu=SMOOTHNESS[kind])
    kernel = ConstantKernel(0.3, (1e-4, 1e3)) * shape
    if noise is None:
        kernel = kernel + WhiteKernel(1e-2, (1e-6, 1.0))
    return GaussianProcessRegressor(
        kernel,
        alpha=max(noise or 0.0, 1e-5) ** 2,
        copy_X_train=False,
        n_restarts_optimizer=restarts,
        random_state=0,
    )


@dataclass(frozen=True)
class Fits:
    """What the policy remembers: the goal's points, and the fit of each episode."""

    points: Array  # [batch, target, design]
    fits: tuple[Fit, ...]  # empty before the first outcome

    def predict(self, points: Tensor, spec: Spec) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation [batch, target] at points, all on the network's scale."""
        x = spec.design.to_user(points).double().numpy()
        rows = [fit.predict(at) for fit, at in zip(self.fits, x, strict=True)]
        mean, std = (torch.tensor(np.stack(part)) for part in zip(*rows, strict=True))
        zero = torch.zeros((), dtype=torch.float64)
        unit = spec.outcome.to_network(zero + 1) - spec.outcome.to_network(zero)
        return spec.outcome.to_network(mean), std * unit


def acquisition_scores(fit: Fit, x: Array, targets: Array, acquisition: str) -> Array:
    """What outcomes at x [m, design] are worth for a goal's points, [m]: all but `rs`."""
    _, std = fit.predict(x)
    if acquisition == "us":
        return std
    shared = np.square(fit.covariance(targets, x))
    if acquisition == "vr":
        reduction: Array = shared.sum(0) / std**2
        return reduction
    _, own = fit.predict(targets)
    # The share of the joint variance that both explain; below one but for rounding.
    share = np.minimum(shared / (own[:, None] * std) ** 2, 1 - 1e-9)
    nats: Array = -0.5 * np.log1p(-share).mean(0)
    return nats


@dataclass(frozen=True)
class GPPolicy:
    """Chooses by one acquisition of a Gaussian process fitted to each episode.

    With `normalise`, outcomes are standardised before a fit, so that they may have any units. With
    `quick`, the marginal likelihood is computed here and not by scikit-learn: the same, sooner.
    Noise that is None is fitted; `restarts` is how many random starts a fit has beside its own. Of
    several `kinds` of kernel, the one with the most evidence is taken at every step.

    >>> from aline.episodes import goal_of, play, predictions
    >>> from aline.spaces import Box
    >>> from aline.tasks import get
    >>> task, generator = get("gp1d"), torch.Generator().manual_seed(0)
    >>> goal = goal_of(task.spec, predictions(region=Box(x=(0.0, 2.0))))
    >>> policy, world = GPPolicy(task.spec, "us", candidates=20), task.draw(1, generator)
    >>> play(policy, world, goal, steps=3, generator=generator).length
    3
    """

    spec: Spec
    acquisition: Acquisition = "us"
    normalise: bool = False
    noise: float | None = NOISE
    candidates: int = 200
    quick: bool = True
    restarts: int = 0
    kinds: tuple[Kind, ...] = ("rbf",)

    def __post_init__(self) -> None:
        if self.acquisition not in get_args(Acquisition):
            raise InputError(
                f"acquisitions are {', '.join(get_args(Acquisition))}, got {self.acquisition!r}"
            )

    def begin(self, goal: Goal) -> Fits:
        """Nothing measured yet."""
        if self.acquisition in ("vr", "epig") and not goal.points.shape[1]:
            raise InputError(f"{self.acquisition} needs a goal with predictions: use us or rs")
        return Fits(self.spec.design.to_user(goal.points).double().numpy(), ())

    def choose(self, state: Fits, offer: Offer | None, generator: torch.Generator) -> Tensor:
        """The next design [batch, design]; random before the first outcome."""
        batch = len(state.points)
        if offer is None:
            offer = Offer(self.spec.design.sample(batch, self.candidates, generator))
        score = torch.rand(offer.points.shape[:2], generator=generator)
        if state.fits and self.acquisition != "rs":
            x = self.spec.design.to_user(offer.points).double().numpy()
            each = zip(state.fits, x, state.points, strict=True)
            rows = [acquisition_scores(*row, self.acquisition) for row in each]
            score = torch.tensor(np.stack(rows))
        if offer.allowed is not None:
            score = score.masked_fill(~offer.allowed, -torch.inf)
        return take(offer.points, score.argmax(1))

    def observe(self, state: Fits, design: Tensor, outcome: Tensor) -> Fits:
        """Fit each episode again with one more observation."""
        x = self.spec.design.to_user(design).double().numpy()
        y = self.spec.outcome.to_user(outcome).double().numpy()
        if not state.fits:
            old = [(np.zeros((0, x.shape[1])), np.zeros(0))] * len(x)
        else:
            old = [(fit.x, fit.y) for fit in state.fits]
        fits = tuple(
            self._fitted(np.vstack([xs, row]), np.append(ys, value))
            for (xs, ys), row, value in zip(old, x, y, strict=True)
        )
        return Fits(state.points, fits)

    def _fitted(self, x: Array, y: Array) -> Fit:
        """Of all kinds of kernel, the fit with the most evidence."""
        settings = self.noise, self.normalise, self.quick, self.restarts
        fits = (Fit.of(x, y, *settings, kind) for kind in self.kinds)
        return max(fits, key=lambda fit: fit.log_evidence)
