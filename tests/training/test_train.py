"""A training run: repeatable, resumable, honest about failures, and it learns."""

import json
import sys
from dataclasses import replace

import pytest
import torch
from discrete import trend_task
from small import posterior_of
from torch.distributions import Uniform

import aline
from aline.episodes import Context, play
from aline.errors import CheckpointError, InputError, InternalError
from aline.files import read_tensors, write_tensors
from aline.model import ModelConfig, fresh
from aline.spaces import Categorical
from aline.tasks import get
from aline.tasks.linear import exact_posterior
from aline.training import TrainingConfig
from aline.training.budget import Budget, parse_duration
from aline.training.run import Run
from aline.training.train import default_model

SMALL = ModelConfig(width=16, heads=2, layers=2, feedforward=32, components=3)
QUICK = TrainingConfig(
    batch=16, updates=2, emulator_updates=1, prefixes=2, points=1, candidates=4, alternatives=4
)


def weights(model):
    """All weights in one vector."""
    return torch.cat([p.flatten() for p in model.network.state_dict().values()])


def quick(task, **options):
    """A training of moments."""
    options = {"model": SMALL, "config": QUICK, "progress": False, "rounds": 6, **options}
    return aline.train(task, **options)


@pytest.mark.parametrize("name", ["psychometric", "location", "linear"])
def test_a_seed_repeats_a_run(name):
    task = get(name, horizon=4)
    first, again, other = (weights(quick(task, seed=seed)) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_mixed_rounds_take_turns_with_other_goals(monkeypatch):
    module, goals = sys.modules[Run.__module__], []

    def watched(policy, world, goal, **options):
        goals.append(goal)
        return play(policy, world, goal, **options)

    monkeypatch.setattr(module, "play", watched)
    task = get("psychometric", horizon=4)
    quick(task, config=replace(QUICK, mixed_share=1.0, warmup=0.0), rounds=2)
    for goal in goals:
        own, other = goal.turns
        assert torch.equal(own.parameters, goal.parameters)
        assert not torch.equal(own.parameters, other.parameters)
    goals.clear()
    quick(task, config=replace(QUICK, mixed_share=0.0, warmup=0.0), rounds=2)
    assert all(goal.turns == () for goal in goals)


@pytest.mark.parametrize(
    "settings", [{}, {"search_stages": 2, "guesses": 2, "newton_steps": 1}], ids=["plain", "search"]
)
def test_an_interrupted_run_resumes_to_the_same_weights(settings, tmp_path, monkeypatch):
    task = get("psychometric", horizon=4)
    model = replace(SMALL, **settings)
    whole = quick(task, rounds=8, model=model)
    step = Run.step

    def interrupted(self):
        if self.round == 5:
            raise KeyboardInterrupt
        step(self)
        self.save()

    monkeypatch.setattr(Run, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        quick(task, rounds=8, model=model, out=tmp_path)
    monkeypatch.setattr(Run, "step", step)
    resumed = quick(task, rounds=8, model=model, out=tmp_path, resume=True)
    assert torch.equal(weights(whole), weights(resumed))


def test_the_network_has_the_average_of_what_the_emulator_was():
    """Over all updates so far, as long as these are few."""
    task = get("psychometric", horizon=4)
    model, seen = replace(SMALL, newton_steps=1), []

    budget = Budget(rounds=3)
    run = Run(
        task=task.checked().fitted(), config=replace(QUICK, emulator_average=200), budget=budget,
        seed=0, network=fresh(task.spec, model, torch.Generator().manual_seed(0)),
        policy_loss=None, folder=None,
    )  # fmt: skip
    for _ in range(3):
        run.step()
        seen.append(run.emulator.out.weight.detach().clone())
    torch.testing.assert_close(run.network.emulator.out.weight, sum(seen) / 3)
    assert not torch.allclose(seen[0], seen[2])


def test_resume_refuses_another_run(tmp_path):
    quick(get("linear", horizon=3), out=tmp_path)
    with pytest.raises(InputError, match="another task"):
        quick(get("linear", horizon=4), out=tmp_path, resume=True)
    with pytest.raises(InputError, match="another seed"):
        quick(get("linear", horizon=3), out=tmp_path, resume=True, seed=9)


@pytest.mark.parametrize(
    "change", [{"round": None}, {"elapsed": []}, {"task": None}, {"seed": {}}, {"round": "x"}]
)
def test_resume_refuses_what_no_training_saved(change, tmp_path):
    task = get("linear", horizon=3)
    quick(task, out=tmp_path, rounds=1)
    path = tmp_path / "checkpoint.safetensors"
    tensors, card = read_tensors(path)
    write_tensors(path, tensors, {**card, **change})
    with pytest.raises((CheckpointError, InputError), match="another folder"):
        quick(task, out=tmp_path, resume=True)


def test_a_model_can_be_trained_further():
    task = get("linear", horizon=3)
    first = quick(task)
    further = quick(task, initial=first, config=replace(QUICK, learning_rate=1e-9))
    assert torch.allclose(weights(first), weights(further), atol=1e-5)
    assert further.training["after"]["rounds"] == 6
    assert further.spent("rounds") == 12
    assert further.spent("coffee") is None
    with pytest.raises(InputError, match="this very task"):
        quick(get("linear", horizon=4), initial=first)


def test_a_model_can_go_on_with_fewer_layers_of_its_policy():
    task = get("linear", horizon=3)
    first = quick(task)
    fewer = replace(first.network.config, policy_layers=1)
    assert first.network.config.policy_layers > 1
    further = quick(task, initial=first, model=fewer, config=replace(QUICK, learning_rate=1e-9))
    assert torch.allclose(first.network.nothing, further.network.nothing, atol=1e-5)
    assert len(list(further.network.policy.layers)) == 1
    with pytest.raises(InputError, match="this very task"):
        quick(task, initial=first, model=replace(fewer, layers=1))


def test_turns_may_be_declared_after_a_training(tmp_path):
    task = get("psychometric", horizon=3)
    before = get("psychometric", horizon=3)
    before.spec = replace(before.spec, turns=())
    first = quick(before, out=tmp_path, rounds=2)
    assert first.spec.turns == ()
    declared = ((("threshold", "slope"), 2), (("guess", "lapse"), 3))
    assert quick(task, initial=first, rounds=1).spec.turns == declared
    assert quick(task, out=tmp_path, rounds=3, resume=True).spec.turns == declared


def test_metrics_are_lines_of_json(tmp_path):
    config = replace(QUICK, batch=4, updates=1)
    quick(get("linear", horizon=3), config=config, out=tmp_path, rounds=45)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["round"] for row in rows] == [20, 40, 45]
    assert all(row["J"] is not None and row["episodes_per_second"] > 0 for row in rows)


def test_a_diverging_run_stops_and_keeps_the_last_good_checkpoint(tmp_path):
    task = get("linear", horizon=3)
    quick(task, out=tmp_path, rounds=3)
    good = (tmp_path / "checkpoint.safetensors").read_bytes()
    calls = []
    real = task.simulate

    def broken(theta, design, generator):
        calls.append(1)
        value = real(theta, design, generator)
        return value * 1e30 if len(calls) > 10 else value

    task.simulate = broken
    with pytest.raises(InternalError, match="training diverged in round"):
        quick(task, out=tmp_path, rounds=30, resume=True)
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == good


def test_time_budgets_are_kept():
    model = aline.train(get("linear", horizon=3), "2s", model=SMALL, config=QUICK, progress=False)
    assert 1.9 < model.training["seconds"] < 6


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5min", 300), ("1.5h", 5400), (" 2 h ", 7200)]
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "5 fortnights", "-3min", "0s"])
def test_bad_durations(text):
    with pytest.raises(InputError, match="a budget must be a time"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("policy", "credit"), [("box", "return"), ("box", "immediate"), ("pool", "pathwise")]
)
def test_credits_that_do_not_fit_the_policy(policy, credit):
    model = ModelConfig(width=16, heads=2, layers=2, policy=policy)
    config = TrainingConfig(credit=credit)
    with pytest.raises(InputError, match=credit):
        aline.train(get("linear"), rounds=1, model=model, config=config, progress=False)


