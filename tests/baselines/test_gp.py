"""The acquisitions against what they stand for, computed from the joint Gaussian directly."""

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from small import goal_for, seeded

from aline.baselines.gp import NOISE, Array, Fit, GPPolicy, Kind, acquisition_scores
from aline.episodes import FixedPool, Goal, Offer, play
from aline.errors import InputError
from aline.tasks import get

TASK = get("gp2d", horizon=8)
GENERATOR = np.random.default_rng(0)
X, TARGETS, CANDIDATES = (GENERATOR.uniform(-5, 5, (count, 2)) for count in (12, 6, 9))
Y = np.sin(X[:, 0]) * np.cos(0.5 * X[:, 1])
FIT = Fit.of(X, Y, NOISE, normalise=False)


def joint(points: Array) -> Array:
    """The posterior covariance of noisy outcomes at points, from the kernel's matrix alone."""
    kernel = FIT.regressor.kernel_
    inverse = np.linalg.inv(kernel(X) + NOISE**2 * np.eye(len(X)))
    covariance = kernel(points) - kernel(points, X) @ inverse @ kernel(X, points)
    return np.asarray(covariance + NOISE**2 * np.eye(len(points)))


def scores(acquisition: str) -> Array:
    return acquisition_scores(FIT, CANDIDATES, TARGETS, acquisition)


def test_the_fit_is_of_the_largest_marginal_likelihood() -> None:
    theta, best = FIT.regressor.kernel_.theta, FIT.regressor.log_marginal_likelihood_value_
    for axis in range(3):
        for step in (-0.05, 0.05):
            other = theta.copy()
            other[axis] += step
            assert FIT.regressor.log_marginal_likelihood(other) < best + 1e-6


@pytest.mark.parametrize("kind", ["rbf", "matern32", "matern52"])
@pytest.mark.parametrize("noise", [NOISE, None])
def test_every_kernels_evidence_is_scikit_learns(kind: Kind, noise: float | None) -> None:
    quick, slow = (Fit.of(X, Y, noise, False, quick, 0, kind).regressor for quick in (True, False))
    assert np.allclose(quick.kernel_.theta, slow.kernel_.theta, atol=2e-2)
    constant = len(X) / 2 * np.log(2 * np.pi)
    assert quick.log_marginal_likelihood_value_ - constant == pytest.approx(
        slow.log_marginal_likelihood_value_, abs=1e-3
    )


def test_more_starts_find_no_less_evidence_and_the_kernel_with_the_most_is_taken() -> None:
    rough = np.sign(np.sin(2 * X[:, 0]))
    one, four = (Fit.of(X, rough, NOISE, False, restarts=count) for count in (0, 3))
    assert four.log_evidence >= one.log_evidence - 1e-6
    kinds: tuple[Kind, ...] = ("rbf", "matern32", "matern52")
    each = [Fit.of(X, rough, NOISE, False, kind=kind).log_evidence for kind in kinds]
    chosen = GPPolicy(TASK.spec, "vr", kinds=kinds)._fitted(X, rough)
    assert chosen.log_evidence == max(each)


def test_predictions_are_the_regressors() -> None:
    mean, std = FIT.predict(CANDIDATES)
    expected, spread = FIT.regressor.predict(CANDIDATES, return_std=True)
    assert np.allclose(mean, expected)
    assert np.allclose(std, np.sqrt(spread**2 + NOISE**2))


def test_normalised_outcomes_may_have_any_units() -> None:
    plain = Fit.of(X, Y, NOISE, normalise=True).predict(CANDIDATES)
    moved = Fit.of(X, 1000 * Y + 5000, 1000 * NOISE, normalise=True).predict(CANDIDATES)
    assert np.allclose(moved[0], 1000 * plain[0] + 5000, rtol=1e-3)
    assert np.allclose(moved[1], 1000 * plain[1], rtol=1e-2)


def test_uncertainty_is_the_standard_deviation() -> None:
    assert np.allclose(scores("us") ** 2, np.diag(joint(CANDIDATES)), rtol=1e-6)


