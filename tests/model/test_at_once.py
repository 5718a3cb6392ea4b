"""Many observations taken in at once are what they are one by one."""

import pytest
import torch
from small import SIZES, random_context, seeded, small_network

from aline.model import ModelConfig, fresh
from aline.model.at_once import first_views
from aline.model.running import begin
from aline.tasks import get


@pytest.mark.parametrize("context", ["independent", "full"])
@pytest.mark.parametrize(("task", "looks"), [("psychometric", 0), ("location", 2)])
@torch.inference_mode()
def test_every_view_is_that_of_one_by_one(context: str, task: str, looks: int) -> None:
    network = small_network(task, context=context, looks=looks)  # type: ignore[arg-type]
    data = random_context(network.spec, 1, 12)
    first = first_views(network, data)
    assert first is not None
    view, points = begin(network), network.spec.design.sample(1, 5, torch.Generator())[:, None]
    for count in range(12):
        at_once = first(count)
        assert at_once.context.length == count
        for a, b in (
            (at_once.posterior(), view.posterior()),
            (at_once.predictive(points), view.predictive(points)),
        ):
            parts = zip(vars(a).values(), vars(b).values(), strict=True)
            assert all(torch.allclose(x, y, atol=1e-5) for x, y in parts)
        view = view.extend(data.designs[:, count], data.outcomes[:, count])
    # And it grows like any other.
    grown = first(11).extend(data.designs[:, 11], data.outcomes[:, 11])
    assert torch.allclose(grown.posterior().mean, view.posterior().mean, atol=1e-5)


def test_functions_are_taken_in_one_by_one() -> None:
    """What their kernels make of the data is built up from one observation to the next."""
    task = get("gp1d", horizon=3)
    network = fresh(task.spec, ModelConfig(**{**SIZES, "kernels": 3}), seeded(0))
    assert first_views(network, random_context(network.spec, 1, 3)) is None
