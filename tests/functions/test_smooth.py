"""The lattice of smooth kernels against Gaussian processes computed by scikit-learn and scipy."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from small import seeded
from torch import Tensor

from aline.episodes import Context
from aline.functions import smooth
from aline.functions.ensemble import read, spread_kernels
from aline.functions.smooth import SmoothProcess, Weighted
from aline.tasks import get

SPEC = get("gp2d").spec
POINTS, TARGETS = (SPEC.design.sample(2, n, seeded(n)) for n in (9, 6))
NOISES = pytest.mark.parametrize("noise", [None, 0.05], ids=["unknown", "known"])


def valley(count: int) -> Context:
    """Smoother along the second axis; two episodes, in units of a user's own."""
    x = SPEC.design.sample(2, count, seeded(1)).double()
    return Context(x, 7 + 3 * ((3 * x[..., 0]).sin() + 0.3 * x[..., 1] ** 2))


def standardised(context: Context, process: SmoothProcess) -> Tensor:
    assert process.state.units is not None
    return process.state.units.standardise(context.outcomes)


def regressor(few: Weighted, episode: int, kernel: int) -> GaussianProcessRegressor:
    """The same process as scikit-learn has it."""
    variance = float(few.log_variance[episode, kernel].exp())
    lengthscale = (-0.5 / few.state.kernels.rate[episode, kernel]).sqrt().numpy()
    alpha = variance * float(few.state.kernels.noise[episode, kernel])
    alike = ConstantKernel(variance) * RBF(lengthscale)
    return GaussianProcessRegressor(alike, alpha=alpha, optimizer=None)


