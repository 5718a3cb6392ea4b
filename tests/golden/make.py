"""What shipped models say of fifty contexts, frozen: `python tests/golden/make.py [NAME ...]`.

The contexts are kept in the files beside what the model made of them, so that a change of any
random stream does not matter. Make them anew only for weights that were measured to be better.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import aline
from aline.episodes import Context, Goal
from aline.model import Model
from aline.tasks import simulator_of

HERE = Path(__file__).parent
MODELS = ("psychometric", "location", "ces", "gp1d", "gp2d")
SHARES = (0.0, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.0, 1.3)  # of the horizon
EPISODES, POINTS, CANDIDATES = 5, 4, 80

Tensors = dict[str, Tensor]


def lengths(model: Model) -> list[int]:
    """How many observations the contexts have: none, and up to beyond the horizon."""
    return sorted({round(share * model.spec.horizon + 0.4) for share in SHARES} | {0})


def make_inputs(model: Model, length: int) -> Tensors:
    """Episodes of random designs, with points, candidates and a goal of some parameters."""
    spec, generator = model.spec, torch.Generator().manual_seed(length)
    task = simulator_of(spec)
    assert task is not None
    designs = spec.design.sample(EPISODES, length, generator)
    outcomes = task.draw(EPISODES, generator).answer(designs, generator)
    wanted = torch.rand(EPISODES, len(spec.parameters), generator=generator) < 0.5
    wanted[:, 0] = True
    return {
        "designs": designs,
        "outcomes": outcomes,
        "points": spec.design.sample(EPISODES, POINTS, generator),
        "candidates": spec.design.sample(EPISODES, CANDIDATES, generator),
        "wanted": wanted,
    }


@torch.no_grad()
def outputs(model: Model, given: Tensors) -> Tensors:
    """Posterior, predictions, and scores or a proposal, by the plain network."""
    network = model.network
    encoded = network.encode(Context(given["designs"], given["outcomes"]))
    summary = network.summary(encoded)
    guesses, predictive = network.beliefs(encoded, given["points"])
    posterior = guesses[-1].marginals
    found = {f"posterior.{n}": getattr(posterior, n)[:, 0] for n in ("log_weight", "mean", "std")}
    for name in ("log_weight", "mean", "std", "logit"):
        if hasattr(predictive, name):
            found[f"predictive.{name}"] = getattr(predictive, name)[:, 0]
    for name, goal in goals(given).items():
        if network.is_box:
            at = network.propose(encoded, summary, goal)
            found |= {f"{name}.mean": at.mean[:, 0], f"{name}.log_std": at.log_std[:, 0]}
        elif network.policy is not None:
            scores = network.scores(encoded, summary, goal, given["candidates"])
            found[f"{name}.scores"] = scores[:, 0]
    return {key: value.contiguous() for key, value in found.items()}


def goals(given: Tensors) -> dict[str, Goal]:
    """Of parameters, of predictions, and of both."""
    wanted, points = given["wanted"], given["points"]
    none = torch.zeros_like(wanted)
    every = torch.ones(points.shape[:2], dtype=torch.bool)
    return {
        "parameters": Goal(wanted, points[:, :0], every[:, :0]),
        "predictions": Goal(none, points, every),
        "both": Goal(wanted, points, every),
    }


def read(name: str) -> tuple[dict[int, Tensors], dict[int, Tensors]]:
    """The frozen contexts and what was made of them, by length."""
    inputs: dict[int, Tensors] = {}
    expected: dict[int, Tensors] = {}
    for key, value in load_file(HERE / f"{name}.safetensors").items():
        length, part, rest = key.split("/")
        (inputs if part == "in" else expected).setdefault(int(length), {})[rest] = value
    return inputs, expected


def main(names: list[str]) -> None:
    """Freeze some models' outputs, or all."""
    for name in names or MODELS:
        model, kept = aline.load(name), {}
        for length in lengths(model):
            given = make_inputs(model, length)
            kept |= {f"{length}/in/{key}": value for key, value in given.items()}
            kept |= {f"{length}/out/{key}": value for key, value in outputs(model, given).items()}
        save_file(kept, HERE / f"{name}.safetensors")
        print(name, len(kept), "tensors")


if __name__ == "__main__":
    main(sys.argv[1:])
