"""The joint posterior, against closed forms and the rules of probability."""

import pytest
import torch
from small import line_network, one_sided, random_context, seeded, small_network

from aline import Task, train
from aline.episodes import Context
from aline.model import Joint, ModelConfig, Network
from aline.model.joint import random_orders
from aline.spaces import Box, Real
from aline.tasks.linear import exact_posterior
from aline.training import TrainingConfig

# All rounds play random designs: q is what is tested.
RANDOM = TrainingConfig(
    batch=64, warmup=1.0, policy_updates=0, prefixes=2, points=0, learning_rate=1e-2
)


def joint_of(network: Network, batch: int = 3, length: int = 4) -> Joint:
    return network.joint(network.encode(random_context(network.spec, batch, length)))


@pytest.mark.parametrize("zoom_layers", [0, 1])
def test_log_density_is_the_chain_rule(zoom_layers: int) -> None:
    """The sum of terms, whatever else is asked beside; one parameter alone has its marginal."""
    joint = joint_of(small_network(zoom_layers=zoom_layers))
    theta = torch.randn(3, 1, 5, 4, generator=seeded(1))
    order = torch.arange(4).expand(3, 1, 5, 4)
    torch.testing.assert_close(joint.log_prob(theta), joint.terms(theta, order).sum(-1))
    alone = joint.log_prob(theta[:, :, :1])
    torch.testing.assert_close(alone, joint.log_prob(theta)[:, :, :1])
    marginal = joint.marginals.log_prob(theta[:, :, 0])[..., 2]
    torch.testing.assert_close(joint.log_prob(theta, [2])[:, :, 0], marginal)


def test_a_term_depends_only_on_what_comes_before_it() -> None:
    joint = joint_of(small_network())
    theta = torch.randn(3, 1, 1, 4, generator=seeded(1))
    order = torch.tensor([2, 0, 3, 1]).expand(3, 1, 1, 4)
    changed = theta.clone()
    changed[..., 3] += 1.0
    before, after = joint.terms(theta, order), joint.terms(changed, order)
    torch.testing.assert_close(before[..., :2], after[..., :2])
    assert (before[..., 2:] != after[..., 2:]).all()


def test_draws_follow_the_density() -> None:
    """E[q2 / q1] over draws from q1 is one, for q in one order and its reverse alike."""
    joint = joint_of(small_network(seed=3), batch=1)
    drawn = joint.sample(20_000, seeded(2))
    box = (drawn[..., :2].abs() < 0.5).all(-1).float().mean()
    axis = torch.linspace(-0.5, 0.5, 41)
    grid = torch.zeros(1, 1, 41 * 41, 4)
    grid[0, 0, :, :2] = torch.cartesian_prod(axis, axis)
    density = joint.log_prob(grid, [0, 1]).exp().view(41, 41)
    mass = torch.trapezoid(torch.trapezoid(density, axis), axis)
    assert float(mass) == pytest.approx(float(box), abs=3 * 0.5 / 20_000**0.5)


def test_orders_are_permutations() -> None:
    orders = random_orders((200, 3), 4, seeded(0))
    assert (orders.sort(-1).values == torch.arange(4)).all()
    assert torch.bincount(orders[..., 0].flatten(), minlength=4).min() > 100


def test_without_conditionals_parameters_are_independent() -> None:
    network = small_network()
    network.conditional = None
    joint = joint_of(network)
    theta = torch.randn(3, 1, 2, 4, generator=seeded(1))
    product = joint.marginals.unsqueeze(2).log_prob(theta).sum(-1)
    torch.testing.assert_close(joint.log_prob(theta), product)


def exact_correlation(task: Task, context: Context) -> torch.Tensor:
    x = task.spec.design.to_user(context.designs)[..., 0].double()
    _, covariance = exact_posterior(x, task.spec.outcome.to_user(context.outcomes).double())
    std = covariance.diagonal(dim1=1, dim2=2).sqrt()
    return covariance[:, 0, 1] / std.prod(1)


def test_learns_the_correlation_of_a_linear_model() -> None:
    """Designs on one side only leave intercept and slope strongly dependent."""
    task, network = line_network()
    generator = seeded(4)
    _, context = one_sided(task, 20, generator)
    drawn = network.joint(network.encode(context)).sample(2000, generator)[:, 0]
    found = torch.stack([each.T.corrcoef()[0, 1] for each in drawn])
    exact = exact_correlation(task, context)
    assert exact.mean() < -0.5
    assert (found - exact).abs().mean() < 0.12


def test_two_exchangeable_parameters_have_two_modes() -> None:
    """The data tell both values and not which is which: draws never take the same one twice."""
    task = Task(
        parameters={name: torch.distributions.Uniform(-1.0, 1.0) for name in ("a", "b")},
        design=Box(x=(0.0, 1.0)),
        outcome=Real(),
        simulate=lambda theta, design, generator: (
            torch.where(
                design["x"] < 0.5,
                torch.minimum(theta["a"], theta["b"]),
                torch.maximum(theta["a"], theta["b"]),
            )
            + 0.05 * torch.randn(design["x"].shape, generator=generator)
        ),
        horizon=6,
    ).fitted()
    sizes = ModelConfig(width=16, heads=2, layers=2, feedforward=32, components=4)
    model = train(task, rounds=80, model=sizes, config=RANDOM, progress=False)
    designs = task.spec.design.to_network(torch.tensor([0.2, 0.3, 0.4, 0.6, 0.7, 0.8])[:, None])
    outcomes = task.world({"a": -0.6, "b": 0.5}).answer(designs[None], seeded(0))
    encoded = model.network.encode(Context(designs[None], outcomes))
    z = model.network.joint(encoded).sample(1000, seeded(0))[0, 0]
    drawn = task.spec.parameters.to_user(z)
    low, high = torch.minimum(drawn["a"], drawn["b"]), torch.maximum(drawn["a"], drawn["b"])
    assert ((drawn["a"] < drawn["b"]).float().mean() - 0.5).abs() < 0.15
    assert (((low + 0.6).abs() < 0.3) & ((high - 0.5).abs() < 0.3)).float().mean() > 0.85
