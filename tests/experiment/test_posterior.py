"""The posterior object, against closed forms, brute force and large samples."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from experiment.small import small_task
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from small import line_network, small_model
from torch.distributions import (
    Beta,
    Dirichlet,
    Gamma,
    HalfNormal,
    Independent,
    LogNormal,
    Normal,
    Uniform,
)

from aline import load
from aline.errors import InputError, UserError
from aline.experiment import Experiment, Posterior, Predictive
from aline.experiment.marginals import mixture_quantiles
from aline.model import Bernoulli, Mixture, Model
from aline.spaces import Binary, Parameters, Real

PRIORS = {
    "uniform": Uniform(-3.0, 3.0),
    "normal": Normal(10.0, 2.0),
    "lognormal": LogNormal(0.0, 0.5),
    "beta": Beta(2.0, 5.0),
    "gamma": Gamma(3.0, 2.0),
    "halfnormal": HalfNormal(2.0),
}


@pytest.mark.timeout(10)
@pytest.mark.parametrize("p", [0.025, 0.5, 0.9])
def test_a_quantile_far_from_zero_is_found(p: float) -> None:
    """Where neighbouring numbers are farther apart than the search is exact, it ends too."""
    weights, means, stds = [0.3, 0.7], [1e10, 2e10], [1e-6, 1e-6]
    expected = means[0] if p < 0.3 else means[1]
    assert mixture_quantiles(weights, means, stds, p) == [pytest.approx(expected, rel=1e-12)]


VECTOR = Independent(Normal(torch.tensor([0.0, 5.0]), torch.tensor([1.0, 2.0])), 1)


def mixture(size: int, seed: int = 0, components: int = 3) -> Mixture:
    """Random mixtures [size] of components as wide as posteriors are."""
    generator = torch.Generator().manual_seed(seed)
    logit = torch.randn(size, components, generator=generator)
    mean = 0.7 * torch.randn(size, components, generator=generator)
    std = 0.15 + 0.5 * torch.rand(size, components, generator=generator)
    return Mixture(logit.log_softmax(-1), mean, std)


ALL = Parameters(PRIORS)  # once, as tables of quantiles take a moment


def posterior(priors=None) -> Posterior:
    parameters = ALL if priors is None else Parameters(priors)
    return Posterior(mixture(len(parameters)), parameters)


def one(mean: float, std: float) -> Mixture:
    """A single Gaussian on the network's scale."""
    return Mixture(torch.zeros(1, 1), torch.tensor([[mean]]), torch.tensor([[std]]))


def support(name: str, found: Posterior) -> tuple[float, float]:
    """Where practically all of a posterior lies."""
    return found.quantile(name, 1e-9), found.quantile(name, 1 - 1e-9)


@pytest.mark.parametrize("name", PRIORS)
def test_density_integrates_to_one(name: str) -> None:
    found = posterior()
    low, high = support(name, found)
    grid = np.linspace(low, high, 20001)
    assert integrate.trapezoid(found.pdf(name, grid), grid) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("p", [0.001, 0.025, 0.5, 0.9, 0.999])
def test_quantile_leaves_its_probability_below(name: str, p: float) -> None:
    found = posterior()
    low, _ = support(name, found)
    grid = np.linspace(low, found.quantile(name, p), 20001)
    below = integrate.trapezoid(found.pdf(name, grid), grid)
    assert below == pytest.approx(p, abs=1e-4)


@pytest.mark.parametrize("name", PRIORS)
def test_moments_are_those_of_the_density(name: str) -> None:
    found = posterior()
    low, high = support(name, found)
    grid = np.linspace(low, high, 40001)
    density = found.pdf(name, grid).numpy()
    mean = integrate.trapezoid(grid * density, grid)
    variance = integrate.trapezoid((grid - mean) ** 2 * density, grid)
    assert found.mean[name] == pytest.approx(mean, abs=1e-4 * math.sqrt(variance))
    assert found.std[name] == pytest.approx(math.sqrt(variance), rel=1e-3)