@pytest.mark.parametrize("credit", ["immediate", "return", "paired"])
def test_every_credit_trains_a_pool(credit):
    config = TrainingConfig(**{**QUICK.to_json(), "credit": credit})
    model = quick(get("psychometric", horizon=3), config=config)
    assert torch.isfinite(weights(model)).all()


def test_it_learns_the_exact_posterior_of_a_line():
    """A short training of the linear task against its closed form."""
    task = get("linear", horizon=6)
    config = TrainingConfig(
        batch=64, prefixes=3, points=0, learning_rate=8e-3, possible_truths=16, warmup=0.8
    )
    sizes = replace(SMALL, policy="box", policy_layers=1)
    model = aline.train(task, rounds=60, model=sizes, config=config, progress=False)
    generator = torch.Generator().manual_seed(0)
    world = task.draw(400, generator)
    designs = task.spec.design.sample(400, 6, generator)
    outcomes = world.answer(designs, generator)
    belief = posterior_of(model.network, Context(designs, outcomes))
    mean, covariance = exact_posterior(
        task.spec.design.to_user(designs)[..., 0], task.spec.outcome.to_user(outcomes)
    )
    exact = torch.distributions.Normal(mean, covariance.diagonal(dim1=1, dim2=2).sqrt())
    gap = exact.log_prob(world.theta) - belief.log_prob(world.theta[:, None])[:, 0]
    assert gap.mean() < 0.1


