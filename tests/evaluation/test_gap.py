"""Evaluation of a model: a perfect one has no gap, and any one gives well formed rows."""

import json
from typing import Any

import pytest
import torch
from discrete import trend_task
from small import posterior_of, small_model
from torch import Tensor
from torch.distributions import Normal

from aline.episodes import Context
from aline.errors import InputError
from aline.evaluation import coverage, evaluate, exact, simulated
from aline.evaluation.gap import errors_of, parameter_goals, prior_gap, steps_of
from aline.evaluation.simulated import posteriors_after, simulate_experiments
from aline.model import Mixture, Network
from aline.spaces import Box, Real
from aline.tasks import Task, get
from aline.tasks.linear import exact_posterior

FIELDS = ["task", "method", "target", "metric", "step", "value", "ci95", "n", "published"]


def values(result: dict[str, Any], metric: str, target: str | None = None) -> dict[int, float]:
    """Step -> value of one metric."""
    return {
        row["step"]: row["value"]
        for row in result["rows"]
        if row["metric"] == metric and target in (None, row["target"])
    }


def perfect(network: Network, context: Context, lengths: tuple[int, ...]) -> Mixture:
    """The closed-form posteriors of the linear task in place of the network's."""
    x = network.spec.design.to_user(context.designs)[..., 0]
    y = network.spec.outcome.to_user(context.outcomes)
    moments = [exact_posterior(x[:, :n], y[:, :n]) for n in lengths]
    mean = torch.stack([m for m, _ in moments], 1)
    std = torch.stack([c.diagonal(dim1=1, dim2=2).sqrt() for _, c in moments], 1)
    return Mixture(torch.zeros(*mean.shape, 1), mean[..., None], std[..., None])


@pytest.fixture
def perfect_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "posteriors_after", perfect)


@pytest.mark.usefixtures("perfect_posterior")
def test_a_perfect_posterior_has_no_gap() -> None:
    task = get("linear")
    result = evaluate(small_model(task), task, episodes=40, nodes=(128, 128))
    assert result["notes"] == []
    for name in ("intercept", "slope"):
        gaps = values(result, f"gap:{name}", "intercept,slope")
        assert set(gaps) == {0, 5, 10}
        assert list(gaps.values()) == pytest.approx([0.0] * 3, abs=1e-3)
    learned = values(result, "j", "intercept,slope")
    assert learned[0] == pytest.approx(0.0, abs=1e-5)
    assert 0 < learned[5] < learned[10]


@pytest.mark.usefixtures("perfect_posterior")
def test_errors_are_those_of_the_posterior() -> None:
    """Before any data: the distance of a normal draw from its mean, and from another draw."""
    task = get("linear", horizon=5)
    result = evaluate(small_model(task), task, episodes=150, nodes=(8, 8))
    (row,) = [
        row
        for row in result["rows"]
        if (row["metric"], row["step"], row["target"]) == ("rmse", 0, "slope")
    ]
    # E|theta| of a standard normal is sqrt(2 / pi).
    assert row["value"] == pytest.approx(0.798, abs=1.5 * row["ci95"])
    whole = values(result, "posterior_rmse", "slope")
    point = values(result, "rmse", "slope")
    assert all(whole[step] > point[step] for step in whole)
    assert point[5] < point[0]
    both = values(result, "posterior_rmse", "intercept,slope")
    alone = values(result, "posterior_rmse", "intercept")
    # Before any data the goal makes no difference: the mean of each parameter's own.
    assert both[0] == pytest.approx((alone[0] + whole[0]) / 2, rel=1e-6)


def test_a_value_of_a_discrete_parameter_is_right_or_wrong() -> None:
    parameters = trend_task().spec.parameters
    named = {"slope": torch.ones(4), "bias": torch.zeros(4)}
    draws = parameters.to_network({"trend": torch.tensor([0, 0, 1, 2]), **named})
    truth = parameters.to_network(
        {"trend": torch.tensor([0]), **{n: x[:1] for n, x in named.items()}}
    )
    of_mean, error = errors_of(parameters, draws[:, None], truth, ["trend"])
    torch.testing.assert_close(of_mean, torch.tensor([0.5]))
    torch.testing.assert_close(error, torch.tensor([0.5]).sqrt())


