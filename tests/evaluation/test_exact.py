"""Quadrature against closed forms, brute force and itself with other nodes."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from small import goal_for, seeded
from torch import Tensor
from torch.distributions import Dirichlet, MultivariateNormal, Normal, Uniform

from aline.episodes import Context, RandomPolicy, play
from aline.errors import InputError
from aline.evaluation import (
    can_be_exact,
    converged_nodes,
    exact,
    exact_gains,
    exact_grid_posterior,
    exact_log_marginals,
)
from aline.spaces import Binary, Box, Real
from aline.tasks import Task, get
from aline.tasks.linear import exact_posterior


def played(task: Task, batch: int, steps: int, seed: int = 0) -> tuple[Tensor, Context]:
    generator = seeded(seed)
    world = task.draw(batch, generator)
    goal = goal_for(task.spec, tuple(task.spec.parameters.priors), batch)
    policy = RandomPolicy(task.spec.design)
    return world.theta, play(policy, world, goal, steps=steps, generator=generator)


def closed_form(context: Context, length: int) -> Normal:
    """Marginal posteriors of the linear task, [batch, parameter]; its z is the user's scale."""
    spec = get("linear").spec
    x = spec.design.to_user(context.designs)[:, :length, 0].double()
    y = spec.outcome.to_user(context.outcomes)[:, :length].double()
    mean, covariance = exact_posterior(x, y)
    return Normal(mean, covariance.diagonal(dim1=1, dim2=2).sqrt())


def test_linear_is_the_closed_form() -> None:
    task = get("linear")
    theta, context = played(task, 40, 10)
    lengths = [0, 1, 4, 10]
    log_p = exact_log_marginals(task, context, theta, lengths, nodes=(128, 128))
    for i, length in enumerate(lengths):
        expected = closed_form(context, length).log_prob(theta.double())
        assert torch.allclose(log_p[:, i].double(), expected, atol=1e-3), length


def test_gains_are_of_the_joint_posterior() -> None:
    task = get("linear")
    theta, context = played(task, 20, 10)
    x = task.spec.design.to_user(context.designs)[..., 0].double()
    y = task.spec.outcome.to_user(context.outcomes).double()
    joint = MultivariateNormal(*exact_posterior(x, y))
    expected = joint.log_prob(theta.double()) - Normal(0.0, 1.0).log_prob(theta.double()).sum(1)
    assert torch.allclose(exact_gains(task, context, theta, (128, 128)), expected, atol=1e-3)


def test_simplex_is_the_closed_form() -> None:
    """Answers that are yes with probability share_1 leave a Beta posterior of it."""
    task = Task(
        parameters={"share": Dirichlet(torch.tensor([1.0, 1.0, 1.0]))},
        design=Box(x=(0.0, 1.0)),
        outcome=Binary(),
        simulate=lambda theta, design, generator: (
            torch.rand(design["x"].shape, generator=generator) < theta["share"][..., 0]
        ),
        log_likelihood=lambda theta, design, outcome: torch.where(
            outcome > 0.5, theta["share"][..., 0], 1 - theta["share"][..., 0]
        ).log(),
        horizon=8,
    )
    theta, context = played(task, 5, 8)
    log_p = exact_log_marginals(task, context, theta, [8], nodes=(48, 3))[:, 0]
    volume = task.spec.parameters.log_volume(theta)
    yes = (context.outcomes > 0).sum(1)
    share = task.spec.parameters.to_user(theta)["share"][:, 0]
    expected = stats.beta(1 + yes.numpy(), 2 + 8 - yes.numpy()).logpdf(share.numpy())
    assert (log_p - volume)[:, 0].numpy() == pytest.approx(expected, abs=1e-3)
    prior = Normal(0.0, 1.0).log_prob(theta[:, 1])
    assert torch.allclose(log_p[:, 1], prior, atol=1e-3)