def test_a_function_task_trains_as_it_asks_to() -> None:
    """Its own settings, both kinds of goals, and designs left to the plug-in."""
    task = get("gp1d", horizon=3)
    config = TrainingConfig(**{**task.training, "batch": 6, "updates": 2, "warmup": 0.0})
    model = aline.train(task, rounds=4, config=config, progress=False)
    assert model.network.config.plugin == "functions"
    assert model.network.config.plugin_settings["kernels"] == 12
    assert model.network.config.policy == "plugin"
    assert posterior_of(model.network, Context.empty(1, 1)).mean.isfinite().all()


def test_a_training_ends_with_a_verdict_where_it_is_wanted(capsys):
    task = get("linear", horizon=3)
    model = quick(task, rounds=1, verdict=True, progress=True)
    verdict = model.measurements["verdict"]
    assert json.loads(json.dumps(verdict)) == verdict
    assert set(verdict["gained"]) == {"learned", "random", "fixed", "greedy"}
    assert len(verdict["schedule"]["x"]) == 3
    assert verdict["sentence"] in capsys.readouterr().out
    assert "verdict" not in quick(task, rounds=1).measurements


def test_a_likelihood_that_fails_costs_the_verdict_and_not_the_training(capsys):
    task = get("linear", horizon=3)
    config = replace(QUICK, possible_truths=0)
    task.log_likelihood = lambda theta, design, outcome: 1 / 0
    model = quick(task, rounds=1, config=config, verdict=True, progress=True)
    assert model.measurements["verdict"] == {"failed": "ZeroDivisionError: division by zero"}
    assert "The verdict could not be measured: ZeroDivisionError" in capsys.readouterr().out


@pytest.mark.parametrize(("budget", "is_long"), [("59s", False), ("1min", True), ("2h", True)])
def test_a_budget_of_a_minute_is_worth_a_verdict(budget, is_long):
    assert Budget.of(budget, None).is_long is is_long
    assert not Budget.of(budget, 5).is_long


@pytest.mark.parametrize("budget", [5, "5", 5.0])
def test_a_budget_without_a_unit_says_what_to_write(budget):
    with pytest.raises(InputError, match=r'with its unit, got .*5.*: write "5(\.0)?min" or "5'):
        aline.train(get("linear"), budget=budget)


@pytest.mark.parametrize("budget", [True, [5], -5, "soon", ""])
def test_a_budget_that_is_no_time(budget):
    with pytest.raises(InputError, match='a budget must be a time such as "90s"'):
        aline.train(get("linear"), budget=budget)


def test_settings_may_be_a_dict_of_what_differs():
    task = get("linear", horizon=2)
    model = quick(task, model={"width": 8, "heads": 2}, config={"batch": 4}, rounds=1)
    assert model.network.config == replace(default_model(task, True), width=8, heads=2)
    assert model.training["config"]["batch"] == 4


def with_parameters(**priors):
    return trend_task(parameters={"slope": Uniform(0.0, 1.0), "bias": Uniform(0.0, 1.0), **priors})


@pytest.mark.parametrize(
    ("task", "stages", "places", "steps"),
    [
        (get("linear"), 4, 4, 1),
        (with_parameters(a=Uniform(0.0, 1.0), b=Uniform(0.0, 1.0), c=Uniform(0.0, 1.0)), 10, 4, 1),
        (trend_task(), 4, 3, 1),  # a place for each value of its discrete parameter
        (with_parameters(many=Categorical(list("abcde"))), 0, 1, 0),
        (with_parameters(one=Categorical(["a", "b"]), other=Categorical(["a", "b"])), 0, 1, 0),
    ],
)
def test_how_a_posterior_is_searched_for_follows_from_the_parameters(task, stages, places, steps):
    usual = default_model(task, differentiable=False)
    assert (usual.search_stages, usual.guesses, usual.newton_steps) == (stages, places, steps)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": {"widht": 64}}, "settings of ModelConfig are width, heads, .*mean width"),
        ({"config": {"batches": 4}}, "settings of TrainingConfig are batch, .*did you mean batch"),
        ({"model": 64}, "settings are a ModelConfig or a dict, .*, got 64"),
    ],
)
def test_mistakes_in_settings(options, message):
    with pytest.raises(InputError, match=message):
        quick(get("linear"), **options)
