"""The wider process against Gaussian processes computed by others, and its share of belief."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from small import SIZES, goal_for, seeded
from torch import Tensor

from aline.episodes import Context
from aline.functions.bank import NOISE as BANK_NOISE
from aline.functions.bank import KernelBank
from aline.functions.task import KERNELS, covariance
from aline.functions.wider import NOISE, Data, Tried, Wider, evidence_of, mixed
from aline.model import Mixture, ModelConfig, fresh, read_standardised
from aline.spaces import Real
from aline.tasks import get

TASK = get("gp2d", horizon=8)
NETWORK = fresh(
    TASK.spec, ModelConfig(plugin="functions", plugin_settings={"kernels": 6}, **SIZES), seeded(0)
).requires_grad_(False)
POINTS = TASK.spec.design.sample(2, 9, seeded(3))
KNOWN = torch.tensor([0.02, 0.3]).double()  # an episode's noise each
NOISES = pytest.mark.parametrize("noise", [None, KNOWN], ids=["unknown", "known"])


def smooth(count: int) -> tuple[Tensor, Tensor]:
    """Designs and outcomes of a valley, smoother along the second axis; two episodes."""
    x = TASK.spec.design.sample(2, count, seeded(1)).double()
    y = (3 * x[..., 0]).sin() + 0.3 * x[..., 1] ** 2
    return x, (y - y.mean(1, keepdim=True)) / y.std(1, keepdim=True)


def regressor(process: Wider, episode: int, kernel: int) -> GaussianProcessRegressor:
    """The same process as scikit-learn has it."""
    found = Tried(*(part[episode, kernel] for part in process.kernels))
    variance = float(found.log_variance.exp())
    alike = ConstantKernel(variance) * RBF(found.logs[:-1].exp().numpy())
    alpha = variance * float(found.log_ratio.exp())
    return GaussianProcessRegressor(alike, alpha=alpha, optimizer=None)


def test_the_evidence_of_hyperparameters_is_a_marginal_likelihood() -> None:
    """Of the outcomes at the variance found, but for what is the same whatever is tried."""
    x, y = smooth(12)
    logs = torch.tensor([[0.5, 0.9, 1e-3], [0.3, 2.0, 1e-2]]).double().log().expand(2, -1, -1)
    tried = Data(x, y).attempt(logs)
    for kernel in (0, 1):
        lengths = logs[0, kernel, :-1].exp()
        matrix = covariance("rbf", ((x[1][:, None] - x[1]) / lengths).norm(dim=-1))
        matrix += logs[0, kernel, -1].exp() * torch.eye(12)
        size = float((y[1] @ torch.linalg.inv(matrix) @ y[1] + 1) / 13)
        likelihood = multivariate_normal(cov=(size * matrix).numpy()).logpdf(y[1].numpy())
        likelihood += multivariate_normal(cov=size).logpdf(1.0)  # one more outcome of size one
        likelihood += 6.5 * (1 + math.log(2 * math.pi))  # the same for all
        prior = -0.5 * ((lengths.log() - math.log(0.5)) / 1.5).square().sum() - 2 * math.log(1.5)
        noise = math.sqrt(size) * float(logs[0, kernel, -1].exp()) ** 0.5
        # The deviation is half normal; its variance's log moves twice as fast as its own.
        half = math.log(noise / NOISE) - 0.5 * (noise / NOISE) ** 2
        expected = likelihood + float(prior) + half - 1.5 * math.log(2 * math.pi)
        assert float(tried.log_variance[1, kernel]) == pytest.approx(math.log(size))
        assert float(tried.log_density[1, kernel]) == pytest.approx(expected, abs=1e-8)


def log_evidence(x: Tensor, y: Tensor, lengths: Tensor, variance: float, noise: float) -> float:
    """Of one episode's outcomes and hyperparameters, where the noise is known."""
    matrix = variance * covariance("rbf", ((x[:, None] - x) / lengths).norm(dim=-1))
    matrix += noise**2 * torch.eye(len(y))
    likelihood = multivariate_normal(cov=matrix.numpy()).logpdf(y.numpy())
    size = multivariate_normal(cov=variance).logpdf(1.0)  # the variance's prior, a density of logs
    prior = norm(math.log(0.5), 1.5).logpdf(lengths.log().numpy()).sum()
    return float(likelihood + size + prior)


