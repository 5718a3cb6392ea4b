import math

import pytest
import torch
from small import goal_for, seeded
from torch import Tensor

from aline.episodes import Context, RandomPolicy, play
from aline.errors import InputError
from aline.evaluation import adaptive_bounds, episode_bounds, information_bounds
from aline.model import Joint, Mixture, ModelConfig, fresh
from aline.model.guesses import Guesses
from aline.tasks import Task, get
from aline.tasks.linear import exact_information_gain, exact_posterior


def played(task: Task, batch: int, steps: int) -> tuple[Tensor, Context]:
    generator = seeded(0)
    world = task.draw(batch, generator)
    goal = goal_for(task.spec, task.spec.parameters.names, batch)
    return world.theta, play(
        RandomPolicy(task.spec.design), world, goal, steps=steps, generator=generator
    )


def test_bounds_hold_the_exact_information_gain() -> None:
    task = get("linear")
    theta, context = played(task, 400, 6)
    exact = exact_information_gain(task.spec.design.to_user(context.designs)[..., 0]).mean()
    bounds = information_bounds(task, context, theta, 3000, seeded(1))
    assert bounds.lower.value - bounds.lower.ci95 <= exact <= bounds.upper.value + bounds.upper.ci95
    # With so many draws both are close, so each is also right in itself.
    assert bounds.lower.value == pytest.approx(float(exact), abs=2 * bounds.lower.ci95)
    assert bounds.upper.value == pytest.approx(float(exact), abs=2 * bounds.upper.ci95)
    assert bounds.note is None
    assert bounds.lower.n == 400


def test_few_draws_leave_the_truth_between_the_bounds() -> None:
    """With 20 draws the bounds are loose, and each on its side."""
    task = get("linear")
    theta, context = played(task, 400, 6)
    exact = exact_information_gain(task.spec.design.to_user(context.designs)[..., 0]).mean()
    bounds = information_bounds(task, context, theta, 20, seeded(1))
    assert bounds.lower.value + bounds.lower.ci95 < exact < bounds.upper.value - bounds.upper.ci95


@pytest.mark.parametrize("task", [get("psychometric"), get("location"), get("linear"), get("ces")])
def test_streaming_is_the_plain_formula(task: Task) -> None:
    """300 episodes and 1600 draws: blocks and chunks that do not fit evenly."""
    theta, context = played(task, 300, 4)
    lower, upper = episode_bounds(task, context, theta, 1600, seeded(3))
    generator = seeded(3)
    draws = torch.cat([task.spec.parameters.sample(n, generator) for n in (1024, 256, 256, 64)])
    others = task.log_prob(draws[:, None], context.designs, context.outcomes).sum(-1).double()
    truth = task.log_prob(theta, context.designs, context.outcomes).sum(-1).double()
    with_truth = torch.cat([truth[None], others]).logsumexp(0) - math.log(1601)
    assert torch.allclose(lower, truth - with_truth, atol=1e-3)
    assert torch.allclose(upper, truth - others.logsumexp(0) + math.log(1600), atol=1e-3)


def test_vector_parameters() -> None:
    from torch.distributions import Independent, Normal

    from aline.spaces import Box, Real

    def mean(theta: dict[str, Tensor], design: dict[str, Tensor]) -> Tensor:
        return theta["w"][..., 0] + theta["w"][..., 1] * design["x"]

    vector = Task(
        parameters={"w": Independent(Normal(torch.zeros(2), torch.ones(2)), 1)},
        design=Box(x=(-1.0, 1.0)),
        outcome=Real(0.0, 1.5),
        simulate=lambda theta, design, generator: (
            mean(theta, design) + 0.5 * torch.randn(design["x"].shape, generator=generator)
        ),
        log_likelihood=lambda theta, design, y: Normal(mean(theta, design), 0.5).log_prob(y),
        horizon=6,
    )
    results = []
    for task in (get("linear"), vector):
        theta, context = played(task, 50, 6)
        results.append(information_bounds(task, context, theta, 300, seeded(1)))
    assert results[0].lower.value == pytest.approx(results[1].lower.value, abs=1e-4)


def test_a_lower_bound_near_its_cap_says_so() -> None:
    task = get("location")
    theta, context = played(task, 50, 30)
    bounds = information_bounds(task, context, theta, 10, seeded(1))
    assert bounds.lower.value <= bounds.cap
    assert bounds.note is not None
    assert "within a nat of its cap log(L + 1) = 2.40" in bounds.note