@pytest.mark.parametrize("name", PRIORS)
def test_moments_are_those_of_a_large_sample(name: str) -> None:
    found, count = posterior(), 100_000
    draws = found.sample((count,))[name]
    assert found.mean[name] == pytest.approx(
        float(draws.mean()), abs=4 * found.std[name] / math.sqrt(count)
    )
    own = found[name].sample((count,))
    assert float(own.std()) == pytest.approx(found.std[name], rel=0.03)


def test_normal_prior_has_closed_forms() -> None:
    found = Posterior(one(0.5, 0.3), Parameters({"a": Normal(10.0, 2.0)}))
    exact = stats.norm(10 + 2 * 0.5, 2 * 0.3)
    assert found.mean["a"] == pytest.approx(exact.mean(), rel=1e-7)
    assert found.std["a"] == pytest.approx(exact.std(), rel=1e-6)
    assert found.quantile("a", 0.9) == pytest.approx(exact.ppf(0.9), rel=1e-7)
    assert found.interval("a", 0.5) == pytest.approx(exact.interval(0.5), rel=1e-7)
    grid = [9.0, 11.0, 12.5]
    assert found.pdf("a", grid).numpy() == pytest.approx(exact.pdf(grid), rel=1e-6)
    assert found.log_prob({"a": grid}).numpy() == pytest.approx(exact.logpdf(grid), rel=1e-6)


def test_lognormal_prior_has_closed_forms() -> None:
    found = Posterior(one(0.5, 0.3), Parameters({"a": LogNormal(1.0, 2.0)}))
    exact = stats.lognorm(s=2 * 0.3, scale=math.exp(1 + 2 * 0.5))
    assert found.mean["a"] == pytest.approx(exact.mean(), rel=1e-6)
    assert found.std["a"] == pytest.approx(exact.std(), rel=1e-5)
    assert found.interval("a") == pytest.approx(exact.interval(0.95), rel=1e-6)


@pytest.mark.parametrize(("name", "prior"), PRIORS.items())
def test_a_posterior_that_learned_nothing_is_the_prior(name: str, prior) -> None:
    found = Posterior(one(0.0, 1.0), Parameters({name: prior}))
    assert found.mean[name] == pytest.approx(float(prior.mean), rel=1e-4, abs=1e-6)
    assert found.std[name] == pytest.approx(float(prior.stddev), rel=1e-3)
    grid = [found.quantile(name, p) for p in (0.01, 0.3, 0.7, 0.99)]
    expected = prior.log_prob(torch.tensor(grid))
    assert found.log_prob({name: grid}).numpy() == pytest.approx(expected.numpy(), abs=2e-3)


def test_log_prob_is_a_change_of_variables() -> None:
    """Against numeric derivatives of the map from the network's scale, parameter by parameter."""
    parameters, mix = ALL, mixture(len(PRIORS))
    found = Posterior(mix, parameters)
    z = torch.linspace(-1, 1, 9).double()[:, None].expand(-1, len(PRIORS))
    h = 1e-4
    up, down = parameters.to_labels(z + h), parameters.to_labels(z - h)
    expected = torch.zeros(9).double()
    for column, name in enumerate(PRIORS):
        slope = (up[name] - down[name]) / (2 * h)
        part = Mixture(mix.log_weight[column], mix.mean[column], mix.std[column])
        own = part.log_prob(z[:, column]) - slope.log()
        theta = {name: parameters.to_labels(z)[name]}
        assert found.log_prob(theta).numpy() == pytest.approx(own.numpy(), abs=2e-3)
        expected = expected + own
    joint = found.log_prob(parameters.to_user(z))
    assert joint.numpy() == pytest.approx(expected.numpy(), abs=5e-3)


def test_log_prob_of_a_subset_adds_up() -> None:
    found = posterior()
    a, b = {"uniform": 0.3}, {"gamma": [0.5, 1.5]}
    both = found.log_prob({**a, **b})
    assert both.shape == (2,)
    assert both.numpy() == pytest.approx((found.log_prob(a) + found.log_prob(b)).numpy())