def test_a_narrow_posterior_is_found() -> None:
    """Two levels read with an error of 0.002 in a prior of 1: the posterior is a needle."""

    def level(theta: Any, design: Any) -> Tensor:
        return torch.where(design["x"] < 0.5, theta["a"], theta["b"])

    task = make(
        simulate=lambda theta, design, generator: (
            level(theta, design) + 0.002 * torch.randn(design["x"].shape, generator=generator)
        ),
        log_likelihood=lambda theta, design, y: Normal(level(theta, design), 0.002).log_prob(y),
    )
    theta, context = played(task, 6, 12)
    low = task.spec.design.to_user(context.designs)[..., 0] < 0.5
    for nodes in ((48, 48), converged_nodes(task, context, theta)):
        log_p = exact_log_marginals(task, context, theta, [12], nodes)[:, 0]
        in_user_units = log_p - task.spec.parameters.log_volume(theta)
        for i, name in enumerate(("a", "b")):
            read = low if name == "a" else ~low
            count = read.sum(1)
            mean = (context.outcomes * read).sum(1) / count
            truth = task.spec.parameters.to_user(theta)[name]
            expected = Normal(mean, 0.002 / count.sqrt()).log_prob(truth)
            assert torch.allclose(in_user_units[:, i], expected, atol=5e-3)


def moderate_observers(count: int, steps: int) -> tuple[Tensor, Context]:
    """Observers that are not so steep that 40 nodes a parameter are too few, on grid points."""
    task = get("psychometric")
    share = (torch.randint(8, 32, (count, 4), generator=seeded(2)) + 0.5) / 40
    share[:, 1] = (torch.randint(18, 38, (count,), generator=seeded(3)) + 0.5) / 40
    theta = torch.special.ndtri(share)
    world = type(task.draw(1, seeded(0)))(task, theta)  # type: ignore[call-arg]
    designs = task.spec.design.sample(count, steps, seeded(4))
    return theta, Context(designs, world.answer(designs, seeded(5)))


def midpoint_grid(theta: Tensor, designs: Tensor, outcomes: Tensor) -> list[float]:
    """log p(theta_l | D) in units of the prior's quantile, from 40^4 midpoints and numpy alone."""
    middle = (np.arange(40, dtype=np.float32) + 0.5) / 40
    threshold, slope, guess, lapse = np.meshgrid(
        -3 + 6 * middle,
        0.1 + 1.9 * middle,
        0.1 + 0.8 * middle,
        0.5 * middle,
        sparse=True,
        indexing="ij",
    )
    total = np.zeros((40, 40, 40, 40), dtype=np.float32)
    for x, y in zip(5 * designs.numpy()[:, 0], outcomes.numpy(), strict=True):
        strength = np.minimum((x - threshold) / slope, 3)
        yes = guess * lapse + (1 - lapse) * (1 - np.exp(-(10**strength)))
        total += np.log(yes if y > 0 else 1 - yes)
    weight = np.exp(total - total.max())
    weight /= weight.sum(dtype=np.float64)
    at = np.floor(torch.special.ndtr(theta).numpy() * 40).astype(int)
    others = [tuple(j for j in range(4) if j != i) for i in range(4)]
    return [
        math.log(40 * float(weight.sum(axis=rest, dtype=np.float64)[at[i]]))
        for i, rest in enumerate(others)
    ]


def test_psychometric_is_a_brute_force_grid() -> None:
    task = get("psychometric")
    theta, context = moderate_observers(2, 10)
    ours = exact_log_marginals(task, context, theta, [10], nodes=(128, 20, 8, 8))[:, 0]
    in_quantiles = ours - Normal(0.0, 1.0).log_prob(theta)
    for episode in range(2):
        grid = midpoint_grid(theta[episode], context.designs[episode], context.outcomes[episode])
        assert in_quantiles[episode].tolist() == pytest.approx(grid, abs=2e-3)


def test_psychometric_has_converged() -> None:
    """The hardest case: a steep observer, measured thirty times where it is steep."""
    task = get("psychometric")
    world = task.world({"threshold": 0.7, "slope": 0.12, "guess": 0.4, "lapse": 0.1})
    designs = 0.14 + 0.05 * torch.randn(1, 30, 1, generator=seeded(1))
    theta, context = world.theta, Context(designs, world.answer(designs, seeded(2)))
    lengths = [5, 10, 20, 30]
    fine = exact_log_marginals(task, context, theta, lengths, nodes=(320, 20, 7, 7))
    used = exact_log_marginals(task, context, theta, lengths, nodes=(256, 16, 6, 6))
    assert float((fine - used).abs().max()) < 1e-3


def test_nodes_are_added_until_nothing_changes() -> None:
    task = get("linear")
    theta, context = played(task, 12, 10)
    nodes = converged_nodes(task, context, theta, tolerance=1e-3)
    found = exact_log_marginals(task, context, theta, [10], nodes)[:, 0]
    expected = closed_form(context, 10).log_prob(theta.double())
    assert float((found.double() - expected).abs().max()) < 5e-3
    assert min(nodes) > 8
    assert converged_nodes(task, context, theta, tolerance=100.0) == (8, 8)


