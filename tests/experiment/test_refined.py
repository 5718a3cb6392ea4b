"""The refined posterior of an experiment, against exact ones; the networks know nothing yet."""

import pytest
import torch
from experiment.small import SIZES, TASKS, small, small_task
from small import small_functions

from aline.errors import InputError
from aline.evaluation.exact import exact_grid_posterior
from aline.experiment import Experiment, RefinedPosterior
from aline.experiment.refine import Draws
from aline.model import Model, ModelConfig, fresh
from aline.tasks import Task, get
from aline.tasks.linear import exact_posterior

X, Y = [-1.0, -0.5, 0.2, 0.9, 1.0], [1.2, 0.4, -0.1, -0.8, -1.3]


def untrained(task: Task) -> Model:
    network = fresh(task.spec, ModelConfig(**SIZES), torch.Generator().manual_seed(0))
    return Model(network.eval().requires_grad_(False))


def line() -> Experiment:
    experiment = Experiment(untrained(get("linear")))
    experiment.attach({"x": X}, Y)
    return experiment


def test_moments_quantiles_and_densities_of_a_line() -> None:
    found = line().refined()
    mean, covariance = exact_posterior(torch.tensor([X]), torch.tensor([Y]))
    for i, name in enumerate(("intercept", "slope")):
        exact = torch.distributions.Normal(mean[0, i], covariance[0, i, i].sqrt())
        spread = float(exact.stddev)
        assert found[name].mean == pytest.approx(float(exact.mean), abs=0.1 * spread)
        assert found[name].std == pytest.approx(spread, rel=0.1)
        low, high = found.interval(name, 0.9)
        assert low == pytest.approx(float(exact.icdf(torch.tensor(0.05))), abs=0.2 * spread)
        assert high == pytest.approx(float(exact.icdf(torch.tensor(0.95))), abs=0.2 * spread)
        grid = exact.mean + spread * torch.linspace(-2, 2, 9)
        assert torch.allclose(found.pdf(name, grid).float(), exact.log_prob(grid).exp(), rtol=0.25)
    assert 0 < found.effective < 1


def test_draws_and_densities_are_of_all_parameters_together() -> None:
    experiment = Experiment(untrained(get("linear")))
    experiment.attach({"x": [0.9, 0.9, 0.9]}, [0.9, 1.2, 0.8])
    found = experiment.refined()
    _, covariance = exact_posterior(torch.full((1, 3), 0.9), torch.zeros(1, 3))
    exact = covariance[0, 0, 1] / covariance[0].diagonal().prod().sqrt()
    draws = found.sample((4000,))
    pair = torch.stack([draws["intercept"], draws["slope"]])
    assert float(torch.corrcoef(pair)[0, 1]) == pytest.approx(float(exact), abs=0.05)
    # Up and down together is rarer than one up, one down.
    a, b = found.mean["intercept"], found.mean["slope"]
    s, t = found.std["intercept"], found.std["slope"]
    together = found.log_prob({"intercept": a + s, "slope": b + t})
    apart = found.log_prob({"intercept": a + s, "slope": b - t})
    assert float(apart - together) > 2
    alone = found.log_prob({"slope": b}).exp()
    assert float(alone) == pytest.approx(float(found.pdf("slope", b)), rel=1e-6)


def test_the_same_data_give_the_same_posterior() -> None:
    assert line().refined().mean == line().refined().mean


def test_a_psychometric_function_against_a_grid() -> None:
    task = get("psychometric")
    experiment = Experiment(untrained(task))
    stimuli = [-4.0, -2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 4.0]
    experiment.attach({"stimulus": stimuli}, [0, 0, 0, 1, 0, 1, 1, 1])
    context = experiment._state.context
    exact = exact_grid_posterior(task, context, 201)
    found = experiment.refined()
    for name, (values, (density,)) in exact.items():
        step = values[1:] - values[:-1]
        middle, height = (values[1:] + values[:-1]) / 2, (density[1:] + density[:-1]) / 2
        mass = height * step / (height * step).sum()
        mean = float((mass * middle).sum())
        spread = float((mass * (middle - mean).square()).sum().sqrt())
        assert found[name].mean == pytest.approx(mean, abs=0.1 * spread), name
        assert found[name].std == pytest.approx(spread, rel=0.1), name


