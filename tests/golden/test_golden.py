"""Every shipped model says what it said before the network was rewritten."""

import importlib.util
from pathlib import Path

import pytest
import torch

import aline
from aline.spaces.outcomes import Mixture

_SPEC = importlib.util.spec_from_file_location("golden", Path(__file__).with_name("make.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
golden = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(golden)


EXACT = [name for name in golden.MODELS if aline.load(name).network.policy is not None]
PLUGGED_IN = [name for name in golden.MODELS if name not in EXACT]


@pytest.mark.parametrize("name", EXACT)
def test_outputs_are_the_frozen_ones(name: str) -> None:
    model = aline.load(name)
    inputs, expected = golden.read(name)
    for length, given in inputs.items():
        found = golden.outputs(model, given)
        for key, value in expected[length].items():
            scale = value.abs().clamp_min(1.0)
            error = float(((found[key] - value) / scale).abs().max())
            assert error < 1e-4, f"{name} after {length} observations: {key} is off by {error:.1e}"


@pytest.mark.parametrize("name", PLUGGED_IN)
def test_beliefs_about_functions_are_the_frozen_ones(name: str) -> None:
    """In nats: kernel matrices in single precision round in the order of their operations.

    Scores are not compared: the plug-in chooses now (results/functions.json).
    """
    model = aline.load(name)
    inputs, expected = golden.read(name)
    for length, given in inputs.items():
        found = golden.outputs(model, given)
        for part in ("posterior", "predictive"):
            old, new = (belief(part, tensors) for tensors in (expected[length], found))
            draws = old.sample(2000, torch.Generator().manual_seed(length))
            divergence = (old.log_prob(draws) - new.log_prob(draws)).mean(0)
            assert float(divergence.max()) < 0.02, f"{name}, {part} after {length} observations"


def belief(part: str, tensors: dict[str, torch.Tensor]) -> Mixture:
    return Mixture(*(tensors[f"{part}.{name}"] for name in ("log_weight", "mean", "std")))