def test_where_the_noise_is_known_the_variance_is_tried() -> None:
    x, y = smooth(12)
    logs = torch.tensor([[0.5, 0.9, 2.0], [0.3, 2.0, 0.7]]).double().log().expand(2, -1, -1)
    tried = Data(x, y, 2 * KNOWN.log()).attempt(logs)
    same = 6.5 * (1 + math.log(2 * math.pi))
    for episode in (0, 1):
        for kernel, (*lengths, variance) in enumerate(logs[episode].exp().tolist()):
            at = torch.tensor(lengths).double()
            expected = log_evidence(x[episode], y[episode], at, variance, float(KNOWN[episode]))
            assert float(tried.log_density[episode, kernel]) == pytest.approx(expected + same)
    assert torch.allclose(tried.log_ratio + tried.log_variance, 2 * KNOWN.log()[:, None])


def test_the_evidence_of_known_noise_is_averaged_over_hyperparameters() -> None:
    """As a sum over a fine grid of them has it."""
    x = torch.linspace(-1, 1, 15).double()[None, :, None]
    y = (4 * x[..., 0]).sin() + 0.1 * torch.randn(1, 15, generator=seeded(0)).double()
    grid = torch.cartesian_prod(torch.linspace(-4, 2, 120), torch.linspace(-5, 9, 140)).double()
    data = Data(x, y, torch.tensor([2 * math.log(0.1)]).double())
    exact = data.attempt(grid[None]).log_density.logsumexp(1) + math.log(6 / 119 * 14 / 139)
    found = Wider.of(x, y, torch.tensor([0.1])).log_evidence
    assert float(found) == pytest.approx(float(exact), abs=0.1)


@NOISES
def test_the_climb_ends_where_no_step_pays(noise: Tensor | None) -> None:
    x, y = smooth(25)
    y = y + 0.02 * torch.randn(y.shape, generator=seeded(2)).double()
    data = Data(x, y, None if noise is None else 2 * noise.log())
    best, root = data.climb()
    around = 0.3 * torch.randn(2, 200, 3, generator=seeded(0)).double() @ root.mT
    assert (data.attempt(best.logs + around).log_density <= best.log_density + 0.02).all()


def test_of_many_data_some_do_for_the_search() -> None:
    x, y = smooth(300)
    y = y + 0.02 * torch.randn(y.shape, generator=seeded(2)).double()
    data = Data(x, y)
    assert data.thinned().outcomes.shape == (2, 200)
    order = torch.randperm(300, generator=seeded(4))
    assert torch.equal(Data(x[:, order], y[:, order]).thinned().outcomes, data.thinned().outcomes)
    best, _ = data.climb()
    assert (data.attempt(data.search()).log_density - best.log_density < 2).all()


@NOISES
def test_every_kernel_predicts_as_scikit_learn_does(noise: Tensor | None) -> None:
    x, y = smooth(15)
    process = Wider.of(x, y, noise)
    found = process.predict(POINTS.double())
    for kernel in (0, 3):
        other = regressor(process, 1, kernel).fit(x[1].numpy(), y[1].numpy())
        assert noise is None or math.sqrt(other.alpha) == pytest.approx(float(noise[1]))
        mean, std = other.predict(POINTS[1].double().numpy(), return_std=True)
        std = np.sqrt(std**2 + other.alpha)
        assert np.allclose(found.mean[1, 0, :, kernel].numpy(), mean, atol=1e-5)
        assert np.allclose(found.std[1, 0, :, kernel].numpy(), std, rtol=1e-2)
    assert torch.allclose(process.log_weight.exp().sum(1), torch.ones(2).double())