@NOISES
def test_every_kernel_predicts_as_scikit_learn_does(noise: float | None) -> None:
    context = valley(15)
    process = SmoothProcess.read(context, noise)
    y, few = standardised(context, process), process._sample(smooth.PREDICTING // 15)
    log_weight, means, stds = process.predict(POINTS)
    assert torch.allclose(log_weight.exp().sum(-1), torch.ones(2, 9).double())
    for kernel in (0, 3):
        other = regressor(few, 1, kernel).fit(context.designs[1].numpy(), y[1].numpy())
        if noise is not None:
            assert process.state.units is not None
            known = noise / float(process.state.units.scale[1])
            assert math.sqrt(other.alpha) == pytest.approx(known)
        mean, std = other.predict(POINTS[1].double().numpy(), return_std=True)
        std = np.sqrt(std**2 + other.alpha)
        assert np.allclose(means[1, :, kernel].numpy(), mean, atol=1e-5)
        assert np.allclose(stds[1, :, kernel].numpy(), std, rtol=1e-2)


@NOISES
def test_variance_reduction_is_that_of_the_mixture(noise: float | None) -> None:
    """Whose covariance is the kernels' own and that of their means."""
    context = valley(10)
    process = SmoothProcess.read(context, noise)
    wanted = torch.ones(2, 6, dtype=torch.bool)
    found = process.log_variance_reduction(POINTS, TARGETS, wanted)[0].exp()
    x, y = context.designs[0].numpy(), standardised(context, process)[0].numpy()
    few = process._scoring
    weight = few.log_weight[0].exp().numpy()
    both = torch.cat([POINTS[0], TARGETS[0]]).double().numpy()
    every = [regressor(few, 0, k).fit(x, y) for k in range(len(weight))]
    means, covariances = zip(*(one.predict(both, return_cov=True) for one in every), strict=True)
    apart = np.stack(means) - weight @ np.stack(means)
    together = np.einsum("k,kab->ab", weight, np.stack(covariances))
    together += np.einsum("k,ka,kb->ab", weight, apart, apart)
    own = together.diagonal()[:9] + weight @ [one.alpha for one in every]
    expected = np.square(together[:9, 9:]).sum(1) / own
    assert np.allclose(found.numpy(), expected, rtol=1e-3, atol=1e-9)


@NOISES
def test_the_evidence_is_an_integral_over_the_lattice(noise: float | None) -> None:
    """Near that of a lattice that is fine everywhere."""
    context = valley(12)
    found = SmoothProcess.read(context, noise).log_evidence
    with pytest.MonkeyPatch.context() as fine:
        fine.setattr(smooth, "COARSE", 1)
        fine.setattr(smooth, "LENGTHS", {2: 19})
        fine.setattr(smooth, "RATIOS", 19)
        expected = SmoothProcess.read(context, noise).log_evidence
    assert float((found - expected).abs().max()) < 1.0


def test_the_other_ensembles_evidence_is_its_kernels_average() -> None:
    context = valley(6)
    kernels, ratio = spread_kernels(2, 1), smooth.NOISE_RATIO
    state = read(kernels, context, standardise=True)
    assert state.units is not None
    y = state.units.standardise(context.outcomes)[0].numpy()
    matrix = kernels.covariance(*[context.designs.float()] * 2)[0, 0].double()
    matrix = (matrix + ratio * torch.eye(6)).numpy()

    def density(log_variance: float) -> float:
        variance = math.exp(log_variance)
        likelihood = multivariate_normal(cov=variance * matrix).logpdf(y)
        return float(np.exp(likelihood + multivariate_normal(cov=variance).logpdf(1.0)))

    expected = math.log(quad(density, -10, 10)[0]) + 3.5 * (1 + math.log(2 * math.pi))
    assert float(smooth._log_evidence(state, True)[0]) == pytest.approx(expected, abs=1e-3)
    size = (y @ np.linalg.inv(matrix) @ y + 1) / 7
    noise = ratio * size / smooth.NOISE**2
    held = -3.5 * math.log(size) - 0.5 * np.linalg.slogdet(matrix)[1]
    held += 0.5 * (math.log(noise) - noise + 1)
    assert float(smooth._log_evidence(state, False)[0]) == pytest.approx(held, abs=1e-3)


def share(context: Context, noise: float | None = None) -> Tensor:
    other = read(spread_kernels(2, 6), context, standardise=True)
    return SmoothProcess.read(context, noise).share(other)


def test_smooth_functions_are_its_own_and_rough_ones_the_others() -> None:
    context = valley(60)
    assert (share(context) > 0.99).all()
    x = context.designs
    assert (share(Context(x, x[..., 0].abs() + (x[..., 1] > 0))) < 0.5).all()


@NOISES
def test_growing_is_nearly_reading(noise: float | None) -> None:
    """Not quite: which kernels got neighbours depends on the way."""
    context = valley(25)
    grown = SmoothProcess.read(Context(context.designs[:, :2], context.outcomes[:, :2]), noise)
    for step in range(2, 25):
        grown = grown.extend(context.designs[:, step], context.outcomes[:, step])
        grown.log_variance_reduction(POINTS, TARGETS, torch.ones(2, 6, dtype=torch.bool))
    whole = SmoothProcess.read(context, noise)
    means = [(p[0].exp() * p[1]).sum(-1) for p in (grown.predict(POINTS), whole.predict(POINTS))]
    assert torch.allclose(*means, atol=0.03)
    assert float((grown.log_evidence - whole.log_evidence).abs().max()) < 1.0


@NOISES
def test_units_do_not_matter(noise: float | None) -> None:
    context = valley(20)
    moved = Context(context.designs, 1e4 * context.outcomes - 7e5)
    one = SmoothProcess.read(context, noise).predict(POINTS)
    other = SmoothProcess.read(moved, None if noise is None else 1e4 * noise).predict(POINTS)
    for mine, theirs in zip(one, other, strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-4, atol=1e-6)


def test_a_known_noise_is_no_trend() -> None:
    """Few points of a wave, told apart from noise only by who knows how much there is."""
    x = torch.linspace(-1, 1, 8).double().expand(2, -1)[..., None]
    y = (3 * x[..., 0]).sin() + torch.tensor([1.0, -1.0]).repeat(4) * 0.5
    context, found = Context(x, y), []
    for noise in (0.01, 0.6):
        process = SmoothProcess.read(context, noise)
        log_weight, mean, _ = process.predict(x)
        found.append((log_weight.exp() * mean).sum(-1) - standardised(context, process))
    rough, calm = found
    assert float(rough.abs().max()) < 0.05
    assert float(calm.abs().max()) > 0.3


@pytest.mark.parametrize("noise", [None, 0.0, 1e-200, 1.0, 1e200])
def test_repeated_designs_and_outcomes_stay_numbers(noise: float | None) -> None:
    context = valley(12)
    x, y = context.designs, context.outcomes
    for designs, outcomes in ((x[:, :1].expand(-1, 12, -1), y), (x, 0 * y), (x, y)):
        process = SmoothProcess.read(Context(designs, outcomes), noise)
        process = process.extend(x[:, 0], y[:, 0])
        _, mean, std = process.predict(POINTS)
        wanted = torch.ones(2, 6, dtype=torch.bool)
        reduction = process.log_variance_reduction(POINTS, TARGETS, wanted)
        assert all(value.isfinite().all() for value in (mean, std, reduction))


def test_many_observations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some say which kernels read all; what is predicted stays the same."""
    context = valley(40)
    log_weight, mean, _ = SmoothProcess.read(context).predict(POINTS)
    monkeypatch.setattr(smooth, "MOST", 30)
    monkeypatch.setattr(smooth, "HELD", 40 * 40 * 12)
    many = SmoothProcess.read(context)
    assert many.place.shape[1] == smooth.SCORING
    grown = many.extend(context.designs[:, 0] * 0.5, context.outcomes[:, 0])
    assert grown.place.shape[1] <= smooth.SCORING
    expected = (log_weight.exp() * mean).sum(-1)
    found = many.predict(POINTS)
    assert torch.allclose((found[0].exp() * found[1]).sum(-1), expected, atol=0.01)
