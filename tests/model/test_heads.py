import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small import posterior_of, random_context, seeded, small_network
from torch import distributions as td

from aline.model import Bernoulli, Censored, Mixture

MIXTURE = Mixture(
    torch.tensor([[0.2, 0.8], [0.5, 0.5]]).log(),
    torch.tensor([[-1.0, 0.5], [0.0, 2.0]]),
    torch.tensor([[0.3, 1.0], [0.1, 0.7]]),
)


def reference() -> td.MixtureSameFamily:
    return td.MixtureSameFamily(
        td.Categorical(logits=MIXTURE.log_weight), td.Normal(MIXTURE.mean, MIXTURE.std)
    )


@given(st.floats(-4, 4, width=32))
@settings(max_examples=25, deadline=None)
def test_density_and_probability(value: float) -> None:
    at = torch.full((2,), value)
    assert torch.allclose(MIXTURE.log_prob(at), reference().log_prob(at), atol=1e-4)
    assert torch.allclose(MIXTURE.cdf(at), reference().cdf(at), atol=1e-5)


def test_values_broadcast_along_a_new_axis() -> None:
    values = torch.linspace(-1, 1, 6).view(2, 3)
    each = torch.stack([MIXTURE.log_prob(column) for column in values.T], 1)
    torch.testing.assert_close(MIXTURE.unsqueeze(1).log_prob(values), each)


def test_moments() -> None:
    mean, std = MIXTURE.moments()
    assert torch.allclose(mean, reference().mean)
    assert torch.allclose(std, reference().stddev)


def test_draws_have_the_moments() -> None:
    draws = MIXTURE.sample(20_000, seeded(0))
    mean, std = MIXTURE.moments()
    assert draws.shape == (20_000, 2)
    assert bool(((draws.mean(0) - mean).abs() < 4 * std / 20_000**0.5).all())
    assert torch.equal(draws, MIXTURE.sample(20_000, seeded(0)))


def test_draws_of_batches_keep_their_places() -> None:
    sharp = Mixture(
        torch.zeros(2, 3, 1), torch.arange(6.0).view(2, 3, 1), torch.full((2, 3, 1), 1e-4)
    )
    assert torch.allclose(sharp.sample(5, seeded(0)), torch.arange(6.0).view(2, 3), atol=1e-2)


def test_bernoulli() -> None:
    belief = Bernoulli(torch.tensor([0.0, 2.0, -50.0]))
    assert belief.probability.tolist() == pytest.approx([0.5, 0.8808, 0.0], abs=1e-4)
    yes, no = (belief.log_prob(torch.full((3,), sign)) for sign in (1.0, -1.0))
    assert torch.allclose(yes.exp() + no.exp(), torch.ones(3))
    assert yes.isfinite().all()


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_posterior_draws_stay_inside_the_priors_support(seed: int) -> None:
    network = NETWORK
    belief = posterior_of(network, random_context(network.spec, 2, 5, seed))
    draws = belief.sample(200, seeded(seed))
    wild = 20 * draws  # far beyond what any posterior says
    for z in (draws, wild):
        theta = network.spec.parameters.to_user(z)
        for name, scale in zip(
            network.spec.parameters.names, network.spec.parameters.scales, strict=True
        ):
            low, high = scale.support
            assert bool(((theta[name] >= low) & (theta[name] <= high)).all())


NETWORK = small_network("psychometric")


def test_a_censored_mixture_is_a_density_between_its_limits_and_a_probability_at_them() -> None:
    mixture = Mixture(
        torch.tensor([[0.3, 0.7]]).log(), torch.tensor([[-1.0, 0.5]]), torch.tensor([[0.4, 1.0]])
    )
    censored = Censored(mixture.log_weight, mixture.mean, mixture.std, (-0.8, 1.2))
    inside = torch.linspace(-0.799, 1.199, 5001, dtype=torch.float64)[:, None]
    density = censored.log_prob(inside).exp()
    ends = torch.tensor([[-0.8], [1.2]])
    low, high = censored.log_prob(ends).exp()[:, 0].tolist()
    assert low == pytest.approx(float(mixture.cdf(torch.tensor([-0.8]))), rel=1e-4)
    assert high == pytest.approx(1 - float(mixture.cdf(torch.tensor([1.2]))), rel=1e-4)
    total = low + high + float(torch.trapezoid(density[:, 0], inside[:, 0]))
    assert total == pytest.approx(1.0, abs=3e-3)
    draws = censored.sample(4000, torch.Generator().manual_seed(0))
    assert float((draws == -0.8).double().mean()) == pytest.approx(low, abs=0.03)
    assert float((draws == 1.2).double().mean()) == pytest.approx(high, abs=0.03)