@NOISES
def test_the_worth_of_a_candidate_is_the_variance_it_takes_away(noise: Tensor | None) -> None:
    """Of the mixture of all kernels, whose covariance is theirs and that of their means."""
    x, y = smooth(10)
    goal = goal_for(TASK.spec, ("predictions",), 2)
    process = Wider.of(x, y, noise)
    found = process.worth(POINTS, goal)[0].exp()
    weight = process.log_weight[0].exp().numpy()
    both = torch.cat([POINTS[0], goal.points[0]]).double().numpy()
    every = [regressor(process, 0, k).fit(x[0].numpy(), y[0].numpy()) for k in range(len(weight))]
    means, covariances = zip(*(one.predict(both, return_cov=True) for one in every), strict=True)
    apart = np.stack(means) - weight @ np.stack(means)
    together = np.einsum("k,kab->ab", weight, np.stack(covariances))
    together += np.einsum("k,ka,kb->ab", weight, apart, apart)
    own = together.diagonal()[:9] + weight @ [one.alpha for one in every]
    expected = np.square(together[:9, 9:]).sum(1) / own
    assert np.allclose(found.numpy(), expected, rtol=1e-3, atol=1e-9)


def test_a_known_noise_is_no_trend() -> None:
    """Few points of a wave, told apart from noise only by who knows how much there is."""
    x = torch.linspace(-1, 1, 8).double().expand(2, -1)[..., None]
    y = (3 * x[..., 0]).sin() + torch.tensor([1.0, -1.0]).repeat(4) * 0.5
    rough, calm = (
        Wider.of(x, y, torch.full((2,), noise)).predict(x).moments()[0][:, 0] - y
        for noise in (0.01, 0.6)
    )
    assert float(rough.abs().max()) < 0.02
    assert float(calm.abs().max()) > 0.3


def test_the_banks_evidence_is_its_kernels_average() -> None:
    bank, (x, y) = KernelBank.spread(2, 3), smooth(6)
    parts = []
    for kernel in range(3):
        apart = ((x[0][:, None] - x[0]) * bank.inverse[kernel]).norm(dim=-1)
        matrix = covariance(KERNELS[kernel], apart) + BANK_NOISE * torch.eye(6)
        size = float((y[0] @ torch.linalg.inv(matrix) @ y[0] + 1) / 7)
        noise = BANK_NOISE * size / NOISE**2
        held = 0.5 * (math.log(noise) - noise + 1)
        parts.append(-3.5 * math.log(size) - 0.5 * float(torch.logdet(matrix)) + held)
    expected = np.logaddexp.reduce(parts) - math.log(3)
    found = evidence_of(bank.read(Context(x, y), None, None), 6)
    assert float(found[0]) == pytest.approx(expected, abs=1e-5)


def test_beside_a_known_noise_the_banks_variance_is_averaged_over() -> None:
    bank, (x, y) = KernelBank.spread(2, 1), smooth(6)
    apart = ((x[0][:, None] - x[0]) * bank.inverse[0]).norm(dim=-1)
    matrix = (covariance(KERNELS[0], apart) + BANK_NOISE * torch.eye(6)).numpy()

    def density(log_variance: float) -> float:
        variance = math.exp(log_variance)
        likelihood = multivariate_normal(cov=variance * matrix).logpdf(y[0].numpy())
        size = multivariate_normal(cov=variance).logpdf(1.0)
        return float(np.exp(likelihood + size))

    expected = math.log(quad(density, -10, 10)[0]) + 3.5 * (1 + math.log(2 * math.pi))
    found = evidence_of(bank.read(Context(x, y), None, None), 6, noise_known=True)
    assert float(found[0]) == pytest.approx(expected, abs=1e-5)


