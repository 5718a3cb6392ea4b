"""The closed form against brute force: it is the reference for everything else."""

import math

import torch
from small import seeded

from aline.tasks import get
from aline.tasks.linear import exact_information_gain, exact_posterior


def brute_force(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and covariance on a fine grid of intercept and slope."""
    axis = torch.linspace(-6, 6, 401, dtype=torch.float64)
    theta = torch.cartesian_prod(axis, axis)
    task = get("linear")
    log_joint = task.log_likelihood(
        {"intercept": theta[:, :1], "slope": theta[:, 1:]}, {"x": x[None]}, y[None]
    ).sum(1)
    log_joint -= 0.5 * theta.square().sum(1)
    weight = log_joint.softmax(0)
    mean = weight @ theta
    centred = theta - mean
    return mean, (weight[:, None] * centred).T @ centred


def test_posterior_is_that_of_a_grid() -> None:
    generator = seeded(0)
    x = torch.rand(1, 6, generator=generator, dtype=torch.float64) * 2 - 1
    y = torch.randn(1, 6, generator=generator, dtype=torch.float64)
    mean, covariance = exact_posterior(x, y)
    grid_mean, grid_covariance = brute_force(x[0], y[0])
    assert torch.allclose(mean[0], grid_mean, atol=1e-6)
    assert torch.allclose(covariance[0], grid_covariance, atol=1e-6)


def test_nothing_measured_is_the_prior() -> None:
    nothing = torch.zeros(2, 0)
    mean, covariance = exact_posterior(nothing, nothing)
    assert torch.equal(mean, torch.zeros(2, 2))
    assert torch.allclose(covariance, torch.eye(2).expand(2, 2, 2))
    assert torch.allclose(exact_information_gain(nothing), torch.zeros(2))


def test_information_gain_is_the_entropy_lost() -> None:
    x = torch.rand(5, 8, generator=seeded(1), dtype=torch.float64) * 2 - 1
    _, covariance = exact_posterior(x, torch.zeros_like(x))
    assert torch.allclose(exact_information_gain(x), -0.5 * torch.logdet(covariance))


def test_information_gain_is_the_mean_log_ratio_to_the_evidence() -> None:
    """E[log p(y | theta) - log p(y)] over simulations, the definition itself."""
    generator, task = seeded(2), get("linear")
    designs = task.spec.design.sample(1, 4, generator)
    world = task.draw(300, generator)
    outcomes = world.answer(designs.expand(300, -1, -1), generator)
    y = task.spec.outcome.to_user(outcomes).double()
    x = task.spec.design.to_user(designs)[0, :, 0].double()
    features = torch.stack([torch.ones_like(x), x], -1)
    marginal = torch.distributions.MultivariateNormal(
        torch.zeros(4, dtype=torch.float64),
        0.25 * torch.eye(4, dtype=torch.float64) + features @ features.T,
    )
    ratio = task.log_prob(world.theta, designs, outcomes).sum(1) - marginal.log_prob(y)
    error = float(ratio.std() / math.sqrt(300))
    assert abs(float(ratio.mean() - exact_information_gain(x[None])[0])) < 4 * error
