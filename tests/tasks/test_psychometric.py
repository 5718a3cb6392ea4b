import pytest
import torch

from aline.tasks import get
from aline.tasks.psychometric import response_probability


def test_probability_is_the_papers() -> None:
    theta = {
        name: torch.tensor([[value]])
        for name, value in {"threshold": 0.5, "slope": 0.8, "guess": 0.3, "lapse": 0.1}.items()
    }
    probability = response_probability(theta, {"stimulus": torch.tensor([[-5.0, 0.5, 5.0]])})
    at_threshold = 0.03 + 0.9 * (1 - torch.tensor(-1.0).exp().item())
    assert probability[0].tolist() == pytest.approx([0.03, at_threshold, 0.93], abs=1e-5)


def test_far_from_threshold_nothing_overflows() -> None:
    task = get("psychometric")
    theta = task.spec.parameters.to_network(
        {"threshold": -3.0, "slope": 0.1, "guess": 0.1, "lapse": 0.0}
    )[None]
    log_prob = task.log_prob(theta, torch.tensor([[[1.0], [-1.0]]]), torch.tensor([[-1.0, 1.0]]))
    assert log_prob.isfinite().all()
    assert bool((log_prob < -10).all())