def test_shares_of_a_simplex_add_up() -> None:
    experiment = Experiment(untrained(get("ces")))
    names = experiment.spec.design.names
    baskets = [[20.0, 50, 30, 30, 30, 40], [80, 10, 10, 30, 40, 30], [10, 60, 20, 50, 10, 30]]
    designs = dict(zip(names, map(list, zip(*baskets, strict=True)), strict=True))
    experiment.attach(designs, [0.4, -2.0, 1.0])
    found = experiment.refined()
    shares = [f"alpha_{k}" for k in (1, 2, 3)]
    assert sum(found[name].mean for name in shares) == pytest.approx(1, abs=0.01)
    draws = found.sample((2000,))["alpha"]
    for k, name in enumerate(shares):
        assert found[name].mean == pytest.approx(float(draws[:, k].mean()), abs=0.01)
        assert found[name].std == pytest.approx(float(draws[:, k].std()), rel=0.1)
        low, high = found.interval(name)
        assert 0 <= low < found[name].mean < high <= 1
        grid = torch.linspace(0.001, 0.999, 999)
        assert float(found.pdf(name, grid).sum()) * 0.001 == pytest.approx(1, abs=0.05)
    assert "alpha_3" in repr(found)


def test_a_task_of_ones_own_is_passed() -> None:
    experiment = Experiment(small())
    with pytest.raises(InputError, match=r"small is not built in: pass the task"):
        experiment.refined()
    with pytest.raises(InputError, match=r"likelihood of the parameters alone.*small"):
        experiment.refined(TASKS["binary-box"])
    experiment.attach({"stimulus": [-1.0, 0.0, 1.0, 2.0]}, [0, 1, 1, 1])

    def log_likelihood(theta, design, outcome):
        logit = theta["slope"] * (design["stimulus"] - theta["threshold"])
        return torch.nn.functional.logsigmoid(torch.where(outcome > 0, logit, -logit))

    found = experiment.refined(small_task(log_likelihood=log_likelihood))
    assert found.mean["threshold"] < -0.1
    with pytest.raises(InputError, match="trained with other parameters"):
        experiment.refined(get("linear"))


def test_outcomes_in_other_units_have_no_likelihood() -> None:
    experiment = Experiment(Model(small_functions()), standardise=True, target="lengthscale")
    with pytest.raises(InputError, match="standardise=True"):
        experiment.refined()


def test_the_joint_density_of_parameters_that_go_together() -> None:
    """A long ridge: its density is that of the normal, not of its marginals' product."""
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(4096, generator=generator, dtype=torch.float64)
    b = a + 0.05 * torch.randn(4096, generator=generator, dtype=torch.float64)
    parameters = get("linear").spec.parameters
    found = RefinedPosterior(Draws(torch.stack([a, b], 1), 1.0), parameters)
    covariance = torch.tensor([[1.0, 1.0], [1.0, 1.0 + 0.05**2]], dtype=torch.float64)
    exact = torch.distributions.MultivariateNormal(torch.zeros(2).double(), covariance)
    at = exact.sample((200,))
    density = found.log_prob({"intercept": at[:, 0], "slope": at[:, 1]})
    assert float((density - exact.log_prob(at)).abs().mean()) < 0.25


def test_intervals_are_the_draws_own() -> None:
    """Also of two peaks, which smoothing must not fill."""
    side = torch.arange(2048) % 2 * 2.0 - 1
    z = side + 0.02 * torch.randn(2048, generator=torch.Generator().manual_seed(0))
    parameters = get("linear").spec.parameters
    found = RefinedPosterior(Draws(torch.stack([z, z], 1).double(), 1.0), parameters)
    low, high = found.interval("slope", 0.9)
    assert low == pytest.approx(-1.026, abs=0.005)
    assert high == pytest.approx(1.026, abs=0.005)
    assert found.std["slope"] == pytest.approx(1.0, abs=0.01)


def test_its_correlation_is_that_of_its_own_draws() -> None:
    found = line().refined()
    exact = torch.corrcoef(found._draws.T)[0, 1]
    assert found.is_joint
    assert found.correlation()["slope"]["intercept"] == pytest.approx(float(exact), abs=0.05)
    kept = {tuple(draw) for draw in found._draws.tolist()}
    assert {tuple(draw) for draw in found.draw(50, torch.Generator()).tolist()} <= kept