def test_outside_the_support_there_is_nothing() -> None:
    found = posterior()
    grid = torch.tensor([-3.5, -3.0, 0.0, 3.0, 3.5])
    density = found.pdf("uniform", grid)
    assert density[[0, -1]].tolist() == [0, 0]
    assert bool((density[1:-1] > 0).all())
    assert found.log_prob({"uniform": grid})[[0, -1]].tolist() == [-math.inf, -math.inf]
    assert found.quantile("uniform", 0) == -3
    assert found.quantile("lognormal", 1) == math.inf
    low, high = found.interval("uniform", 0.999999)
    assert -3 <= low < high <= 3


class TestSimplex:
    parameters = Parameters({"w": Dirichlet(torch.tensor([2.0, 3.0, 4.0]))})

    def posterior(self) -> Posterior:
        return Posterior(mixture(2, seed=3), self.parameters)

    def test_every_share_can_be_asked_about(self) -> None:
        found, count = self.posterior(), 100_000
        assert found.names == ("w_1", "w_2", "w_3")
        draws = found.sample((count,))["w"]
        assert draws.shape == (count, 3)
        assert draws.sum(-1).numpy() == pytest.approx(1, abs=1e-5)
        for k, name in enumerate(found.names):
            slack = 4 * found.std[name] / math.sqrt(count)
            assert found.mean[name] == pytest.approx(float(draws[:, k].mean()), abs=slack)
            assert found.std[name] == pytest.approx(float(draws[:, k].std()), rel=0.02)
            low, high = np.quantile(draws[:, k], [0.025, 0.975])
            assert found.interval(name) == pytest.approx((low, high), abs=0.15 * found.std[name])
            assert float(found[name].sample((count,)).mean()) == pytest.approx(
                found.mean[name], abs=slack
            )

    def test_means_add_up_to_one(self) -> None:
        assert sum(self.posterior().mean.values()) == pytest.approx(1, abs=1e-12)

    @pytest.mark.parametrize("name", ["w_1", "w_2", "w_3"])
    def test_each_density_integrates_to_one(self, name: str) -> None:
        grid = np.linspace(0, 1, 1001)
        density = self.posterior().pdf(name, grid)
        assert integrate.trapezoid(density, grid) == pytest.approx(1, abs=2e-3)
        mean = integrate.trapezoid(grid * density.numpy(), grid)
        assert mean == pytest.approx(self.posterior().mean[name], abs=4e-3)

    def test_joint_density_integrates_to_one(self) -> None:
        axis = np.linspace(0.0005, 0.9995, 400)
        a, b = (torch.from_numpy(part) for part in np.meshgrid(axis, axis))
        inside = a + b < 1
        w = torch.stack([a, b, 1 - a - b], -1)
        density = torch.zeros_like(a)
        density[inside] = self.posterior().log_prob({"w": w[inside]}).exp()
        assert float(density.sum()) * (axis[1] - axis[0]) ** 2 == pytest.approx(1, abs=5e-3)

    def test_what_is_no_simplex_has_no_density(self) -> None:
        assert self.posterior().log_prob({"w": [0.5, 0.5, 0.5]}) == -math.inf


def test_vector_parameters_by_coordinate_and_as_declared() -> None:
    found = posterior({"v": VECTOR, "b": Uniform(0.0, 1.0)})
    assert found.names == ("v_1", "v_2", "b")
    assert found.sample((4, 5))["v"].shape == (4, 5, 2)
    assert found.sample()["b"].shape == ()
    joint = found.log_prob({"v": [[0.1, 4.0], [0.2, 5.0]], "b": 0.5})
    parts = [found.pdf("v_1", [0.1, 0.2]), found.pdf("v_2", [4.0, 5.0]), found.pdf("b", 0.5)]
    assert joint.numpy() == pytest.approx(sum(part.log() for part in parts).numpy())


