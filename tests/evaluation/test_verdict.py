"""The verdict of a training: failures that were planted are named in words."""

import json
from dataclasses import replace
from typing import Literal

import pytest
import torch
from small import SIZES, seeded, small_functions
from torch.distributions import Normal, Uniform

import aline
from aline.errors import InputError
from aline.evaluation.estimates import Estimate
from aline.evaluation.judge import judge, verdict_of, with_verdict
from aline.evaluation.verdict import FIXED, GREEDY, LEARNED, RANDOM, Verdict, longer
from aline.model import Model, ModelConfig, fresh
from aline.spaces import Box, Real
from aline.tasks import Task, get
from aline.training import TrainingConfig

SHORT = {"seconds": 1000.0, "episodes": 64}  # the clock must not decide here


def two_parameters(mean, likelihood: bool = True) -> Task:
    """Normal noise about a mean of a and b at x."""

    def simulate(theta, design, generator):
        at = mean(theta, design)
        return at + 0.3 * torch.randn(at.shape, generator=generator)

    def log_likelihood(theta, design, y):
        return Normal(mean(theta, design), 0.3).log_prob(y)

    return Task(
        parameters={"a": Uniform(-1.0, 1.0), "b": Uniform(-1.0, 1.0)},
        design=Box(x=(0.0, 1.0)),
        outcome=Real(),
        simulate=simulate,
        log_likelihood=log_likelihood if likelihood else None,
        horizon=4,
    )


def untrained(task: Task, policy: Literal["pool", "box"] = "pool") -> Model:
    config = ModelConfig(policy=policy, **SIZES)
    network = fresh(task.fitted().spec, config, seeded(0)).eval().requires_grad_(False)
    return Model(network, {"seconds": 20.0})


def bump(theta, design):
    """Seen only where one looks: one design for all tells less than random ones."""
    return 3 * torch.exp(-0.5 * ((2 * design["x"] - 1 - theta["a"]) / 0.1) ** 2) + 0 * theta["b"]


def line(theta, design):
    return theta["a"] + 3 * theta["b"] * design["x"]


def blind(theta, design):
    return theta["a"] + 0 * theta["b"] * design["x"]


def corner(theta, design):
    return theta["a"] + 5 * theta["b"] * torch.sigmoid(100 * (design["x"] - 0.95))


def silent(theta, design):
    return 0 * theta["a"] * design["x"]


def test_a_training_that_was_too_short_is_named() -> None:
    task = two_parameters(bump)
    config = TrainingConfig(batch=8, updates=1, prefixes=1, points=1, candidates=2)
    model = aline.train(task, rounds=1, model=ModelConfig(**SIZES), config=config, progress=False)
    assert "verdict" not in model.measurements
    found = judge(replace(model, training={"seconds": 20.0}), task, **SHORT)
    assert "has not learned to choose yet" in found.sentence
    assert "Train longer (--budget 5min)" in str(found.remedy)


def test_a_simulator_that_ignores_its_design_is_named() -> None:
    task = two_parameters(blind)
    found = judge(untrained(task), task, **SHORT)
    assert "choice of designs makes no difference here" in found.sentence
    assert found.remedy is not None
    assert "Does simulate use its design?" in found.remedy


def test_an_informative_corner_that_is_missed_is_named() -> None:
    task = two_parameters(corner)
    found = judge(untrained(task, "box"), task, **SHORT)  # which stays near the middle
    assert found.ours_minus[FIXED].value < -0.3
    assert found.ours_minus[GREEDY].value < -0.3
    assert found.remedy is not None
    assert 'policy="fixed"' in found.remedy
    assert max(found.schedule["x"]) > 0.9


def test_data_that_say_nothing_are_named() -> None:
    task = two_parameters(silent)
    found = judge(untrained(task), task, **SHORT)
    assert "No policy learns anything here" in found.sentence
    assert "use its parameters" in str(found.remedy)


def test_without_a_likelihood_the_posterior_judges_and_the_table_says_so() -> None:
    task = two_parameters(line, likelihood=False)
    found = judge(untrained(task), task, **SHORT)
    assert GREEDY not in found.gained
    assert "yet" in found.sentence  # nothing, or to choose
    assert "the model's own posterior" in found.lines()[-1]


def test_a_task_without_parameters_is_not_judged() -> None:
    task = get("gp1d")
    with pytest.raises(InputError, match="no parameters"):
        judge(Model(small_functions(task, hypotheses=0)), task)