def test_a_share_of_belief_is_a_share_of_its_moments() -> None:
    mean = torch.tensor([[[0.0, 1.0]]])[..., None]
    one = Mixture(torch.zeros(1, 1, 2, 1), mean, torch.ones_like(mean))
    other = Mixture(torch.zeros(1, 1, 2, 1), mean + 2, torch.ones_like(mean))
    found = mixed(one, other, torch.tensor([0.25])).moments()[0]
    assert torch.allclose(found, torch.tensor([[[0.5, 1.5]]]))
    for share, expected in ((0.0, mean), (1.0, mean + 2)):
        found = mixed(one, other, torch.tensor([share])).moments()[0]
        assert torch.allclose(found, expected[..., 0])


def test_smooth_functions_are_the_process_and_rough_ones_the_networks() -> None:
    x, y = smooth(60)
    view = read_standardised(NETWORK, Context(x.float(), y))
    assert view.wider is not None
    assert (view.wider[1] > 0.99).all()
    kinks = x[..., 0].abs() + (x[..., 1] > 0)
    view = read_standardised(NETWORK, Context(x.float(), kinks))
    assert view.wider is not None
    assert (view.wider[1] < 0.5).all()  # the odds were four to one


def numbers(x: Tensor, y: Tensor, noise: float | None = None) -> list[Tensor]:
    view = read_standardised(NETWORK, Context(x.float(), y), noise=noise)
    belief = view.predictive(POINTS[:, None])
    assert isinstance(belief, Mixture)
    scores = view.scores(POINTS[:, None], goal_for(TASK.spec, ("predictions",), 2))
    return [*belief.moments(), scores]


@pytest.mark.parametrize("noise", [None, 0.05])
def test_the_order_of_the_data_does_not_matter(noise: float | None) -> None:
    x, y = smooth(20)
    order = torch.randperm(20, generator=seeded(4))
    pairs = numbers(x, y, noise), numbers(x[:, order], y[:, order], noise)
    for one, other in zip(*pairs, strict=True):
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("noise", [None, 0.05])
def test_nor_do_the_units(noise: float | None) -> None:
    x, y = smooth(20)
    mean, std, scores = numbers(x, y, noise)
    scaled = None if noise is None else 1e4 * noise
    other_mean, other_std, other_scores = numbers(x, 1e4 * y - 7e5, scaled)
    assert torch.allclose(other_mean, 1e4 * mean - 7e5, rtol=1e-5)
    assert torch.allclose(other_std, 1e4 * std, rtol=1e-3)
    assert torch.allclose(other_scores, scores, atol=1e-2)


def test_goals_of_parameters_and_short_contexts_are_the_networks() -> None:
    x, y = smooth(20)
    view = read_standardised(NETWORK, Context(x.float(), y))
    plain = NETWORK.read(Context(x.float(), view.units.standardise(y)))
    for names in (("lengthscale",), ("lengthscale", "predictions")):
        goal = goal_for(TASK.spec, names, 2)
        scores = [one.scores(POINTS[:, None], goal) for one in (view, plain)]
        assert torch.allclose(*scores, atol=1e-4)
    assert read_standardised(NETWORK, Context(x[:, :1].float(), y[:, :1])).wider is None


def test_the_noise_is_told_in_the_users_units() -> None:
    """Which are not those in which a context holds the outcomes."""
    x, y = smooth(20)
    view = read_standardised(NETWORK, Context(x.float(), 7 * y), noise=0.3)
    assert view.wider is not None
    kernels = view.wider[0].kernels
    log_noise = 0.5 * (kernels.log_ratio + kernels.log_variance)
    outcome = TASK.spec.outcome
    assert isinstance(outcome, Real)
    assert outcome.scale != 1
    told = outcome.to_user(view.units.scale) - outcome.to_user(torch.zeros(2))
    assert torch.allclose(log_noise.exp() * told[:, None], torch.tensor(0.3).double())


@pytest.mark.parametrize("noise", [None, 0.0, 1e-200, 1.0, 1e200])
def test_repeated_designs_and_outcomes_stay_numbers(noise: float | None) -> None:
    x, y = smooth(12)
    for designs, outcomes in ((x[:, :1].expand(-1, 12, -1), y), (x, torch.zeros_like(y)), (x, y)):
        assert all(value.isfinite().all() for value in numbers(designs, outcomes, noise))