@pytest.mark.usefixtures("perfect_posterior")
def test_a_perfect_posterior_covers_as_often_as_it_says() -> None:
    task = get("linear")
    covered = coverage(small_model(task), task, episodes=400, level=0.8)
    assert set(covered) == {"intercept", "slope"}
    for estimate in covered.values():
        # Four standard errors of a share of 0.8.
        assert estimate.value == pytest.approx(0.8, abs=4 * (0.8 * 0.2 / 400) ** 0.5)


SHORT = get("psychometric", horizon=6)
NODES = (16, 6, 4, 4)


CALIBRATION = ("ranks_outside", "coverage_0.5", "coverage_0.9", "coverage_0.95")


def test_rows_have_the_one_layout() -> None:
    result = evaluate(small_model(SHORT), SHORT, episodes=4, seed=1, nodes=NODES)
    assert json.loads(json.dumps(result)) == result
    assert {"bench", "command", "commit", "machine", "seconds", "rows"} <= set(result)
    for row in result["rows"]:
        assert list(row) == FIELDS
        assert row["task"] == "psychometric"
        assert row["method"] == "aline-box"
    assert {row["target"] for row in result["rows"]} == {"threshold,slope", "guess,lapse"}
    expected = {"j", "rmse", "posterior_rmse", "tarp_p"} | {
        f"{metric}:{name}"
        for metric in ("gap", "coverage", *CALIBRATION)
        for name in SHORT.spec.parameters.names
    }
    assert {row["metric"] for row in result["rows"]} == expected
    assert {row["step"] for row in result["rows"]} == {0, 5, 6}


def test_the_same_seed_gives_the_same_numbers() -> None:
    model = small_model(SHORT)
    one, two, other = (
        evaluate(model, SHORT, episodes=4, seed=seed, nodes=NODES)["rows"] for seed in (1, 1, 2)
    )
    assert one == two
    assert one != other


def test_goals_meet_the_same_truths() -> None:
    model = small_model(SHORT)
    one, other = (
        simulate_experiments(model, SHORT, names, episodes=5, lengths=[6], seed=3)
        for names in (("threshold", "slope"), ("guess", "lapse"))
    )
    assert torch.equal(one.theta, other.theta)
    assert not torch.equal(one.context.designs, other.context.designs)


def test_random_designs_may_come_first() -> None:
    model = small_model(SHORT)
    one, other = (
        simulate_experiments(model, SHORT, names, episodes=5, lengths=[6], seed=3, start=2)
        for names in (("threshold", "slope"), ("guess", "lapse"))
    )
    assert torch.equal(one.context.designs[:, :2], other.context.designs[:, :2])


def test_posteriors_are_those_of_the_prefixes() -> None:
    model = small_model(SHORT)
    played = simulate_experiments(model, SHORT, ["slope"], episodes=3, lengths=[0, 4], seed=0)
    for i, length in enumerate((0, 4)):
        context = played.context
        prefix = Context(context.designs[:, :length], context.outcomes[:, :length])
        alone = posterior_of(model.network, prefix)
        assert torch.allclose(played.posterior.mean[:, i], alone.mean[:, 0], atol=1e-5)
    again = posteriors_after(model.network, played.context, [4])
    assert torch.allclose(again.mean[:, 0], played.posterior.mean[:, 1], atol=1e-5)


def decay(
    theta: dict[str, Tensor], design: dict[str, Tensor], generator: torch.Generator
) -> Tensor:
    return torch.exp(-theta["rate"] * design["time"])


def test_without_a_likelihood_there_is_no_gap_and_it_says_so() -> None:
    from torch.distributions import Uniform

    task = Task(
        parameters={"rate": Uniform(0.1, 2.0)},
        design=Box(time=(0.0, 10.0)),
        outcome=Real(),
        simulate=decay,
        horizon=3,
    )
    result = evaluate(small_model(task), task, episodes=3)
    assert result["notes"] == [
        "no gap: the exact posterior needs a log_likelihood, and this task has none"
    ]
    last = {f"{metric}:{name}" for metric in CALIBRATION for name in ("rate", "predictions")}
    assert {row["metric"] for row in result["rows"]} == {
        "j", "rmse", "posterior_rmse", "coverage:rate", "tarp_p", *last,
    }  # fmt: skip


