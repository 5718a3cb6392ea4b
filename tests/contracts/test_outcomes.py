"""What every kind of outcome promises. A new kind is tested by being in `outcome_kinds.KINDS`."""

import csv
import io
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from outcome_kinds import KINDS, Kind
from small import SIZES, seeded
from starlette.testclient import TestClient
from torch import Tensor

import aline
from aline.app.demo import run_demo
from aline.app.plots import plates
from aline.app.report import render
from aline.app.screen import TrialTable
from aline.app.service.app import create_app
from aline.app.service.exports import export
from aline.app.service.settings import Settings
from aline.app.subject import Subject
from aline.errors import InputError, UserError
from aline.experiment import Experiment, open_storage
from aline.model import Model, ModelConfig, fresh
from aline.psychopy import AlineHandler
from aline.spaces import Belief, Outcome, Outcomes, Real, outcome_from_json
from aline.tasks import is_differentiable
from aline.training.config import TrainingConfig

EVERY = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
TARGETS = (2, 3)
MANY = 40_000
READ = pytest.mark.parametrize("read", [0, 6])


@cache
def fitted(kind: Kind) -> Outcome:
    outcome: Outcome = kind.task().fitted().spec.outcome
    return outcome


def belief_of(outcome: Outcome, seed: int = 0, read: int = 0, away: float = 0.3) -> Belief:
    """What a head near its start says of some targets."""
    start = outcome.head_start(3, read)
    numbers = start + away * torch.randn(*TARGETS, len(start), generator=seeded(seed))
    return outcome.belief(numbers, 0.3 * torch.randn(*TARGETS, read, generator=seeded(seed + 1)))


@cache
def model_of(kind: Kind) -> Model:
    """An untrained model, which says something different for every context."""
    network = fresh(kind.task().fitted().spec, ModelConfig(**SIZES), seeded(0))
    return Model(network.eval().requires_grad_(False))


# The outcome itself.


@EVERY
def test_json_round_trip(kind: Kind) -> None:
    for outcome in (kind.outcome, fitted(kind)):
        again = outcome_from_json(json.loads(json.dumps(outcome.to_json())))
        assert again == outcome
        assert again.to_json()["kind"] == outcome.kind
        assert outcome.signature() == kind.outcome.signature()


@EVERY
def test_what_a_person_gives_is_read_as_plain_data(kind: Kind) -> None:
    for value in kind.good:
        plain = kind.outcome.read(value)
        assert kind.outcome.read(json.loads(json.dumps(plain))) == plain
        assert kind.outcome.text(plain)
    assert kind.outcome.read_all(list(kind.good)) == [kind.outcome.read(v) for v in kind.good]


@EVERY
def test_wrong_values_are_refused_in_one_line(kind: Kind) -> None:
    for value in kind.bad:
        with pytest.raises(InputError, match="must") as error:
            kind.outcome.read(value)
        assert "\n" not in str(error.value)


@EVERY
def test_scales_and_plain_data_round_trip(kind: Kind) -> None:
    outcome = fitted(kind)
    plain = [outcome.read(value) for value in kind.good]
    y = outcome.to_network(outcome.from_plain(plain))
    assert y.shape == (len(plain), *outcome.event_shape)
    for given, back in zip(plain, outcome.to_plain(outcome.to_user(y)), strict=True):
        assert (
            back == pytest.approx(given) if not isinstance(given, dict) else set(back) == set(given)
        )
    again = outcome.to_network(outcome.to_user(y))
    torch.testing.assert_close(again.double(), y.double(), atol=1e-5, rtol=1e-5)


@EVERY
def test_the_network_sees_as_many_numbers_as_declared(kind: Kind) -> None:
    outcome = fitted(kind)
    draws = belief_of(outcome).sample(50, seeded(0))
    seen = outcome.encode(draws)
    assert seen.shape == (50, *TARGETS, outcome.width)
    assert seen.dtype == torch.float32
    assert seen.isfinite().all()
    assert outcome.encode(torch.zeros(4, 0, *outcome.event_shape)).shape == (4, 0, outcome.width)
    every = outcome.enumerate()
    if every is not None:
        assert len(outcome.encode(every).unique(dim=0)) == len(every)