def test_variance_reduction_is_how_much_variance_a_measurement_takes_away() -> None:
    before = np.diag(joint(TARGETS)).sum()
    for candidate, score in zip(CANDIDATES, scores("vr"), strict=True):
        kernel, more = FIT.regressor.kernel_, np.vstack([X, candidate])
        again = GaussianProcessRegressor(kernel, alpha=NOISE**2, optimizer=None)
        _, after = again.fit(more, np.zeros(len(more))).predict(TARGETS, return_std=True)
        assert before - (after**2 + NOISE**2).sum() == pytest.approx(score, rel=1e-3, abs=1e-8)


def test_epig_is_the_mutual_information_with_the_targets() -> None:
    for candidate, score in zip(CANDIDATES, scores("epig"), strict=True):
        nats = []
        for target in TARGETS:
            both = joint(np.stack([candidate, target]))
            nats.append(0.5 * np.log(both[0, 0] * both[1, 1] / np.linalg.det(both)))
        assert np.mean(nats) == pytest.approx(score, rel=1e-4, abs=1e-8)


STEPS = 20


@pytest.mark.parametrize("acquisition", ["us", "epig"])
def test_choosing_beats_chance(acquisition: str) -> None:
    """Of uncertainty, only once it has been to all edges: in two dimensions that takes a while."""
    batch = 12
    theta = TASK.spec.parameters.to_network(
        {"lengthscale": [2.5, 2.5], "output_scale": 0.9}
    ).expand(batch, -1)

    def error(kind: str) -> float:
        world = TASK.worlds(theta, seeded(0))
        targets = TASK.spec.design.sample(batch, 40, seeded(1))
        goal = Goal(torch.zeros(batch, 3, dtype=torch.bool), targets, torch.ones(batch, 40) > 0)
        policy = GPPolicy(TASK.spec, kind)  # type: ignore[arg-type]
        pool = FixedPool(TASK.spec.design.sample(batch, 60, seeded(2)))
        context = play(policy, world, goal, steps=STEPS, generator=seeded(3), offers=pool)
        state = policy.begin(goal)
        for step in range(STEPS):
            state = policy.observe(state, context.designs[:, step], context.outcomes[:, step])
        mean, _ = state.predict(targets, TASK.spec)
        return float((mean - world.answer(targets, seeded(4))).square().mean().sqrt())

    assert error(acquisition) < error("rs")


def test_mistakes() -> None:
    with pytest.raises(InputError, match="acquisitions are rs, us, vr, epig"):
        GPPolicy(TASK.spec, "ei")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="needs a goal with predictions"):
        GPPolicy(TASK.spec, "vr").begin(goal_for(TASK.spec, ("lengthscale",), 2))


def test_only_what_is_allowed_is_chosen() -> None:
    points = TASK.spec.design.sample(1, 5, seeded(0))
    policy = GPPolicy(TASK.spec, "us")
    state = policy.observe(policy.begin(goal_for(TASK.spec, ("predictions",), 1)),
                           points[:, 0], torch.ones(1))  # fmt: skip
    allowed = torch.tensor([[False, False, True, False, False]])
    assert torch.equal(policy.choose(state, Offer(points, allowed), seeded(1)), points[:, 2])


@pytest.mark.parametrize("count", [1, 4, 25])
def test_quick_fits_are_those_of_scikit_learn(count: int) -> None:
    world = TASK.draw(6, seeded(0))
    designs = TASK.spec.design.sample(6, count, seeded(1))
    outcomes = TASK.spec.outcome.to_user(world.answer(designs, seeded(2))).double().numpy()
    points = TASK.spec.design.to_user(TASK.spec.design.sample(6, 9, seeded(3))).double().numpy()
    x = TASK.spec.design.to_user(designs).double().numpy()
    for episode in range(6):
        data = x[episode], outcomes[episode], NOISE, count > 1
        plain, quick = (Fit.of(*data, quick=q).predict(points[episode]) for q in (False, True))
        # Few points leave the likelihood flat: both stop where they find it flat enough.
        assert np.allclose(plain[0], quick[0], atol=0.01)
        assert np.allclose(plain[1], quick[1], atol=0.01)
