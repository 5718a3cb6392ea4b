"""Numbers on their way to tokens."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri
from small import largest_difference, seeded, simulated_context

from aline.model import initial_weights
from aline.model.tokens import INSIDE, Added, DesignEmbedder, RawNumbers, probit_by_ratios
from aline.spaces import Box
from aline.tasks import get


@given(p=st.floats(*INSIDE))
def test_the_normal_quantile(p: float) -> None:
    found = float(probit_by_ratios(torch.tensor(p, dtype=torch.float64)))
    assert abs(found - float(ndtri(p))) < 1e-6


def test_the_normal_quantile_everywhere_inside() -> None:
    p = torch.linspace(*INSIDE, 100_001, dtype=torch.float64)
    assert largest_difference(probit_by_ratios(p), torch.from_numpy(ndtri(p.numpy()))) < 1e-6
    assert bool((probit_by_ratios(p).diff() > 0).all())
    assert largest_difference(probit_by_ratios(p.float()), probit_by_ratios(p)) < 1e-4
    assert float(probit_by_ratios(torch.tensor(0.5))) == 0.0


def test_the_normal_quantile_passes_gradients() -> None:
    """On both sides of where one approximation follows the other, and at neither without number."""
    p = torch.tensor([0.003, 0.07, 0.075, 0.3, 0.5, 0.9249, 0.9251, 0.997], dtype=torch.float64)
    p.requires_grad_()
    (slope,) = torch.autograd.grad(probit_by_ratios(p).sum(), p)
    density = torch.distributions.Normal(0.0, 1.0).log_prob(
        torch.from_numpy(ndtri(p.detach().numpy()))
    )
    assert largest_difference(slope * density.exp(), torch.ones(8)) < 1e-4


def test_raw_observations_are_designs_as_quantiles_and_outcomes_as_they_are() -> None:
    task = get("location").fitted()
    context = simulated_context(task, 2, 5)
    raw = RawNumbers(task.spec.outcome, len(task.spec.design), 0, 8)(context)
    expected = torch.special.ndtri((0.5 + 0.5 * context.designs).clamp(*INSIDE))
    assert largest_difference(raw[..., :2], expected) < 1e-4
    assert torch.equal(raw[..., 2:], task.spec.outcome.encode(context.outcomes))


def test_nothing_is_added_where_nobody_speaks() -> None:
    added, tokens = Added(0, 8, 4), torch.randn(2, 3, 4, generator=seeded(0))
    assert added(tokens, torch.zeros(2, 3, 0)) is tokens
    assert not list(added.parameters())


def test_features_are_added() -> None:
    with initial_weights(0):
        added = Added(5, 8, 4).requires_grad_(False)
    tokens = torch.randn(2, 1, 3, 4, generator=seeded(0))
    features = torch.randn(2, 1, 3, 5, generator=seeded(1))
    found = added(tokens, features)
    assert largest_difference(found, tokens) > 1e-2
    assert torch.equal(found, tokens + added.mlp(features))


def test_further_inputs_join_before_the_nonlinearity() -> None:
    with initial_weights(0):
        embedder = DesignEmbedder(Box(x=(0.0, 1.0)), 2, 8, 4).requires_grad_(False)
    x = torch.linspace(-1, 1, 3)[:, None]
    assert torch.equal(embedder(x), embedder(x, torch.zeros(8)))
    assert largest_difference(embedder(x), embedder(x, torch.ones(8))) > 1e-2
