"""Draws that the likelihood refines, against closed forms."""

import math

import pytest
import torch
from small import line_network, one_sided, seeded, small_network
from torch import Tensor
from torch.distributions import Normal, Uniform

from aline.episodes import Context
from aline.errors import InputError
from aline.experiment.long import Around, draw_posterior
from aline.experiment.refine import Draws, Refiner, can_refine, joint_of, smoothed
from aline.model import Mixture
from aline.policies.importance import tempering_power
from aline.spaces import Box, Real
from aline.tasks import Task, get
from aline.tasks.linear import exact_posterior

LINEAR = get("linear")
X = torch.tensor([[-1.0, -0.5, 0.2, 0.9, 1.0]])
Y = torch.tensor([[1.2, 0.4, -0.1, -0.8, -1.3]])
SEEN = Context(X[..., None], Y / 1.5)  # the outcome's scale


def normal(mean: Tensor, std: Tensor) -> Mixture:
    """One component a parameter."""
    return Mixture(torch.zeros(len(mean), 1), mean[:, None], std[:, None])


def refined(q: Mixture, seen: Context = SEEN, count: int = 8192) -> Draws:
    return Refiner(LINEAR, q, seen).draw(torch.Generator().manual_seed(1), count)


PRIOR = normal(torch.zeros(2), torch.ones(2))
FAR_OFF = normal(torch.tensor([1.5, 1.5]), torch.tensor([0.4, 0.4]))
NARROW = normal(torch.tensor([0.0, -1.0]), torch.tensor([0.1, 0.1]))


@pytest.mark.parametrize("q", [PRIOR, FAR_OFF, NARROW], ids=["prior", "far off", "too narrow"])
def test_draws_have_the_exact_moments_whatever_q_was(q: Mixture) -> None:
    mean, covariance = exact_posterior(X.double(), Y.double())
    z = refined(q).z
    spread = covariance[0].diagonal().sqrt()
    assert ((z.mean(0) - mean[0]).abs() < 0.05 * spread).all()
    assert torch.allclose(z.T.cov(), covariance[0], atol=0.06 * float(spread.max()) ** 2)


def test_parameters_go_together_as_they_do() -> None:
    off_centre = Context(torch.full((1, 3, 1), 0.9), torch.tensor([[0.6, 0.8, 0.5]]))
    _, covariance = exact_posterior(off_centre.designs[..., 0], 1.5 * off_centre.outcomes)
    expected = covariance[0, 0, 1] / covariance[0].diagonal().prod().sqrt()
    assert expected < -0.7
    assert torch.corrcoef(refined(PRIOR, off_centre).z.T)[0, 1] == pytest.approx(
        float(expected), abs=0.03
    )


def test_without_data_it_is_the_prior() -> None:
    draws = refined(PRIOR, Context.empty(1, 1))
    assert draws.effective == pytest.approx(1.0)
    assert draws.z.mean(0).abs().max() < 0.05
    assert (draws.z.std(0) - 1).abs().max() < 0.05


def test_the_effective_share_tells_how_good_q_was() -> None:
    mean, covariance = exact_posterior(X, Y)
    right = normal(mean[0], covariance[0].diagonal().sqrt())
    assert refined(right).effective > 0.95
    assert 0.02 < refined(PRIOR).effective < 0.5
    assert refined(FAR_OFF).effective < 0.02


def test_the_order_of_the_data_changes_nothing() -> None:
    turned = Context(SEEN.designs.flip(1), SEEN.outcomes.flip(1))
    assert torch.allclose(refined(PRIOR).z.mean(0), refined(PRIOR, turned).z.mean(0), atol=1e-6)


def edge(at: float) -> Refiner:
    """A likelihood of exactly zero above a value; q is the prior."""

    def log_likelihood(theta, design, outcome):  # type: ignore[no-untyped-def]
        return torch.where(theta["a"] < at, 0.0, -torch.inf) + 0 * outcome * design["x"]

    task = Task(
        name="edge",
        parameters={"a": Uniform(0.0, 1.0)},
        design=Box(x=(0.0, 1.0)),
        outcome=Real(loc=0.0, scale=1.0),
        simulate=lambda theta, design, generator: theta["a"] + 0 * design["x"],
        log_likelihood=log_likelihood,
        horizon=3,
    )
    seen = Context(torch.zeros(1, 1, 1), torch.zeros(1, 1))
    return Refiner(task, normal(torch.zeros(1), torch.ones(1)), seen)


def test_what_cannot_be_is_not_drawn() -> None:
    a = Normal(0.0, 1.0).cdf(edge(0.25).draw(torch.Generator()).z)
    assert float(a.max()) < 0.25
    assert float(a.mean()) == pytest.approx(0.125, abs=0.01)


def test_nothing_that_q_holds_possible_can_be() -> None:
    with pytest.raises(InputError, match=r"only 0 of 4096 draws.*check the log_likelihood of task"):
        edge(-1.0).draw(torch.Generator())