def test_without_a_generator_draws_repeat() -> None:
    found = posterior()
    a, b = found.sample((5,)), found.sample((5,))
    assert all(torch.equal(a[name], b[name]) for name in a)
    generator = torch.Generator().manual_seed(1)
    assert not torch.equal(found.sample((5,), generator)["normal"], a["normal"])


def joint_posterior(storage: str = "memory://", task: str = "psychometric") -> Posterior:
    """Of a network with conditionals, after some trials."""
    experiment = Experiment(small_model(task), storage=storage, name="one")
    outcomes = [0, 1, 1, 0, 1] if task == "psychometric" else [0.4, -2.0, 1.0]
    for outcome in outcomes:
        experiment.tell(experiment.ask(), outcome)
    return experiment.posterior()


class TestJoint:
    def test_draws_have_the_shape_asked_for_and_repeat(self) -> None:
        found = joint_posterior()
        assert found.is_joint
        many, shaped = found.sample(30), found.sample((5, 6))
        assert {value.shape for value in many.values()} == {(30,)}
        for name, value in shaped.items():
            assert value.shape == (5, 6)
            assert torch.equal(value.flatten(), many[name])
        other = found.sample(30, torch.Generator().manual_seed(1))
        assert not torch.equal(other["slope"], many["slope"])

    def test_one_parameter_alone_has_its_marginal_density(self) -> None:
        found = joint_posterior()
        for name in found.names:
            grid = [found.quantile(name, p) for p in (0.1, 0.5, 0.9)]
            alone = found.log_prob({name: grid})
            assert alone.numpy() == pytest.approx(found.pdf(name, grid).log().numpy(), abs=1e-6)

    def test_the_density_of_two_integrates_to_one(self) -> None:
        """The third left out; with priors that have no bounds, where nothing is steep."""
        priors = {"a": Normal(10.0, 2.0), "b": Normal(0.0, 1.0), "c": Normal(0.0, 1.0)}
        experiment = Experiment(small_model(small_task(parameters=priors)))
        experiment.attach({"stimulus": [-1.0, 2.0, 0.5]}, [0, 1, 1])
        found = experiment.posterior()
        a, c = (torch.linspace(*ends, 220).double() for ends in ((-14.0, 34.0), (-12.0, 12.0)))
        density = found.log_prob({"a": a[:, None], "c": c[None]}).exp()
        assert density.shape == (220, 220)
        total = integrate.trapezoid(integrate.trapezoid(density, c), a)
        assert total == pytest.approx(1, abs=0.01)
        apart = found.pdf("a", a)[:, None] * found.pdf("c", c)
        assert float((density - apart).abs().max()) > 0.01 * float(apart.max())

    def test_correlation_is_that_of_draws(self) -> None:
        found = joint_posterior()
        r = found.correlation()
        matrix = np.array([[r[a][b] for b in found.names] for a in found.names])
        assert np.diag(matrix) == pytest.approx(1)
        assert matrix == pytest.approx(matrix.T)
        draws = found.sample(4000, torch.Generator().manual_seed(5))
        exact = np.corrcoef([draws[name].numpy() for name in found.names])
        assert matrix == pytest.approx(exact, abs=4 * math.sqrt(2 / 4000))

    def test_what_was_learned_of_a_line_shows(self) -> None:
        experiment = Experiment(Model(line_network()[1]))
        experiment.attach({"x": [0.2, 0.5, 0.6, 0.9, 0.9, 1.0]}, [0.3, 0.5, 0.1, 0.7, 0.9, 0.8])
        found = experiment.posterior()
        assert found.correlation()["intercept"]["slope"] < -0.5
        arviz = found.to_arviz(2000).posterior
        drawn = np.corrcoef(arviz["intercept"].values[0], arviz["slope"].values[0])[0, 1]
        assert drawn < -0.5

    def test_shares_of_a_simplex_are_those_of_the_draws(self) -> None:
        """Sticks that depend: a product of their moments would not do."""
        found, count = joint_posterior(task="ces"), 20_000
        draws = found.sample(count, torch.Generator().manual_seed(1))["alpha"]
        for k, name in ((1, "alpha_2"), (2, "alpha_3")):
            slack = 5 * found.std[name] / math.sqrt(4096)
            assert found.mean[name] == pytest.approx(float(draws[:, k].mean()), abs=slack)
            assert found.std[name] == pytest.approx(float(draws[:, k].std()), rel=0.06)

    def test_a_resumed_experiment_has_the_same(self, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path}/a.db"
        before = joint_posterior(url)
        after = Experiment.resume(url, "one", small_model()).posterior()
        assert after.correlation() == before.correlation()
        assert torch.equal(after.sample(20)["slope"], before.sample(20)["slope"])

    def test_a_shipped_model_has_its_parameters_independent(self) -> None:
        found = Experiment(load("psychometric")).posterior()
        assert not found.is_joint
        assert found.joint is None
        theta = {"threshold": 0.5, "slope": 2.0}
        apart = sum(found.log_prob({name: value}) for name, value in theta.items())
        assert float(found.log_prob(theta)) == pytest.approx(float(apart))
        drawn = found._mixture.sample(10, torch.Generator())
        assert torch.equal(found.draw(10, torch.Generator()), drawn)
        assert abs(found.correlation()["threshold"]["slope"]) < 4 / math.sqrt(4000)