@EVERY
def test_words_form_and_columns_are_plain(kind: Kind) -> None:
    outcome = fitted(kind)
    form = json.loads(json.dumps(outcome.form()))
    assert form["kind"] == outcome.kind
    for field in form.get("fields", [form]):
        for choice in field.get("choices", []):
            part = outcome.parts[field.get("name", "outcome")]
            assert part.read(choice["value"]) is not None
            assert part.text(part.read(choice["value"])) == choice["label"]
    keys = [c["key"] for f in form.get("fields", [form]) for c in f.get("choices", []) if c["key"]]
    assert len(set(keys)) == len(keys)
    assert outcome.words()
    plain = outcome.read(kind.good[0])
    assert len(outcome.cells(plain)) == len(outcome.columns())
    assert len(outcome.labels) in (0, len(outcome.enumerate() if outcome.labels else ()))  # type: ignore[arg-type]


# Beliefs.


@EVERY
@READ
def test_shapes_of_a_belief(kind: Kind, read: int) -> None:
    outcome = fitted(kind)
    belief = belief_of(outcome, read=read)
    draws = belief.sample(7, seeded(0))
    assert belief.shape == TARGETS
    assert draws.shape == (7, *TARGETS, *outcome.event_shape)
    assert belief.log_prob(draws).shape == (7, *TARGETS)
    assert belief.log_prob(draws).isfinite().all()
    assert belief.expected().shape == (*TARGETS, *outcome.event_shape)
    assert belief.uncertainty().shape == TARGETS
    values, weights = belief.outcomes()
    assert values.shape == (*weights.shape, *outcome.event_shape)
    assert torch.allclose(weights.sum(-1), torch.ones(TARGETS), atol=1e-5)


@EVERY
@READ
def test_draws_agree_with_a_density_that_sums_to_one(kind: Kind, read: int) -> None:
    """The mean of p'(x) / p(x) over draws x of p is the total of any p' that sums to one."""
    outcome = fitted(kind)
    one, other = (belief_of(outcome, seed, read, away=0.15) for seed in (0, 5))
    draws = one.sample(MANY, seeded(1))
    ratio = (other.log_prob(draws) - one.log_prob(draws)).double().exp()
    error = ratio.std(0) / MANY**0.5
    assert bool(((ratio.mean(0) - 1).abs() < 4.5 * error + 1e-6).all())


@EVERY
def test_probabilities_of_finitely_many_sum_to_one(kind: Kind) -> None:
    outcome = fitted(kind)
    every, belief = outcome.enumerate(), belief_of(outcome, away=1.0)
    if every is None:
        assert belief.log_prob(belief.expected()).isfinite().all()
        return
    total = torch.stack([belief.log_prob(y.expand(*TARGETS, *y.shape)) for y in every])
    assert torch.allclose(total.exp().sum(0), torch.ones(TARGETS), atol=1e-5)
    assert belief.log_prob(belief.expected()).exp().min() >= total.exp().amax(0).min() - 0.5


@EVERY
def test_quantiles_and_moments_are_those_of_draws(kind: Kind) -> None:
    outcome = fitted(kind)
    for name, part in outcome.parts.items():
        belief = belief_of(outcome)
        draws = outcome.split(belief.sample(MANY, seeded(2)))[name].double()
        own = belief.part(name) if isinstance(outcome, Outcomes) else belief  # type: ignore[attr-defined]
        assert own.shape == TARGETS
        if not part.has_mean:
            share = torch.stack([(draws == place).double().mean(0) for place in range(3)], -1)
            assert torch.allclose(own.outcomes()[1].double(), share, atol=0.015)
            continue
        mean, std = (found.double() for found in own.moments())
        if part.saturated() is None if hasattr(part, "saturated") else True:
            assert bool(((draws.mean(0) - mean).abs() < 5 * std / MANY**0.5 + 1e-4).all())
        for p in (0.05, 0.5, 0.9):
            edge = own.quantile(p).double()
            slack = 4.5 * math.sqrt(p * (1 - p) / MANY)
            assert bool(((draws <= edge + 1e-6).double().mean(0) >= p - slack).all())
            assert bool(((draws < edge - 1e-6).double().mean(0) <= p + slack).all())


@EVERY
def test_a_belief_is_restored_from_its_tensors(kind: Kind) -> None:
    outcome = fitted(kind)
    belief = belief_of(outcome, read=6)
    tensors = belief.tensors()
    assert all(tensor.shape[:2] == TARGETS for tensor in tensors.values())
    again, draws = outcome.restore(tensors), belief.sample(20, seeded(0))
    assert type(again) is type(belief)
    assert torch.equal(again.log_prob(draws), belief.log_prob(draws))


