import math

import pytest
import torch
from small import seeded

from aline.tasks import get


def test_intensity_is_the_papers() -> None:
    task = get("location")
    world = task.world({"source_x": 0.2, "source_y": 0.4})
    x = task.spec.design.read({"x": [0.5] * 500, "y": [0.8] * 500})[None]
    outcomes = task.spec.outcome.to_user(world.answer(x, seeded(0)))
    expected = math.log(0.1 + 1 / (1e-4 + 0.3**2 + 0.4**2))
    assert float(outcomes.mean()) == pytest.approx(expected, abs=4 * 0.5 / math.sqrt(500))
    assert float(outcomes.std()) == pytest.approx(0.5, rel=0.15)


def test_any_number_of_sources_and_dimensions() -> None:
    task = get("location", sources=3, dimensions=3)
    assert task.spec.parameters.names[:4] == ("source1_x", "source1_y", "source1_z", "source2_x")
    assert task.spec.design.names == ("x", "y", "z")
    assert task.draw(2, seeded(0)).answer(torch.zeros(2, 4, 3), seeded(1)).shape == (2, 4)