def test_correlation_of_few() -> None:
    assert posterior({}).correlation() == {}
    assert posterior({"b": Uniform(0.0, 1.0)}).correlation() == {"b": {"b": 1.0}}
    still = Mixture(torch.zeros(2, 1), torch.zeros(2, 1), torch.tensor([[1.0], [0.0]]))
    found = Posterior(still, Parameters({"a": Normal(0.0, 1.0), "b": Normal(0.0, 1.0)}))
    assert found.correlation() == {"a": {"a": 1, "b": 0}, "b": {"a": 0, "b": 1}}


def test_marginals_say_the_same_as_the_posterior() -> None:
    found = posterior()
    marginal = found["gamma"]
    assert marginal.mean == found.mean["gamma"]
    assert marginal.std == found.std["gamma"]
    assert marginal.quantile(0.3) == found.quantile("gamma", 0.3)
    assert marginal.interval(0.8) == found.interval("gamma", 0.8)
    assert torch.equal(marginal.pdf([1.0]), found.pdf("gamma", [1.0]))
    assert "gamma" in repr(marginal)


def test_repr_is_a_table() -> None:
    lines = repr(posterior()).splitlines()
    assert lines[0].split() == ["mean", "sd", "95", "%", "interval"]
    assert [line.split()[0] for line in lines[1:]] == list(PRIORS)


def test_to_arviz() -> None:
    data = posterior({"v": VECTOR, "b": Uniform(0.0, 1.0)}).to_arviz(draws=50)
    assert data.posterior["v"].shape == (1, 50, 2)
    assert data.posterior["b"].shape == (1, 50)


def test_to_arviz_without_arviz(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(UserError, match=r"pip install aline\[arviz\]"):
        posterior().to_arviz()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda p: p["slop"], "parameters are .*, got 'slop'"),
        (lambda p: p.quantile("uniform", 1.5), r"p must be a probability in \[0, 1\], got 1.5"),
        (lambda p: p.interval("uniform", 95), "level must lie between 0 and 1, got 95"),
        (lambda p: p.pdf("uniform", "wide"), "must be numbers, got 'wide'"),
        (lambda p: p.pdf("uniform", [math.nan]), "must not be NaN"),
        (lambda p: p.log_prob({"slop": 1}), "takes values by name.*got slop"),
        (lambda p: p.log_prob({}), "got none"),
        (lambda p: p.log_prob([1, 2]), r"got \[1, 2\]"),
        (lambda p: p.log_prob({"uniform": [1, 2], "beta": [0.1] * 3}), "broadcast to one shape"),
    ],
)
def test_mistakes_are_explained(use, message: str) -> None:
    with pytest.raises(InputError, match=message):
        use(posterior())