def test_progress_counts_draws() -> None:
    task = get("linear")
    theta, context = played(task, 5, 2)
    told: list[tuple[int, int]] = []
    episode_bounds(task, context, theta, 1600, seeded(0), lambda *now: told.append(now))
    assert told == [(1280, 1600), (1536, 1600), (1600, 1600)]


def test_the_same_seed_gives_the_same_bounds() -> None:
    task = get("location")
    theta, context = played(task, 10, 5)
    one, two = (information_bounds(task, context, theta, 500, seeded(4)) for _ in range(2))
    assert one == two


def test_mistakes() -> None:
    task = get("linear")
    theta, context = played(task, 3, 2)
    with pytest.raises(InputError, match="contrastive must be at least 1, got 0"):
        information_bounds(task, context, theta, 0, seeded(0))
    with pytest.raises(InputError, match="at least one observation"):
        information_bounds(task, Context.empty(3, 1), theta, 10, seeded(0))
    task.log_likelihood = None
    with pytest.raises(
        InputError, match="sPCE and sNMC need a log_likelihood, task linear has none"
    ):
        information_bounds(task, context, theta, 10, seeded(0))


def independent(marginals: Mixture) -> list[Joint]:
    """A posterior for each episode, of a network that knows each parameter by itself only."""
    network = fresh(get("linear").fitted().spec, ModelConfig(joint=False), seeded(0))
    nothing = network.begin(1)
    return [
        Joint(network, nothing, Guesses.single(marginals[row : row + 1, None]))
        for row in range(len(marginals.mean))
    ]


def exact_marginals(task: Task, context: Context) -> list[Joint]:
    """The posterior of the linear task as q: its marginals, without their correlation."""
    x = task.spec.design.to_user(context.designs)[..., 0].double()
    average, covariance = exact_posterior(x, task.spec.outcome.to_user(context.outcomes).double())
    std = covariance.diagonal(dim1=-2, dim2=-1).sqrt()
    parts = torch.zeros(*std.shape, 1), average[..., None].float(), std[..., None].float()
    return independent(Mixture(*parts))


def test_adaptive_bounds_hold_the_exact_gain_with_few_draws() -> None:
    task = get("linear")
    theta, context = played(task, 400, 6)
    exact = float(exact_information_gain(task.spec.design.to_user(context.designs)[..., 0]).mean())
    q = exact_marginals(task, context)
    bounds = adaptive_bounds(task, context, theta, q, 30, seeded(1))
    assert bounds.lower.value - bounds.lower.ci95 <= exact <= bounds.upper.value + bounds.upper.ci95
    # As close as three thousand draws from the prior (above).
    assert bounds.lower.value == pytest.approx(exact, abs=2 * bounds.lower.ci95)
    assert bounds.upper.value - bounds.lower.value < 0.1
    assert bounds.cap == math.inf
    assert bounds.note is None


def test_adaptive_bounds_agree_with_the_prior_ones() -> None:
    """Paired on the same episodes, the two pairs differ far less than the episodes do."""
    task = get("linear")
    theta, context = played(task, 100, 6)
    prior = information_bounds(task, context, theta, 20_000, seeded(1))
    adaptive = adaptive_bounds(task, context, theta, exact_marginals(task, context), 200, seeded(1))
    assert adaptive.lower.value == pytest.approx(prior.lower.value, abs=0.03)
    assert adaptive.upper.value == pytest.approx(prior.upper.value, abs=0.03)


def test_adaptive_bounds_bracket_the_gain_with_a_wrong_q_too() -> None:
    """A q that is nowhere near the posterior only loosens them."""
    task = get("linear")
    theta, context = played(task, 400, 6)
    exact = float(exact_information_gain(task.spec.design.to_user(context.designs)[..., 0]).mean())
    shape = (400, 2, 1)
    wrong = Mixture(torch.zeros(shape), torch.full(shape, 2.0), torch.full(shape, 0.1))
    bounds = adaptive_bounds(task, context, theta, independent(wrong), 300, seeded(1))
    assert bounds.lower.value - bounds.lower.ci95 <= exact <= bounds.upper.value + bounds.upper.ci95