def made(ours: float, **others: float) -> Verdict:
    """A verdict with intervals of 0.05."""
    told = {LEARNED: ours, **others}
    return Verdict(
        gained={name: Estimate(value, 0.1, 200) for name, value in told.items()},
        ours_minus={name: Estimate(ours - v, 0.05, 200) for name, v in others.items()},
        over_random={
            name: Estimate(v - others[RANDOM], 0.05, 200)
            for name, v in others.items()
            if name != RANDOM
        },
        contrastive=10_000,
        schedule={"time": [1.0, 2.0]},
        seconds=10.0,
        trained=720.0,
    )


def test_the_best_policy_needs_no_remedy() -> None:
    found = made(3.2, random=2.5, fixed=3.0, greedy=3.25)
    assert found.remedy is None
    assert "0.20 ± 0.05 more than the best fixed schedule" in found.sentence
    assert "0.98 of what exact greedy play does" in found.sentence


def test_a_better_fixed_schedule_is_said_with_its_remedy() -> None:
    found = made(2.92, random=2.5, fixed=3.07, greedy=3.0)
    assert found.sentence == (
        "The learned policy gains 2.92 nats, the best fixed schedule 3.07: ours is worse by "
        "0.15 ± 0.05."
    )
    assert found.remedy == (
        'Train longer (--budget 30min), or use the fixed schedule (policy="fixed").'
    )


def test_better_greedy_play_is_said() -> None:
    found = made(2.6, random=2.0, fixed=2.4, greedy=2.9)
    assert "exact greedy play 2.90: ours is worse by 0.30" in found.sentence
    assert found.remedy == "Train longer (--budget 30min)."


def test_level_with_the_fixed_schedule_is_said() -> None:
    found = made(3.02, random=2.5, fixed=3.0)
    assert "level with the best fixed schedule" in found.sentence
    assert 'policy="fixed"' in str(found.remedy)


def test_where_greedy_play_gains_no_more_nobody_is_sent_to_train_longer() -> None:
    found = made(3.02, random=2.5, fixed=3.0, greedy=3.0)
    assert "adapting pays little" in str(found.remedy)
    assert "Train longer" not in str(found.remedy)


def test_near_the_cap_nothing_is_called_the_same() -> None:
    found = made(9.1, random=9.1, fixed=9.1)
    assert found.is_near_cap
    assert "no difference" not in found.sentence
    assert "near that" in found.lines()[-1]


def test_a_verdict_is_kept_in_the_card() -> None:
    found = made(3.2, random=2.5, fixed=3.0, greedy=3.25)
    model = with_verdict(untrained(two_parameters(line)), found)
    json.dumps(model.card())
    again = verdict_of(model)
    assert again is not None
    assert again.lines() == found.lines()
    assert verdict_of(untrained(two_parameters(line))) is None


def test_a_longer_budget_is_a_round_number() -> None:
    assert [longer(s) for s in (20, 300, 1800, 20000)] == ["5min", "15min", "1h", "24h"]


def with_posterior(holds: float, ci95: float = 0.05) -> Verdict:
    """A good policy of three parameters, whose own posterior holds so many of its 3.2 nats."""
    return replace(
        made(3.2, random=2.5, fixed=3.0, greedy=3.25),
        parameters=3,
        posterior=Estimate(holds, 0.1, 200),
        missed=Estimate(3.2 - holds, ci95, 200),
    )


def test_a_posterior_that_misses_what_the_data_tell_is_said_with_its_remedy() -> None:
    found = with_posterior(2.5)
    assert found.about_posterior is not None
    assert "holds 2.50 of the 3.20 nats" in found.about_posterior
    assert "--budget 30min" in found.about_posterior
    assert "experiment.refined()" in found.about_posterior
    assert found.about_posterior in found.lines()


@pytest.mark.parametrize("found", [with_posterior(3.1), with_posterior(2.5, ci95=0.5)])
def test_a_posterior_that_holds_the_nats_or_may_hold_them_is_no_warning(found: Verdict) -> None:
    assert not found.is_posterior_wide
    assert "Train longer" not in str(found.about_posterior)


def test_what_was_measured_of_the_posterior_is_kept_in_the_card() -> None:
    found = with_posterior(2.5)
    again = Verdict.from_json(json.loads(json.dumps(found.to_json())))
    assert again.lines() == found.lines()


def test_an_untrained_posterior_is_named() -> None:
    task = two_parameters(line)
    found = judge(untrained(task), task, **SHORT)
    assert found.is_posterior_wide
