"""Goals and units that are chosen when an experiment runs, and that its journal keeps."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small import SIZES, seeded, small_functions, small_model

import aline
from aline.errors import InputError
from aline.experiment import Experiment
from aline.experiment.storage import MemoryStorage
from aline.model import Model, ModelConfig, fresh
from aline.spaces import Box, Pool
from aline.tasks import get

GP2D = small_model(get("gp2d", horizon=6))
# One with the functions plug-in, and so for outcomes in any units.
FUNCTIONS = Model(small_functions(get("gp2d", horizon=6), kernels=6))

TARGETS = [
    "lengthscale_1",
    ["lengthscale", "output_scale"],
    aline.predictions(at={"x1": [0.0, 1.0], "x2": [2.0, 3.0]}),
    aline.predictions(region=Box(x1=(0.0, 2.0))),
    aline.predictions(region=Pool(x1=[0.0, 1.0], x2=[2.0, 3.0])),
    ["lengthscale_2", aline.predictions(region=Box(x1=(0.0, 2.0), x2=(-1.0, 1.0))), "predictions"],
    aline.in_turn("lengthscale_2", [aline.predictions(region=Box(x1=(0.0, 2.0))), "output_scale"]),
]


def answer(design: dict[str, float]) -> float:
    return 3000.0 + 500.0 * design["x1"] - 20.0 * design["x2"] ** 2


@pytest.mark.parametrize("target", TARGETS, ids=range(len(TARGETS)))
def test_a_goal_survives_a_resume(target: object, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'lab.db'}"
    experiment = Experiment(GP2D, target=target, storage=url)  # type: ignore[arg-type]
    experiment.tell(experiment.ask(), 0.5)
    resumed = Experiment.resume(url, model=GP2D)
    assert torch.equal(resumed._state.goal.points, experiment._state.goal.points)
    assert torch.equal(resumed._state.goal.parameters, experiment._state.goal.parameters)
    assert resumed._state.choice == experiment._state.choice


def test_goals_switch_between_parameters_and_regions() -> None:
    experiment = Experiment(GP2D, target="lengthscale_1")
    experiment.tell(experiment.ask(), 0.1)
    before = experiment.posterior().mean
    experiment.target = ["output_scale", aline.predictions(region=Box(x2=(0.0, 1.0)))]
    x2 = GP2D.spec.design.to_user(experiment._state.goal.points[0])[:, 1]
    assert 0.0 <= float(x2.min()) < float(x2.max()) <= 1.0
    assert experiment.posterior().mean == before


def test_outcomes_in_any_units(tmp_path: Path) -> None:
    """Volts or thousands: the same designs are asked, and predictions follow."""
    found = {}
    for scale in (1.0, 1e-4):
        url = f"sqlite:///{tmp_path / f'{scale}.db'}"
        experiment = Experiment(FUNCTIONS, standardise=True, storage=url)
        # The second design does not know the scale yet.
        for x in (-3.0, 1.0, 4.0):
            experiment.attach({"x1": x, "x2": 0.0}, answer({"x1": x, "x2": 0.0}) * scale)
        asked = []
        while not experiment.finished:
            trial = experiment.ask()
            asked.append(trial.design)
            experiment.tell(trial, answer(trial.design) * scale)
        predicted = experiment.predict({"x1": [0.0, 2.0], "x2": [0.0, 0.0]})
        found[scale] = asked, predicted.mean / scale, predicted.std / scale
        resumed = Experiment.resume(url, model=FUNCTIONS).predict(
            {"x1": [0.0, 2.0], "x2": [0.0, 0.0]}
        )
        assert torch.equal(resumed.mean, predicted.mean)
        assert torch.equal(resumed.interval()[0], predicted.interval()[0])
    (asked, mean, std), (asked_too, mean_too, std_too) = found.values()
    assert asked == asked_too
    assert torch.allclose(mean, mean_too, rtol=1e-4)
    assert torch.allclose(std, std_too, rtol=1e-4)
    assert 0 < float(mean.min()) < 10000


def test_abandoned_outcomes_leave_the_scale(tmp_path: Path) -> None:
    first = Experiment(FUNCTIONS, standardise=True)
    second = Experiment(FUNCTIONS, standardise=True)
    for experiment in (first, second):
        for x in (-3.0, 1.0, 4.0):
            experiment.attach({"x1": x, "x2": 0.0}, answer({"x1": x, "x2": 0.0}))
    trial = first.ask()
    first.tell(trial, 1e9)
    first.abandon(trial)
    where = {"x1": [0.0], "x2": [1.0]}
    assert torch.equal(first.predict(where).mean, second.predict(where).mean)


def test_parameters_in_the_outcomes_units_need_the_tasks_units() -> None:
    assert Experiment(FUNCTIONS, standardise=True).target == ["predictions"]
    assert Experiment(FUNCTIONS, standardise=True, target="lengthscale_1").target == [
        "lengthscale_1"
    ]
    with pytest.raises(InputError, match="output_scale is in the outcome's units"):
        Experiment(FUNCTIONS, standardise=True, target=["output_scale"])
    experiment = Experiment(FUNCTIONS, standardise=True)
    with pytest.raises(InputError, match="output_scale is in the outcome's units"):
        experiment.target = "output_scale"
    with pytest.raises(InputError, match="real outcomes"):
        Experiment(small_model("psychometric"), standardise=True)


def test_simulators_that_are_no_functions_have_units_of_their_own() -> None:
    storage = MemoryStorage()
    with pytest.raises(InputError, match="standardise is for models of unknown functions"):
        Experiment(GP2D, standardise=True, storage=storage)  # without the plug-in
    assert storage.names() == []


def test_a_known_noise_survives_a_resume(tmp_path: Path) -> None:
    where = {"x1": [0.0, 2.0], "x2": [0.0, 3.0]}
    found = {}
    for noise in (None, 5.0, 300.0):
        url = f"sqlite:///{tmp_path / f'{noise}.db'}"
        experiment = Experiment(FUNCTIONS, standardise=True, noise=noise, storage=url)
        x = torch.linspace(-4, 4, 8).tolist()
        designs = {"x1": x, "x2": x[::2] + x[1::2]}
        rows = zip(designs["x1"], designs["x2"], strict=True)
        experiment.attach(designs, [answer({"x1": a, "x2": b}) for a, b in rows])
        experiment.tell(experiment.ask(), 2800.0)
        experiment.abandon(experiment.ask())  # reads the others anew
        resumed = Experiment.resume(url, model=FUNCTIONS)
        assert torch.equal(resumed.predict(where).std, experiment.predict(where).std)
        assert resumed._state.choice == experiment._state.choice
        found[noise] = experiment.predict(where).std
    assert not torch.allclose(found[None], found[5.0], rtol=1e-3)
    assert (found[300.0] >= 300).all()  # no outcome is known better than its noise


@pytest.mark.parametrize("noise", [-1.0, float("nan"), float("inf"), True, "0.1"])
def test_noise_that_is_no_deviation(noise: object) -> None:
    with pytest.raises(InputError, match=r"noise must be a standard deviation.*leave it out"):
        Experiment(FUNCTIONS, standardise=True, noise=noise)  # type: ignore[arg-type]


def test_in_the_tasks_units_the_noise_is_the_models() -> None:
    with pytest.raises(InputError, match="standardise=True"):
        Experiment(GP2D, noise=0.1)


@pytest.mark.parametrize(
    "name",
    ["a/b", "..", ".", "../../etc/passwd", "a\\b", "a\nb", "\x00", "\ud800", "", "x" * 201, 7],
)
def test_a_name_that_no_address_can_hold_is_refused(name: Any) -> None:
    storage = MemoryStorage()
    with pytest.raises(InputError, match=r"an experiment's name must.*got"):
        Experiment(GP2D, storage=storage, name=name)
    assert storage.names() == []


@pytest.mark.parametrize("name", ["Versuch Äpfel 7", "a..b", "...", "<b>&?#%", "x" * 200])
def test_any_other_name_is_fine(name: str) -> None:
    assert Experiment(GP2D, name=name).name == name


def test_a_task_whose_name_no_address_can_hold_needs_a_name_for_its_experiments() -> None:
    spec = replace(GP2D.spec, name="a/b")
    model = Model(fresh(spec, ModelConfig(**SIZES), seeded(0)).requires_grad_(False))
    with pytest.raises(InputError, match="got 'a/b-1'"):
        Experiment(model)
    assert Experiment(model, name="a-b").name == "a-b"
