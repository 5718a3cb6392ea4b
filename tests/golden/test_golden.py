"""Every shipped model says what it said before the network was rewritten."""

import importlib.util
from pathlib import Path

import pytest

import aline

_SPEC = importlib.util.spec_from_file_location("golden", Path(__file__).with_name("make.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
golden = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(golden)


@pytest.mark.parametrize("name", golden.MODELS)
def test_outputs_are_the_frozen_ones(name: str) -> None:
    model = aline.load(name)
    inputs, expected = golden.read(name)
    for length, given in inputs.items():
        found = golden.outputs(model, given)
        for key, value in expected[length].items():
            scale = value.abs().clamp_min(1.0)
            error = float(((found[key] - value) / scale).abs().max())
            assert error < 1e-4, f"{name} after {length} observations: {key} is off by {error:.1e}"