def test_a_smoothed_density_is_neither_wider_nor_off() -> None:
    z = torch.randn(4000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z[:, 1] = 0.01 * z[:, 1] + 3
    density = smoothed(z)
    mean, std = density.moments()
    assert torch.allclose(mean, z.mean(0))
    assert torch.allclose(std, z.std(0), rtol=1e-3)
    grid = torch.linspace(-2, 2, 41, dtype=torch.float64)
    exact = -0.5 * grid**2 - 0.5 * math.log(2 * math.pi)
    at = torch.stack([grid, 3 + 0.01 * grid], 1)
    found = density.log_prob(at) + torch.tensor([0.0, math.log(0.01)])
    assert (found - exact[:, None]).abs().max() < 0.25


def test_weights_are_weakened_only_where_too_few_count() -> None:
    even = torch.zeros(1, 100)
    assert tempering_power(even, 50.0) == 1
    sharp = torch.linspace(0, -1000, 100)[None]
    power = tempering_power(sharp, 50.0)
    effective = 1 / (power * sharp).softmax(1).square().sum()
    assert float(effective) == pytest.approx(50, rel=0.02)


def test_which_tasks_can_refine() -> None:
    assert can_refine(LINEAR)
    assert can_refine(get("ces"))
    assert not can_refine(get("gp1d"))


def test_two_peaks_stay_two() -> None:
    generator = torch.Generator().manual_seed(0)
    side = torch.randint(2, (2048, 1), generator=generator) * 2.0 - 1
    z = side + 0.02 * torch.randn(2048, 1, generator=generator)
    density = smoothed(z.double())
    at = torch.tensor([[1.0], [-1.0], [0.0]], dtype=torch.float64)
    peak, other, between = density.log_prob(at)[:, 0].exp().tolist()
    assert peak == pytest.approx(9.97, rel=0.25)
    assert other == pytest.approx(9.97, rel=0.25)
    assert between < 1e-6


def test_too_few_possible_draws_are_refused() -> None:
    with pytest.raises(InputError, match="draws of the network's posterior could have given"):
        edge(0.002).draw(torch.Generator())


def test_nothing_to_refine() -> None:
    task = Task(
        parameters={},
        design=Box(x=(0.0, 1.0)),
        outcome=Real(loc=0.0, scale=1.0),
        simulate=lambda theta, design, generator: design["x"],
        log_likelihood=lambda theta, design, outcome: 0 * outcome,
        horizon=3,
    )
    assert not can_refine(task)


def test_a_joint_posterior_is_the_better_proposal() -> None:
    """Of parameters that depend, more of its draws count; what comes out is exact either way."""
    task, network = line_network()
    _, context = one_sided(task, 8, seeded(1))
    single, together = [], []
    for row in range(8):
        seen = Context(context.designs[[row]], context.outcomes[[row]])
        joint = joint_of(network, seen)
        assert joint is not None
        marginals = joint.marginals[0, 0]
        draws = Refiner(task, marginals, seen, joint).draw(seeded(2), 4096)
        together.append(draws.effective)
        single.append(Refiner(task, marginals, seen).draw(seeded(2), 4096).effective)
        x, y = seen.designs[..., 0].double(), task.spec.outcome.to_user(seen.outcomes).double()
        mean, covariance = exact_posterior(x, y)
        spread = covariance[0].diagonal().sqrt()
        assert ((draws.z.mean(0) - mean[0]).abs() < 0.08 * spread).all()
        assert torch.allclose(draws.z.T.cov(), covariance[0], atol=0.1 * float(spread.max()) ** 2)
    assert sum(together) > 1.3 * sum(single)


def test_a_joint_posterior_that_is_far_off_leaves_it_to_the_marginals() -> None:
    network = small_network("linear")
    joint = joint_of(network, SEEN)
    found = Refiner(LINEAR, NARROW, SEEN, joint).draw(seeded(1), 8192)
    assert found.effective < 0.1
    mean, covariance = exact_posterior(X.double(), Y.double())
    assert ((found.z.mean(0) - mean[0]).abs() < 0.05 * covariance[0].diagonal().sqrt()).all()


def test_a_network_without_conditionals_has_no_joint_posterior() -> None:
    network = small_network("linear")
    network.conditional = None
    assert joint_of(network, SEEN) is None


def long_line(count: int) -> Context:
    """Many observations of one line."""
    x = torch.rand(1, count, 1, generator=seeded(3)) * 2 - 1
    noise = torch.randn(1, count, generator=seeded(4))
    return Context(x, (0.7 - 1.1 * x[..., 0] + noise) / 1.5)


def test_long_data_are_exact_too_and_it_says_what_it_did() -> None:
    seen = long_line(2000)
    mean, covariance = exact_posterior(seen.designs[..., 0].double(), 1.5 * seen.outcomes.double())
    draws = draw_posterior(lambda some: Refiner(LINEAR, PRIOR, some), seen, seeded(1))
    spread = covariance[0].diagonal().sqrt()
    assert ((draws.z.mean(0) - mean[0]).abs() < 0.1 * spread).all()
    assert torch.allclose(draws.z.T.cov(), covariance[0], atol=0.12 * float(spread.max()) ** 2)
    assert "all 2000 trials" in draws.how
    assert "128 of them" in draws.how


def test_the_longer_the_data_the_fewer_the_draws() -> None:
    seen = long_line(12_000)
    draws = draw_posterior(lambda some: Refiner(LINEAR, PRIOR, some), seen, seeded(1))
    assert len(draws.z) == 500


def test_a_density_around_draws_integrates_to_one() -> None:
    around = Around.of(torch.randn(300, 1, generator=seeded(5), dtype=torch.float64))
    grid = torch.linspace(-8, 8, 4001, dtype=torch.float64)[:, None]
    assert around.log_prob(grid).exp().sum() * 16 / 4000 == pytest.approx(1.0, abs=1e-3)


def test_the_density_between_far_draws_is_not_nothing() -> None:
    """A few draws far out: half way between two of them a value is rare, not impossible."""
    near = torch.randn(4000, 1, generator=seeded(1)).double() * 0.05
    far = torch.linspace(0.6, 3.0, 8, dtype=torch.float64)[:, None]
    density = smoothed(torch.cat([near, far]))
    at = (far[:-1] + far[1:]) / 2
    assert float(density.log_prob(at).min()) > -9
    middle = smoothed(near).log_prob(torch.zeros(1, 1, dtype=torch.float64))
    assert float(middle) == pytest.approx(-math.log(0.05 * math.sqrt(2 * math.pi)), abs=0.05)