@EVERY
def test_some_targets_and_one_more_axis(kind: Kind) -> None:
    belief = belief_of(fitted(kind))
    draws = belief.sample(4, seeded(0))
    every = belief.log_prob(draws)
    torch.testing.assert_close(belief[1, 2].log_prob(draws[:, 1, 2]), every[:, 1, 2])
    torch.testing.assert_close(belief[:1].log_prob(draws[:, :1]), every[:, :1])
    apart = belief.unsqueeze(2).log_prob(draws.movedim(0, 2))
    torch.testing.assert_close(apart, every.movedim(0, 2))
    wide = belief.double()
    torch.testing.assert_close(wide.log_prob(draws.double()).float(), every, atol=1e-3, rtol=1e-3)


@EVERY
def test_gradients_are_finite_far_from_the_start(kind: Kind) -> None:
    outcome = fitted(kind)
    start = outcome.head_start(3, 2)
    numbers = (start + 8 * torch.randn(200, len(start), generator=seeded(3))).requires_grad_()
    draws = belief_of(outcome).sample(200, seeded(4))[:, 0, 0]
    belief = outcome.belief(numbers, torch.randn(200, 2, generator=seeded(5)))
    (gradient,) = torch.autograd.grad(belief.log_prob(draws).sum(), numbers)
    assert gradient.isfinite().all()


# Simulators.


@EVERY
def test_simulators_may_return_arrays(kind: Kind) -> None:
    def as_arrays(theta: Any, design: Any, generator: torch.Generator) -> Any:
        given = kind.simulate(theta, design, generator)
        if isinstance(given, dict):
            return {name: np.asarray(value) for name, value in given.items()}
        return np.asarray(given)

    task, other = kind.task().fitted(), kind.task(simulate=as_arrays).fitted()
    designs = task.spec.design.sample(4, 6, seeded(0))
    y, same = (one.draw(4, seeded(1)).answer(designs, seeded(2)) for one in (task, other))
    assert y.shape == (4, 6, *kind.outcome.event_shape)
    assert y.dtype == torch.float32
    torch.testing.assert_close(same, y)


@EVERY
def test_the_likelihood_is_the_simulators(kind: Kind) -> None:
    """Every outcome as often as claimed, where they are few."""
    task = kind.task().fitted()
    every = task.spec.outcome.enumerate()
    if every is None or kind.log_likelihood is None:
        return
    world = task.draw(5, seeded(0))
    designs = task.spec.design.sample(5, 1, seeded(1)).expand(5, 4000, -1)
    outcomes = world.answer(designs, seeded(2))
    values, weights = world.branches(designs[:, :1], seeded(3))
    assert torch.allclose(weights.sum(-1), torch.ones(5, 1), atol=1e-4)
    for place, value in enumerate(every):
        share = (outcomes == value).float().mean(1)
        claimed = weights[:, 0, place] if len(every) <= 8 else share
        assert bool(((share - claimed).abs() < 0.04).all())
    assert values.shape[:2] == (5, 1)