def test_nodes_that_never_suffice_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    task = get("linear")
    theta, context = played(task, 3, 10)
    monkeypatch.setattr(exact, "_MOST_POINTS", 500)
    with pytest.raises(InputError, match="does not converge"):
        converged_nodes(task, context, theta, tolerance=1e-6)


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    task = get("psychometric")
    theta, context = played(task, 2, 6)
    whole = exact_log_marginals(task, context, theta, [3, 6], nodes=(12, 7, 3, 4))
    monkeypatch.setattr(exact, "_AT_ONCE", 100)
    parts = exact_log_marginals(task, context, theta, [3, 6], nodes=(12, 7, 3, 4))
    assert torch.allclose(whole, parts, atol=1e-5)


def test_marginals_for_figures_are_densities() -> None:
    task = get("psychometric")
    _, context = moderate_observers(2, 6)
    marginals = exact_grid_posterior(task, context, points=201, nodes=(48, 12, 5, 5))
    assert tuple(marginals) == task.spec.parameters.names
    for values, density in marginals.values():
        assert density.shape == (2, 201)
        mass = torch.trapezoid(density, values)
        assert torch.allclose(mass, torch.ones(2), atol=2e-2)


def test_marginals_for_figures_are_the_closed_form() -> None:
    task = get("linear")
    _, context = played(task, 3, 10)
    marginals = exact_grid_posterior(task, context)
    expected = closed_form(context, 10)
    for i, (values, density) in enumerate(marginals.values()):
        theirs = expected.log_prob(values[:, None, None].double()).exp()[..., i].T
        assert torch.allclose(density.double(), theirs, atol=1e-2 * float(theirs.max()))


def test_progress_counts_episodes() -> None:
    task = get("linear")
    theta, context = played(task, 3, 2)
    told: list[tuple[int, int]] = []
    exact_log_marginals(
        task, context, theta, [2], nodes=(8, 8), progress=lambda *now: told.append(now)
    )
    assert told == [(1, 3), (2, 3), (3, 3)]


def make(**changes: Any) -> Task:
    fields: dict[str, Any] = {
        "parameters": {"a": Uniform(0.0, 1.0), "b": Uniform(0.0, 1.0)},
        "design": Box(x=(0.0, 1.0)),
        "outcome": Real(0.0, 1.0),
        "simulate": lambda theta, design, generator: theta["a"] * design["x"],
        "horizon": 3,
    }
    return Task(**fields | changes)


def test_who_can_be_exact() -> None:
    assert can_be_exact(get("psychometric"))
    assert can_be_exact(get("location", sources=2))
    assert not can_be_exact(get("location", sources=3))
    assert not can_be_exact(make())


CONTEXT = Context(torch.zeros(1, 3, 1), torch.zeros(1, 3))


@pytest.mark.parametrize(
    ("task", "context", "lengths", "nodes", "message"),
    [
        (make(), CONTEXT, [3], (8, 8), "task task with no log_likelihood and 2 parameters"),
        (get("linear"), CONTEXT, [4], (8, 8), "lengths must rise from 0 to at most 3, got"),
        (get("linear"), CONTEXT, [3, 1], (8, 8), "lengths must rise"),
        (get("linear"), CONTEXT, [3], (8,), "nodes must be 2 whole numbers"),
        (
            get("linear"),
            Context(CONTEXT.designs, CONTEXT.outcomes, CONTEXT.outcomes == 0),
            [3],
            (8, 8),
            "without padding",
        ),
        (
            make(log_likelihood=lambda t, d, y: t["a"] * d["x"] - (y - t["b"]).mean(0)),
            CONTEXT,
            [3],
            (8, 8),
            "log_likelihood must be elementwise",
        ),
        (
            make(log_likelihood=lambda t, d, y: torch.stack([t["a"], t["b"]]).sum(0) * d["x"]),
            CONTEXT,
            [3],
            (8, 8),
            "must broadcast over any leading axes",
        ),
    ],
)
def test_mistakes(
    task: Task, context: Context, lengths: list[int], nodes: tuple[int, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        exact_log_marginals(task, context, torch.zeros(1, 2), lengths, nodes)
