"""An experiment in JavaScript is the same as in Python: trials, posteriors, predictions."""

import json
from pathlib import Path
from typing import Any

import pytest
from torch import distributions
from torch.distributions import Distribution
from web import node
from web.models import Folders, model_named

import aline
from aline.episodes.goals import in_turn, predictions
from aline.experiment.journals import replay
from aline.experiment.origin import find_model
from aline.experiment.posterior import Posterior
from aline.experiment.state import State, posterior_of
from aline.spaces import Box

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

ROOT = Path(__file__).parents[2]
TOLERANCE = 1e-4

SCENES: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "scenes.json").read_text())


def steps_of(scene: dict[str, Any]) -> list[list[Any]]:
    """With ["answers", first, [outcome, ...]] as so many trials, each asked, told and looked at."""
    steps: list[list[Any]] = []
    for method, *given in scene["steps"]:
        if method != "answers":
            steps.append([method, *given])
            continue
        for number, outcome in enumerate(given[1], given[0]):
            steps += [["ask"], ["tell", number, outcome], ["posterior"]]
    return steps


@pytest.fixture(scope="module")
def played(folders: Folders, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What JavaScript gave at every step of every scene."""
    scenes = [
        {"folder": str(folders(one["model"])), "settings": one["settings"], "steps": steps_of(one)}
        for one in SCENES.values()
    ]
    heard = node.run("play.mjs", scenes, tmp_path_factory.mktemp("web"))
    return dict(zip(SCENES, heard, strict=True))


@pytest.mark.parametrize("name", SCENES)
def test_every_step_is_as_in_python(name: str, played: dict[str, Any]) -> None:
    scene = SCENES[name]
    experiment = started(scene)
    for step, heard in zip(steps_of(scene), played[name]["heard"], strict=True):
        expected = done(experiment, *step)
        if expected is not None:
            compare(heard, expected, f"{name} {step}")


@pytest.mark.parametrize("name", SCENES)
def test_python_goes_on_with_its_journal(name: str, played: dict[str, Any]) -> None:
    """Events are the same: what a page measured can be replayed in Python."""
    created, *events = played[name]["state"]["journal"]
    experiment = lived(name)
    state = replay(State.start(find_model(created, name, experiment.model), created), events, name)
    replayed, live = ([vars(one) for one in each.trials] for each in (state, experiment))
    compare(replayed, live, name)


@pytest.mark.parametrize("name", SCENES)
def test_python_reads_the_file_of_a_page(name: str, played: dict[str, Any], tmp_path: Path) -> None:
    """With its model, as that is shipped: nothing else is needed to go further than a page can."""
    file, live = tmp_path / "experiment.json", lived(name)
    file.write_text(played[name]["file"])
    read = aline.Experiment.resume(str(file))
    compare([vars(one) for one in read.trials], [vars(one) for one in live.trials], name)
    one, other = network_posterior(read), network_posterior(live)
    assert dict(one.mean) == pytest.approx(dict(other.mean), abs=TOLERANCE)


@pytest.mark.parametrize("name", SCENES)
def test_quantiles_and_densities_are_those_of_python(name: str, played: dict[str, Any]) -> None:
    experiment = lived(name)
    known = network_posterior(experiment)
    for parameter, heard in played[name]["known"].items():
        values = [known[parameter].quantile(p) for p in (0.01, 0.3, 0.5, 0.9)]
        compare(heard["values"], values, f"{name} {parameter}")
        expected = known[parameter].pdf(heard["values"]).tolist()
        assert heard["density"] == pytest.approx(expected, rel=1e-3), f"{name} {parameter}"


@pytest.mark.parametrize("name", SCENES)
def test_plain_data_are_the_same_experiment(name: str, played: dict[str, Any]) -> None:
    one, again = played[name]["both"]
    assert one == again


@pytest.mark.parametrize("name", SCENES)
def test_a_page_warns_where_python_weighs_draws(name: str, played: dict[str, Any]) -> None:
    """A page has none: where a prior's shape is not the network's, it says so."""
    is_weighed = lived(name)._state.shape_correction is not None
    assert is_weighed == any("its shape beyond" in one for one in played[name]["warnings"])


def lived(name: str) -> aline.Experiment:
    """A scene in Python, to its end."""
    experiment = started(SCENES[name])
    for step in steps_of(SCENES[name]):
        done(experiment, *step)
    return experiment


def network_posterior(experiment: aline.Experiment) -> Posterior:
    """As the network has it: a page has no draws to weigh by a prior that is no normal."""
    return posterior_of(experiment._state.engine, experiment._state.data)


def started(scene: dict[str, Any]) -> aline.Experiment:
    model, settings = model_named(scene["model"]), dict(scene["settings"])
    if units := settings.pop("units", None):
        model = model.in_units(**units)
    settings["horizon"] = settings.pop("trials", None)
    target = settings.pop("target", None)
    aims = None if target is None else [target_of(one) for one in target]
    return aline.Experiment(model, aims, prior=prior_of(settings.pop("prior", None)), **settings)


def prior_of(plain: Any) -> dict[str, Distribution] | None:
    """Priors from plain data."""
    if plain is None:
        return None
    made = {name: dict(one) for name, one in plain.items()}
    return {name: getattr(distributions, one.pop("family"))(**one) for name, one in made.items()}


def target_of(plain: Any) -> Any:
    """A target from plain data."""
    if isinstance(plain, str):
        return plain
    if "in_turn" in plain:
        return in_turn(*plain["in_turn"])
    if "region" in plain:
        return predictions(region=Box(**{n: tuple(b) for n, b in plain["region"].items()}))
    return predictions(at=plain["predictions"])


def done(experiment: aline.Experiment, method: str, *given: Any) -> Any:
    """A step in Python, as plain data; None where nothing is compared."""
    if method == "posterior":
        known = network_posterior(experiment)
        return {
            n: {"mean": known[n].mean, "std": known[n].std, "interval": known[n].interval()}
            for n in known.names
        }
    if method == "predict":
        return experiment.predict(given[0]).summary(*given[1:])
    if method == "change":
        changes = given[0]
        if "target" in changes:
            experiment.target = [target_of(one) for one in changes["target"]]
        if "known" in changes:
            experiment.known = changes["known"]
        if "prior" in changes:
            experiment.set_prior(prior_of(changes["prior"]))
        return None
    if method == "restrict":
        box = given[0].get("box")
        allowed = None if box is None else Box(**{n: tuple(b) for n, b in box.items()})
        repeats = given[0].get("repeats", True)
        experiment.restrict(given[0].get("candidates", allowed), repeats=repeats)
        return None
    if method == "status":
        told = [trial for trial in experiment.trials if trial.state == "told"]
        counted = sum(trial.source == "asked" for trial in told)
        return {"told": counted, "trials": [vars(trial) for trial in experiment.trials]}
    if method == "tell":
        note = given[3] if len(given) > 3 else None
        return vars(experiment.tell(*given[:3], note=note))
    found = getattr(experiment, method)(*given)
    return [vars(one) for one in found] if isinstance(found, tuple) else vars(found)


def compare(heard: Any, expected: Any, where: str) -> None:
    """Every number within the tolerance, everything else the same."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            compare(heard[key], value, f"{where} {key}")
    elif isinstance(expected, list | tuple):
        assert len(heard) == len(expected), where
        for i, (one, other) in enumerate(zip(heard, expected, strict=True)):
            compare(one, other, f"{where} {i}")
    elif isinstance(expected, float):
        assert heard == pytest.approx(expected, abs=TOLERANCE), where
    else:
        assert heard == expected, where