def test_too_many_parameters_for_a_grid() -> None:
    task = get("location", sources=3, horizon=2)
    result = evaluate(small_model(task), task, episodes=2)
    assert result["notes"] == [
        "no gap: the exact posterior is for 1 to 4 parameters, this task has 6"
    ]


def test_a_posterior_too_narrow_for_a_grid_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_MOST_POINTS", 100)
    task = get("linear", horizon=3)
    notes = evaluate(small_model(task), task, episodes=3)["notes"]
    assert len(notes) == 3
    assert notes[0].startswith("no gap for intercept,slope: the exact posterior of linear does not")


def test_progress_reaches_the_end() -> None:
    told: list[tuple[int, int]] = []
    model = small_model(SHORT)
    evaluate(model, SHORT, episodes=3, nodes=(4, 4, 2, 2), progress=lambda *now: told.append(now))
    assert told == sorted(told)
    assert told[-1] == (6, 6)


def test_another_task_than_the_models() -> None:
    with pytest.raises(InputError, match="trained with other parameters than this task location"):
        evaluate(small_model(SHORT), get("location"), episodes=3)


def test_too_few_episodes() -> None:
    with pytest.raises(InputError, match="episodes must be at least 2, got 1"):
        evaluate(small_model(SHORT), SHORT, episodes=1)


def test_gap_before_any_data_is_the_divergence_from_the_prior() -> None:
    mean = torch.tensor([0.0, 0.5]).view(1, 1, 2, 1)
    q = Mixture(torch.zeros(1, 1, 2, 1), mean, torch.tensor([1.0, 2.0]).view(1, 1, 2, 1))
    prior = Normal(0.0, 1.0)
    expected = torch.distributions.kl_divergence(prior, Normal(mean.flatten(), q.std.flatten()))
    assert prior_gap(q).tolist() == pytest.approx(expected.tolist(), abs=1e-6)


def test_steps_and_goals() -> None:
    assert steps_of(get("psychometric").spec) == (0, 5, 10, 20, 30)
    assert steps_of(get("linear", horizon=12).spec) == (0, 5, 10, 12)
    assert parameter_goals(get("linear").spec) == [
        ("intercept", "slope"), ("intercept",), ("slope",),
    ]  # fmt: skip


def test_a_refined_posterior_is_right_where_the_network_knows_nothing() -> None:
    """Its rows are those of the closed form, on the same experiments."""
    task = get("linear", horizon=5)
    model = small_model(task)
    result = evaluate(model, task, episodes=24, nodes=(8, 8), refined=True)
    played = simulate_experiments(
        model, task, ("intercept", "slope"), episodes=24, lengths=[5], seed=0
    )
    exact = perfect(model.network, played.context, (5,))
    theta = played.theta[:, None]
    gained = exact.log_prob(theta) - Normal(0.0, 1.0).log_prob(theta)
    target = "intercept,slope"
    found = values(result, "refined_j", target)
    assert found == {5: pytest.approx(float(gained.sum(-1).mean()), abs=0.1)}
    assert found[5] > values(result, "j", target)[5] + 0.5
    assert values(result, "refined_rmse", target)[5] < values(result, "rmse", target)[5]
    covered = (exact.cdf(theta) - 0.5).abs() <= 0.45
    for i, name in enumerate(("intercept", "slope")):
        share = values(result, f"refined_coverage:{name}", target)[5]
        assert share == pytest.approx(float(covered[..., i].double().mean()), abs=0.05)


def test_nothing_to_refine_with() -> None:
    task = get("gp1d", horizon=3)
    with pytest.raises(InputError, match="task gp1d has no likelihood to refine a posterior with"):
        evaluate(small_model(task), task, episodes=2, refined=True)