def test_a_vector_is_asked_about_by_coordinate() -> None:
    with pytest.raises(InputError, match="v is a vector: ask for one of v_1, v_2"):
        posterior({"v": VECTOR})["v"]
    with pytest.raises(InputError, match="must have 2 values on its last axis"):
        posterior({"v": VECTOR}).log_prob({"v": 1.0})


def test_no_parameters_no_posterior() -> None:
    found = posterior({})
    assert found.names == ()
    assert found.mean == {}
    assert found.sample((3,)) == {}


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.01, 1), st.floats(-5, 5), st.floats(1e-4, 3)), min_size=1, max_size=10
    ),
    st.floats(1e-9, 1 - 1e-9),
)
def test_mixture_quantile_inverts_the_distribution_function(parts, p: float) -> None:
    weights, means, stds = (np.array(column) for column in zip(*parts, strict=True))
    weights = weights / weights.sum()
    (z,) = mixture_quantiles(weights.tolist(), means.tolist(), stds.tolist(), p)
    reached = float((weights * stats.norm.cdf((z - means) / stds)).sum())
    assert reached == pytest.approx(p, abs=1e-9, rel=1e-5)


class TestRealPredictive:
    outcome = Real(loc=100.0, scale=5.0)

    def predictive(self) -> Predictive:
        return Predictive(mixture(4, seed=1), self.outcome)

    def test_density_integrates_to_one(self) -> None:
        grid = torch.linspace(50, 150, 20001)[:, None]
        density = self.predictive().log_prob(grid).exp()
        assert density.shape == (20001, 4)
        total = integrate.trapezoid(density, grid, axis=0)
        assert total == pytest.approx(np.ones(4), abs=1e-4)

    def test_moments_quantiles_and_draws_agree(self) -> None:
        found, count = self.predictive(), 50_000
        draws = found.sample((count,))
        assert draws.shape == (count, 4)
        slack = 4 * found.std / math.sqrt(count)
        assert bool(((draws.mean(0) - found.mean).abs() < slack).all())
        assert draws.std(0).numpy() == pytest.approx(found.std.numpy(), rel=0.03)
        low, high = found.interval(0.8)
        share = ((draws >= low) & (draws <= high)).float().mean(0)
        assert share.numpy() == pytest.approx(0.8, abs=0.01)
        assert found.quantile(0.0).tolist() == [-math.inf] * 4

    def test_single_gaussian_has_closed_forms(self) -> None:
        found = Predictive(one(0.5, 0.3), self.outcome)
        exact = stats.norm(102.5, 1.5)
        assert found.mean.item() == pytest.approx(102.5)
        assert found.std.item() == pytest.approx(1.5)
        assert found.quantile(0.9).item() == pytest.approx(exact.ppf(0.9))
        assert found.log_prob(104.0).item() == pytest.approx(exact.logpdf(104.0))

    def test_has_no_probability(self) -> None:
        with pytest.raises(InputError, match="no probability of a yes"):
            _ = self.predictive().probability
        assert len(repr(self.predictive()).splitlines()) == 5


class TestBinaryPredictive:
    def predictive(self) -> Predictive:
        return Predictive(Bernoulli(torch.tensor([-2.0, 0.0, 3.0])), Binary())

    def test_is_a_probability(self) -> None:
        found = self.predictive()
        p = torch.tensor([-2.0, 0.0, 3.0]).sigmoid()
        assert torch.allclose(found.probability, p)
        assert torch.allclose(found.mean, p)
        assert torch.allclose(found.std, (p * (1 - p)).sqrt())
        assert torch.allclose(found.log_prob(1).exp().float(), p)
        assert torch.allclose(found.log_prob([0, 0, 0]).exp().float(), 1 - p)
        assert found.quantile(0.5).tolist() == [0, 0, 1]
        assert found.interval(0.99)[1].tolist() == [1, 1, 1]
        assert found.sample((20_000,)).mean(0).numpy() == pytest.approx(p.numpy(), abs=0.015)

    def test_takes_only_yes_and_no(self) -> None:
        with pytest.raises(InputError, match="must be 0 or 1, got 2"):
            self.predictive().log_prob(2)
