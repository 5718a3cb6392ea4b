"""The check of typical outcomes: fair where the model is right, and it finds what is wrong."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from small import seeded
from torch.distributions import Normal

from aline.episodes import Context
from aline.evaluation.faults import Fault, check_experiments, faulty_experiments
from aline.experiment import shifts
from aline.experiment.experiment import Experiment
from aline.experiment.shifts import SIZES, can_shift, payoffs_of_shifts
from aline.experiment.typical import (
    HIGHER,
    LEVEL,
    LOWER,
    MOST,
    NOISE,
    RANDOM,
    SHAPES,
    SWAPPED,
    Evidence,
    bets_on,
    payoffs,
)
from aline.spaces import Binary, Categorical, Count, Ordinal, Outcomes, Real
from aline.spaces.outcomes.binary import Bernoulli
from aline.spaces.outcomes.categorical import Labelled
from aline.spaces.outcomes.count import Counted
from aline.spaces.outcomes.mixture import Censored, Mixture
from aline.spaces.outcomes.ordinal import Rated
from aline.tasks import get
from aline.tasks.linear import NOISE as LINE_NOISE
from aline.tasks.linear import exact_posterior
from aline.zoo import load

SHIFTS = [fault for fault, _, _ in SHAPES]
ZERO, ONE = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
LEVELS = torch.tensor([0.1, 0.2, 0.4, 0.25, 0.05], dtype=torch.float64).log()
BELIEFS = {
    "real": (Real(0.0, 1.0), Mixture(ZERO, ZERO, ONE)),
    "censored": (
        Real(0.0, 1.0, limits=(-0.5, 1.0)),
        Censored(ZERO, ZERO, ONE, (-0.5, 1.0)),
    ),
    "count": (Count(loc=1.0, scale=1.0), Counted(ZERO, ONE, 0.7 * ONE)),
    "ordinal": (Ordinal(5), Rated(LEVELS)),
    "categorical": (Categorical(["a", "b", "c", "d", "e"]), Labelled(LEVELS)),
    "binary": (Binary(), Bernoulli(torch.tensor(0.8, dtype=torch.float64))),
}


@pytest.mark.parametrize("kind", BELIEFS)
def test_no_bet_is_expected_to_win_where_the_belief_is_right(kind: str) -> None:
    outcome, belief = BELIEFS[kind]
    draws = belief.sample(40_000, seeded(1)).double()
    many = belief.each(lambda tensor: tensor.expand(len(draws), *tensor.shape))
    paid = payoffs(outcome, many, draws)
    plain = [fault for _, fault in bets_on(outcome) if fault != SWAPPED]
    assert paid.shape == (len(draws), len(plain))
    error = paid.std(0) / math.sqrt(len(draws))
    assert ((paid.mean(0) - 1).abs() <= 4 * error + 1e-9).all()


def test_each_kind_of_outcome_has_its_bets() -> None:
    faults = {name: [fault for _, fault in bets_on(kind)] for name, (kind, _) in BELIEFS.items()}
    assert faults["real"] == faults["count"] == SHIFTS
    assert faults["binary"] == [RANDOM, SWAPPED]
    assert faults["ordinal"] == [*SHIFTS, RANDOM, SWAPPED]
    assert faults["categorical"] == [RANDOM]
    both = list(bets_on(Outcomes(choice=Binary(), rt=Real(0.0, 1.0))))
    assert both[0] == ("choice", RANDOM)
    assert ("rt", NOISE) in both
    assert both[-1][1] == SWAPPED


def test_a_position_is_a_probability_below_and_up_to_a_value() -> None:
    counted = BELIEFS["count"][1]
    below, reached = counted.position(torch.tensor(3.0, dtype=torch.float64))
    mass = counted.log_prob(torch.tensor(3.0, dtype=torch.float64)).exp()
    assert reached - below == pytest.approx(float(mass), abs=1e-6)
    low, high = BELIEFS["censored"][1].position(torch.tensor(-0.5, dtype=torch.float64))
    assert (float(low), float(high)) == (0.0, pytest.approx(0.3085, abs=1e-3))
    low, high = BELIEFS["censored"][1].position(torch.tensor(1.0, dtype=torch.float64))
    assert (float(low), float(high)) == (pytest.approx(0.8413, abs=1e-3), 1.0)


def capitals(draw, horizon: int = 30, runs: int = 400) -> list[Evidence]:
    """Of runs whose outcomes `draw` [runs, horizon] gives and N(0, 1) was believed of."""
    outcome, belief = BELIEFS["real"]
    values = draw((runs, horizon)).double()
    many = belief.each(lambda tensor: tensor.expand(runs, horizon, *tensor.shape))
    paid = payoffs(outcome, many, values).numpy()
    found = []
    for run in paid:
        evidence = Evidence.start(outcome, horizon)
        for payoff in run:
            evidence = evidence.after(payoff, np.ones(0))
        found.append(evidence)
    return found


def share_found(found: list[Evidence]) -> float:
    return sum(one.finding is not None for one in found) / len(found)


def test_false_alarms_are_rare_and_faults_are_found() -> None:
    right = capitals(lambda shape: torch.randn(shape, generator=seeded(1)))
    assert share_found(right) <= LEVEL
    noisy = capitals(lambda shape: 3 * torch.randn(shape, generator=seeded(2)), runs=100)
    assert share_found(noisy) > 0.98
    assert {one.finding.bet[1] for one in noisy if one.finding} <= {NOISE, HIGHER, LOWER}

    def late(shape: tuple[int, int]) -> torch.Tensor:
        return torch.randn(shape, generator=seeded(3)) + 2.0 * (torch.arange(shape[1]) >= 15)

    found = capitals(late, runs=100)
    assert share_found(found) > 0.95
    since = [one.finding.since for one in found if one.finding and one.finding.bet[1] == HIGHER]
    assert 14 <= np.median(since) <= 18


def test_one_outcome_alone_raises_no_flag() -> None:
    evidence = Evidence.start(Real(0.0, 1.0), 10)
    assert evidence.after(np.full(len(SHAPES), 1e12), np.ones(0)).most < MOST
    assert evidence.after(np.full(len(SHAPES), 1e12), np.ones(0)).finding is None


def shifted_experiments(size: float, since: int, episodes: int) -> list[Evidence]:
    """Of location finding, with outcomes that are higher by so much noise from a trial on."""
    model, task = load("location"), get("location")

    def higher(world, designs, outcome, luck):
        return outcome + size * 0.25  # the noise on the network's scale

    fault = Fault(higher, since)
    context = faulty_experiments(model, task, model.spec.parameters.names, fault, episodes, 5)
    return check_experiments(model, context)


@pytest.mark.parametrize("since", [1, 10])
def test_a_shift_that_a_model_could_explain_away_is_found(since: int) -> None:
    found = shifted_experiments(3.0, since, 12)
    assert share_found(found) >= 0.8
    assert all(one.finding.bet[1] in (NOISE, HIGHER) for one in found if one.finding)


def test_a_shift_of_nothing_is_rarely_found() -> None:
    assert share_found(shifted_experiments(0.0, 1, 20)) <= 0.1


class Prior:
    """An engine that knows nothing: whatever was seen, its posterior is the prior."""

    network = SimpleNamespace(conditional=None)

    def read(self, context: Context) -> Context:
        return context

    def posterior(self, data: Context) -> Mixture:
        zero = torch.zeros(len(data.designs), 2, 1)
        return Mixture(zero, zero, zero + 1)


def test_bets_on_shifts_pay_the_ratio_of_marginal_likelihoods(monkeypatch) -> None:
    """On a line with known noise, where it has a closed form; draws of the prior are weighed."""
    monkeypatch.setattr(shifts, "DRAWS", 2000)
    monkeypatch.setattr(shifts, "PAIRS", 500)
    task, generator = get("linear", horizon=4), seeded(3)
    spec = task.spec
    engine: Any = Prior()
    designs = 2 * torch.rand(20, 4, 1, generator=generator) - 1
    outcomes = task.draw(20, generator).answer(designs, generator)
    past = Context(designs[:, :3], outcomes[:, :3])
    paid = payoffs_of_shifts(task, engine, past, designs[:, 3], outcomes[:, 3].double(), [0, 2])
    x, y = spec.design.to_user(designs)[..., 0], spec.outcome.to_user(outcomes)

    def log_predictive(shift: torch.Tensor) -> torch.Tensor:
        mean, covariance = exact_posterior(x[:, :3], (y - shift)[:, :3])
        at = torch.stack([torch.ones(20), x[:, 3]], 1)
        spread = ((at[:, None] @ covariance @ at[..., None])[:, 0, 0] + LINE_NOISE**2).sqrt()
        return Normal((mean * at).sum(1), spread).log_prob((y - shift)[:, 3])

    for column, start in enumerate((0, 2)):
        for place, size in enumerate(SIZES):
            shift = size * LINE_NOISE * (torch.arange(4) >= start)
            expected = log_predictive(shift) - log_predictive(torch.zeros(4))
            apart = paid[:, column, place].log() - expected
            assert float(apart.abs().median()) < 0.15 * (1 + float(expected.std()))
    assert not can_shift(get("ces"))  # outcomes with limits


def swapping(stimulus: float) -> bool:
    return stimulus < 0.3


def told(experiment: Experiment, answer, trials: int) -> Experiment:
    for _ in range(trials):
        trial = experiment.ask()
        experiment.tell(trial, answer(next(iter(trial.design.values()))))
    return experiment


def test_swapped_keys_are_named_and_survive_a_resume(tmp_path) -> None:
    storage = f"sqlite:///{tmp_path}/lab.db"
    model = load("psychometric")
    experiment = told(Experiment(model, storage=storage), swapping, 12)
    posterior = experiment.posterior()
    assert posterior.is_doubtful
    assert "swapped" in posterior.warnings[0]
    assert f"warning: {posterior.warnings[0]}" in repr(posterior)
    again = Experiment.resume(storage, model=model)
    assert again._state.checked.most == experiment._state.checked.most
    assert again.warnings == experiment.warnings


def test_looking_after_every_trial_finds_the_same_as_looking_once() -> None:
    model = load("psychometric")
    once, often = (told(Experiment(model), swapping, 3) for _ in range(2))
    for _ in range(4):
        assert often._state.checked.count == len(often.trials)
        assert not often._state.after({"event": "closed"}).unchecked  # it is kept
        told(often, lambda x: x > 0.3, 1)
        told(once, lambda x: x > 0.3, 1)
    assert often._state.checked.most == pytest.approx(once._state.checked.most, rel=1e-6)


def test_abandoning_what_was_odd_takes_the_warning_back() -> None:
    experiment = Experiment(load("location"), horizon=4)
    for outcome in (3.0, 9.0, -3.0):
        experiment.tell(experiment.ask(), outcome)
    assert experiment.warnings
    experiment.undo()
    experiment.abandon(1)
    assert not experiment.warnings


def test_more_trials_than_trained_for_are_said_and_refined_is_offered() -> None:
    model = load("psychometric")
    experiment = Experiment(model, horizon=40)
    experiment.attach({"stimulus": [0.0] * 31}, [True, False] * 15 + [True])
    (long, offer) = experiment.warnings
    assert "31 observations are more than the 30" in long
    assert "refined()" in offer
