"""Small models with initial weights: what the edge shows does not depend on how good they are."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from aline.app.demo import Demo, run_demo
from aline.app.subject import Subject, open_subject
from aline.model import Model, ModelConfig, fresh
from aline.tasks import Task, get

SMALL = ModelConfig(width=8, heads=2, layers=2, feedforward=16, components=3, policy_layers=1)

OWN_TASK = """
import torch
from torch.distributions import Uniform

import aline


def simulate(theta, design, generator):
    signal = theta["amplitude"] * torch.exp(-theta["rate"] * design["time"])
    return signal + 0.1 * torch.randn(signal.shape, generator=generator)


task = aline.Task(
    parameters={"rate": Uniform(0.1, 2.0), "amplitude": Uniform(0.5, 5.0)},
    design=aline.Box(time=(0.0, 10.0)),
    outcome=aline.Real(),
    simulate=simulate,
    horizon=4,
    units={"rate": "1/s", "time": "s"},
)


def make():
    return task


answer = 42
"""


def save_untrained(task: Task, folder: Path) -> Path:
    """A model with initial weights."""
    task = task.fitted()
    network = fresh(task.spec, SMALL, torch.Generator().manual_seed(0))
    training = {"seconds": 61.0, "episodes": 1200, "seed": 0, "machine": "x86_64, a test"}
    return Model(network.eval(), training, {"gap": 0.5}).save(folder)


@pytest.fixture(scope="session")
def save() -> Callable[[Task, Path], Path]:
    """Writes an untrained model of a task into a folder."""
    return save_untrained


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Untrained models of the built-in tasks."""
    root = tmp_path_factory.mktemp("models")
    tasks = {
        "psychometric": get("psychometric", horizon=5),
        "location": get("location", horizon=5),
        "two sources": get("location", sources=2, horizon=4),
        "linear": get("linear", horizon=4),
    }
    return {name: save_untrained(task, root / name) for name, task in tasks.items()}


@pytest.fixture(scope="session")
def subjects(folders: dict[str, Path]) -> dict[str, Subject]:
    return {name: open_subject(str(folder)) for name, folder in folders.items()}


@pytest.fixture(scope="session")
def demos(subjects: dict[str, Subject]) -> dict[str, Demo]:
    return {name: run_demo(subject, seed=3) for name, subject in subjects.items()}


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    """A user's task in a file."""
    path = tmp_path / "decay.py"
    path.write_text(OWN_TASK)
    return path