WRONG: dict[str, tuple[str, Any, str]] = {
    "probabilities": ("binary", lambda t, d, g: 0.3 + 0 * d["x"], "must be 0 or 1, got 0.3: draw"),
    "a label that is not there": ("categorical", lambda t, d, g: 3 + 0 * d["x"], "from 0 to 2"),
    "a level 0": ("ordinal", lambda t, d, g: 0 * d["x"], "1, 2, 3, 4, 5, got 0: levels count"),
    "rates": ("count", lambda t, d, g: 2.5 + 0 * d["x"], "whole number.*got 2.5: draw counts"),
    "too many": ("few", lambda t, d, g: 9 + 0 * d["x"], "at most the maximum, 6, got 9: use clamp"),
    "beyond a limit": ("censored", lambda t, d, g: 5 + 0 * d["x"], r"\[-1, 2\], got 5: what is"),
    "no dict": ("choice and time", lambda t, d, g: d["x"], "must be a dict with choice, rt"),
    "a missing name": ("choice and time", lambda t, d, g: {"choice": d["x"] > 0}, "rt missing"),
    "a wrong part": (
        "choice and time",
        lambda t, d, g: {"choice": d["x"], "rt": d["x"]},
        "what simulate returns as choice must be 0 or 1",
    ),
    "not a number": ("count", lambda t, d, g: d["x"] / 0 * 0, "NaN or infinite"),
    "words": ("real", lambda t, d, g: "high", "tensor or an array of outcomes, got 'high'"),
    "another shape": ("ordinal", lambda t, d, g: t["slope"], "the designs' shape"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_simulator_is_caught_at_once(wrong: tuple[str, Any, str]) -> None:
    name, simulate, message = wrong
    task = KINDS[name].task(simulate=simulate)
    with pytest.raises(InputError, match=message) as error:
        aline.train(task, rounds=1, progress=False)
    assert "\n" not in str(error.value)


@EVERY
def test_training_takes_a_step(kind: Kind) -> None:
    sizes = ModelConfig(**{**SIZES, "zoom_layers": 1})
    for policy in ("pool", "box"):
        config = ModelConfig(**{**sizes.to_json(), "policy": policy})
        settings = TrainingConfig(batch=8, warmup=0.0)
        model = aline.train(kind.task(), rounds=1, progress=False, model=config, config=settings)
        assert all(p.isfinite().all() for p in model.network.parameters())


def test_several_numbers_carry_a_gradient_to_the_design() -> None:
    def simulate(theta: Any, design: Any, generator: torch.Generator) -> Any:
        x = theta["slope"] * (design["x"] - theta["shift"])
        noise = 0.1 * torch.randn(2, *x.shape, generator=generator)
        return {"a": x + noise[0], "b": x.square() + noise[1]}

    both = Outcomes(a=Real(), b=Real())
    task = KINDS["real"].task(outcome=both, simulate=simulate, log_likelihood=None)
    assert is_differentiable(task)
    model = aline.train(task, rounds=2, progress=False, config=TrainingConfig(batch=8))
    assert model.network.config.policy == "box"


def test_a_simulator_in_numpy_is_trained_without_a_gradient() -> None:
    def simulate(theta: Any, design: Any, generator: torch.Generator) -> Any:
        x = theta["slope"].numpy() * (design["x"].numpy() - theta["shift"].numpy())
        return x + 0.1 * torch.randn(x.shape, generator=generator).numpy()

    task = KINDS["real"].task(simulate=simulate, log_likelihood=None)
    assert not is_differentiable(task)
    model = aline.train(task, rounds=2, progress=False, config=TrainingConfig(batch=8))
    assert model.network.config.policy == "pool"


# Experiments.


@EVERY
def test_a_stored_experiment_is_resumed_as_it_was(kind: Kind, tmp_path: Path) -> None:
    model, url = model_of(kind), f"sqlite:///{tmp_path}/lab.db"
    experiment = Experiment(model, storage=url, name="a", horizon=8)
    plain = [kind.outcome.read(value) for value in kind.good]
    for value in kind.good:
        experiment.tell(experiment.ask(), value)
    experiment.attach({"x": [0.5] * len(plain)}, list(kind.good))
    experiment.ask()  # is open while the next one is chosen
    experiment.abandon(experiment.ask())
    experiment.undo()
    again = Experiment.resume(url, "a", model)
    assert again.trials == experiment.trials
    told = [trial.outcome for trial in again.trials if trial.state == "told"]
    assert told == [*plain[:-1], *plain]
    assert again.posterior().mean == experiment.posterior().mean
    assert again._state.choice == experiment._state.choice


@EVERY
def test_what_is_refused_is_not_stored(kind: Kind, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lab.db"
    experiment = Experiment(model_of(kind), storage=url)
    trial = experiment.ask()
    before = experiment.posterior().mean
    for value in kind.bad:
        with pytest.raises(InputError):
            experiment.tell(trial, value)
        with pytest.raises(InputError):
            experiment.attach({"x": [0.0]}, [value])
    assert experiment.sequence == 2
    assert len(open_storage(url).read(experiment.name)) == 2
    assert experiment.posterior().mean == before
    assert experiment.trials[0].state == "asked"


@EVERY
def test_predictions_come_in_the_users_units(kind: Kind) -> None:
    experiment = Experiment(model_of(kind))
    experiment.tell(experiment.ask(), kind.good[0])
    predictive = experiment.predict({"x": [-1.0, 0.0, 2.0]})
    outcome = experiment.spec.outcome
    json.dumps(predictive.summary(0.9))
    assert set(predictive.parts) == set(outcome.parts)
    assert predictive.log_prob(outcome.read(kind.good[0])).shape == (3,)
    drawn = predictive.sample((5,))
    for name, part in predictive.parts.items():
        own: Tensor = drawn[name] if isinstance(drawn, dict) else drawn
        assert own.shape == (5, 3)
        outcome.parts[name].check(own, "a draw")
        assert all(curve.shape == (3,) for curve in part.curves.values())
        if outcome.parts[name].has_mean:
            low, high = part.interval(0.99)
            assert bool((low <= high).all())
            assert part.mean.isfinite().all()
            assert bool((part.std >= 0).all())
        else:
            with pytest.raises(InputError, match="use probabilities"):
                _ = part.mean
        if outcome.parts[name].labels:
            total = torch.stack(list(part.probabilities.values())).sum(0)
            assert torch.allclose(total, torch.ones(3), atol=1e-5)
        assert repr(part)


@EVERY
def test_files_hold_every_outcome(kind: Kind) -> None:
    storage = open_storage("memory://")
    experiment = Experiment(model_of(kind), storage=storage)
    for value in kind.good:
        experiment.tell(experiment.ask(), value)
    plain = [kind.outcome.read(value) for value in kind.good]
    events = storage.read(experiment.name)
    rows = list(csv.DictReader(io.StringIO(export(experiment, events, None, "csv").decode())))
    for row, value in zip(rows, plain, strict=True):
        assert [row[column] for column in kind.outcome.columns()] == kind.outcome.cells(value)
    kept = json.loads(export(experiment, events, None, "json"))
    assert [trial["outcome"] for trial in kept["experiment"]["trials"]] == plain
    assert export(experiment, events, None, "netcdf")


# The edges.


@EVERY
def test_the_service_asks_for_it_and_takes_it(kind: Kind, tmp_path: Path) -> None:
    folder = model_of(kind).save(tmp_path / "own")
    app = create_app(Settings(models=(str(folder),)), open_storage("memory://"))
    with TestClient(app, "http://localhost") as client:
        models = {one["name"]: one for one in client.get("/api/v1/models").json()["models"]}
        assert models["own"]["form"] == json.loads(json.dumps(kind.outcome.form()))
        path = "/api/v1/experiments/a"
        client.post("/api/v1/experiments", json={"model": "own", "name": "a"})
        client.post(f"{path}/ask")
        page = client.get("/experiments/a").text
        for field in models["own"]["form"].get("fields", [models["own"]["form"]]):
            for choice in field.get("choices", []):
                assert f">{choice['label']}" in page.replace("> ", ">") or choice["label"] in (
                    "yes",
                    "no",
                )
            assert field.get("name", "") in page
        for value in kind.bad:
            if isinstance(value, float) and not math.isfinite(value):
                continue  # no JSON
            reply = client.post(f"{path}/trials/0/tell", json={"outcome": value})
            assert reply.status_code == 422, reply.text
        told = client.post(f"{path}/trials/0/tell", json={"outcome": kind.good[0]})
        assert told.json()["outcome"] == kind.outcome.read(kind.good[0])
        predicted = client.post(f"{path}/predict", json={"designs": {"x": [0.0, 1.0]}})
        assert predicted.status_code == 200
        assert client.get(f"{path}/drawing").status_code == 200
        assert client.get("/experiments/a").status_code == 200


@EVERY
def test_a_demonstration_runs_and_is_drawn(kind: Kind) -> None:
    demo = run_demo(Subject(model_of(kind), kind.task().fitted(), "own"), trials=3)
    has_pairs = demo.subject.model.network.conditional is not None
    assert len(plates(demo)) == 4 + has_pairs
    assert "</html>" in render(demo, "aline demo own")
    table = TrialTable(demo.spec, demo.target, 100)
    assert all(len(table.line(step)) <= 110 for step in demo.steps)
    json.dumps(demo.to_json())


@EVERY
def test_psychopy_takes_a_yes_or_a_no_only(kind: Kind) -> None:
    model = model_of(kind)
    if kind.outcome.kind == "binary":
        assert AlineHandler(model).nTrials == 5
        return
    with pytest.raises(UserError, match="takes a yes or a no, and this model's trials give"):
        AlineHandler(model)
