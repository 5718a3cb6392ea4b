"""docs/format.md computes a trial from the exported file as an experiment does."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import aline
from aline.engine import engine_for
from aline.engine.graph import inputs_of
from aline.episodes import goal_of

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The names that the page's example leaves, and what it prints."""
    monkeypatch.chdir(ROOT)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    return {**names, "printed": capsys.readouterr().out.strip()}


def test_the_page_shows_what_its_example_prints(found: dict[str, Any]) -> None:
    assert f"`{found['printed']}`" in PAGE


def test_the_example_finds_what_an_experiment_finds(found: dict[str, Any]) -> None:
    model = aline.load("psychometric")
    experiment = aline.Experiment(model, target=["threshold", "slope"])
    experiment.attach({"stimulus": found["stimuli"]}, found["answers"])
    expected = experiment.posterior().mean["threshold"]
    assert found["posterior_mean"] == pytest.approx(expected, abs=1e-4)

    engine, space = engine_for(model), model.spec.design
    state = engine.begin()
    for stimulus, answer in zip(found["stimuli"], found["answers"], strict=True):
        state = engine.extend(
            state, space.read({"stimulus": stimulus}), torch.tensor([2.0 * answer - 1])
        )
    candidates = space.read({"stimulus": found["candidates"]})[None]
    scores = engine.scores(state, goal_of(model.spec, ["threshold", "slope"]), candidates)
    assert found["best"] == pytest.approx(float(found["candidates"][scores[0].argmax()]))


@pytest.mark.parametrize("name", ["psychometric", "location", "ces", "gp1d"])
def test_the_page_names_every_input(name: str) -> None:
    for each in inputs_of(aline.load(name).network):
        assert f"`{each}`" in PAGE
