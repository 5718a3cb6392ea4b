"""Beliefs about discrete parameters: of a mixture only the mass in each cell counts."""

import pytest
import torch
from small import seeded

from aline.spaces import Categorical, Parameters
from aline.spaces.outcomes.cut import CutMixture
from aline.spaces.outcomes.mixture import Mixture

PROBS = [0.2, 0.5, 0.3]
PARAMETERS = Parameters(
    {
        "kind": Categorical(("a", "b", "c"), PROBS),
        "rate": torch.distributions.Normal(0.0, 1.0),
        "side": Categorical(("left", "right")),
    }
)


def some_belief(*shape: int, seed: int = 0) -> CutMixture:
    generator = seeded(seed)
    numbers = torch.randn(3, *shape, 3, 4, generator=generator)
    belief = PARAMETERS.cut(Mixture(numbers[0].log_softmax(-1), numbers[1], numbers[2].exp()))
    assert isinstance(belief, CutMixture)
    return belief


def test_without_discrete_parameters_nothing_changes() -> None:
    plain = Parameters({"rate": torch.distributions.Normal(0.0, 1.0)})
    mixture = Mixture(torch.zeros(1, 1), torch.zeros(1, 1), torch.ones(1, 1))
    assert plain.cut(mixture) is mixture
    z = torch.randn(5, 1, generator=seeded(0))
    assert plain.settled(z) is z


def test_probabilities_are_the_mixtures_mass_and_densities_integrate_to_them() -> None:
    belief = some_belief(2)
    z = torch.linspace(-9, 9, 90_001)[:, None, None]
    density = belief.log_prob(z.expand(-1, 2, 3)).exp()
    kind = PARAMETERS.to_user(z.expand(-1, 2, 3))["kind"]
    for place in range(3):
        mass = (density[..., 0] * (kind == place)).double().sum(0).float() * 18 / 90_000
        torch.testing.assert_close(mass, belief.probabilities()[:, 0, place], atol=2e-4, rtol=0)
    low = PARAMETERS.cells.cuts[0, 0]  # type: ignore[union-attr]
    torch.testing.assert_close(
        belief.plain().cdf(low.expand(2, 3))[:, 0], belief.probabilities()[:, 0, 0]
    )
    continuous = belief.plain().log_prob(z.expand(-1, 2, 3))[..., 1]
    torch.testing.assert_close(density[..., 1], continuous.exp())


def test_the_prior_is_the_prior() -> None:
    zero = torch.zeros(3, 1)
    belief = PARAMETERS.cut(Mixture(zero, zero, zero + 1))
    assert isinstance(belief, CutMixture)
    torch.testing.assert_close(belief.probabilities()[0], torch.tensor(PROBS))
    z = torch.randn(100, 3, generator=seeded(0))
    normal = torch.distributions.Normal(0.0, 1.0).log_prob(z)
    torch.testing.assert_close(belief.log_prob(z), normal, atol=1e-4, rtol=0)
    torch.testing.assert_close(belief.cdf(z), torch.special.ndtr(z), atol=1e-5, rtol=0)


def test_draws_have_the_probabilities_and_ranks_are_even() -> None:
    belief = some_belief()
    drawn = belief.sample(20_000, seeded(1))
    share = torch.bincount(PARAMETERS.to_user(drawn)["kind"], minlength=3) / 20_000
    torch.testing.assert_close(share, belief.probabilities()[0], atol=0.012, rtol=0)
    ranks = belief.cdf(drawn).sort(0).values
    even = (torch.arange(20_000) + 0.5) / 20_000
    assert (ranks - even[:, None]).abs().max() < 0.015


def test_gradients_are_finite_however_wrong_a_sure_belief_is() -> None:
    mean = torch.tensor([[-500.0], [0.0], [500.0]], requires_grad=True)
    std = torch.tensor([[1e-4], [1.0], [1e-4]], requires_grad=True)
    belief = PARAMETERS.cut(Mixture(torch.zeros(3, 1), mean, std))
    wrong = belief.log_prob(torch.tensor([2.0, 0.0, -2.0]))
    assert bool(wrong.isfinite().all())
    wrong.sum().backward()
    assert mean.grad is not None
    assert std.grad is not None
    assert bool(mean.grad.isfinite().all())
    assert bool(std.grad.isfinite().all())
    assert mean.grad[0] > 0
    assert mean.grad[2] < 0


def test_numbers_of_a_value_are_alike_and_stay_in_their_cell() -> None:
    z = torch.randn(4000, 3, generator=seeded(2))
    before, settled = PARAMETERS.to_user(z), PARAMETERS.settled(z)
    assert len(settled[:, 0].unique()) == 3
    assert torch.equal(settled[:, 1], z[:, 1])
    for other in (settled, PARAMETERS.redrawn(z, seeded(3))):
        after = PARAMETERS.to_user(other)
        assert torch.equal(before["kind"], after["kind"])
        assert torch.equal(before["side"], after["side"])


def test_a_step_from_the_mean_reaches_another_value() -> None:
    for seed in range(20):
        mean, reach = some_belief(50, seed=seed).moments()
        around = torch.stack([mean - reach, mean, mean + reach])
        kinds = PARAMETERS.to_user(around)["kind"]
        assert bool((kinds.amax(0) > kinds.amin(0)).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_double_precision_says_the_same(dtype: torch.dtype) -> None:
    belief = some_belief()
    belief = belief.double() if dtype == torch.float64 else belief
    z = torch.randn(10, 3, generator=seeded(0)).to(dtype)
    assert belief.log_prob(z).dtype == dtype
    torch.testing.assert_close(
        belief.log_prob(z).float(), some_belief().log_prob(z.float()), atol=1e-3, rtol=1e-4
    )
