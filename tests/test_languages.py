"""The numbers of docs/languages.md are those of the shipped graph."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aline
from aline import zoo

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from aline.engine.runners import GRAPH, OnnxRunner

PAGE = (Path(__file__).parents[1] / "docs" / "languages.md").read_text(encoding="utf-8")
EXAMPLE: dict[str, Any] = json.loads(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0])
FLAGS = ("mask", "points_mask", "parameters")
STIMULI = [-2, -1, 0, 1, 2]


@pytest.fixture(scope="module")
def runner() -> OnnxRunner:
    return OnnxRunner(Path(zoo.__file__).parent / "psychometric" / GRAPH)


def test_the_graph_gives_these_outputs(runner: OnnxRunner) -> None:
    kinds = {name: bool if name in FLAGS else np.float32 for name in EXAMPLE["inputs"]}
    given = {name: np.array(value, kinds[name]) for name, value in EXAMPLE["inputs"].items()}
    found = runner.run(given)
    for name, expected in EXAMPLE["outputs"].items():
        output, *parameter = name.split(", ")
        got = found[output][0, 0] if parameter else found[output]
        assert got == pytest.approx(np.array(expected), abs=1e-3), name
    best = STIMULI[int(found["scores"].argmax())]
    assert best == EXAMPLE["means"]["next stimulus"]


def test_the_mean_is_that_of_an_experiment() -> None:
    experiment = aline.Experiment(aline.load("psychometric"))
    experiment.attach({"stimulus": [-1.0, 2.0, 0.5]}, [0, 1, 1])
    mean = experiment.posterior().mean["threshold"]
    assert EXAMPLE["means"]["mean of the threshold"] == pytest.approx(mean, abs=1e-3)


@pytest.mark.parametrize("language", ["cpp", "julia", "csharp"])
def test_every_program_fills_every_input(language: str, runner: OnnxRunner) -> None:
    (program,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert all(f'"{name}"' in program for name in runner.inputs)
