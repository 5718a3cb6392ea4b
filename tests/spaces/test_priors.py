"""Every prior family, on the scale where it is a standard normal and back."""

import math
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from small import seeded
from torch import distributions as td

from aline.errors import InputError
from aline.model import Mixture
from aline.spaces import Parameters
from aline.spaces.priors import Prior, Scale, log_volume

PRIORS = {
    "uniform": td.Uniform(0.1, 2.0),
    "wide uniform": td.Uniform(-300.0, 1e4),
    "normal": td.Normal(-2.0, 0.3),
    "lognormal": td.LogNormal(1.0, 1.5),
    "beta": td.Beta(2.0, 5.0),
    "flat beta": td.Beta(1.0, 1.0),
    "beta with poles": td.Beta(0.5, 0.5),
    "gamma": td.Gamma(3.0, 0.5),
    "gamma with a pole": td.Gamma(0.3, 2.0),
    "exponential": td.Exponential(4.0),
    "half normal": td.HalfNormal(2.5),
}
FAMILIES = pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())


@cache
def scale_of(prior: td.Distribution) -> Scale:
    (scale,) = Prior.of("a", prior).scales()
    return scale


@FAMILIES
def test_round_trip(prior: td.Distribution) -> None:
    z = torch.linspace(-4.5, 4.5, 301, dtype=torch.float64)
    scale = scale_of(prior)
    assert torch.allclose(scale.to_network(scale.to_user(z)), z, atol=1e-6)


@FAMILIES
def test_round_trip_in_single_precision(prior: td.Distribution) -> None:
    z = torch.linspace(-3.0, 3.0, 301)
    scale = scale_of(prior)
    # Float32 has few digits left next to a bound other than 0.
    assert torch.allclose(scale.to_network(scale.to_user(z)), z, atol=5e-3)


@FAMILIES
@settings(max_examples=10, deadline=None)
@given(z=st.lists(st.floats(-60, 60, width=32), min_size=1))
def test_values_stay_inside_the_support(prior: td.Distribution, z: list[float]) -> None:
    scale = scale_of(prior)
    low, high = scale.support
    values = scale.to_user(torch.tensor(z))
    assert bool(((values >= low) & (values <= high)).all())


@FAMILIES
def test_standard_normal_draws_become_prior_draws(prior: td.Distribution) -> None:
    values = scale_of(prior).to_user(torch.randn(4000, generator=seeded(0), dtype=torch.float64))
    cdf = (
        stats.beta(prior.concentration1.item(), prior.concentration0.item()).cdf
        if isinstance(prior, td.Beta)
        else lambda x: prior.cdf(torch.tensor(x, dtype=torch.float64)).numpy()
    )
    assert stats.kstest(values.numpy(), cdf).pvalue > 1e-3


@FAMILIES
def test_log_volume_is_the_log_derivative(prior: td.Distribution) -> None:
    scale = scale_of(prior)
    z = torch.linspace(-4.0, 4.0, 81, dtype=torch.float64)
    step = 0.006  # wider than a table's knots are apart
    slope = (scale.to_user(z + step) - scale.to_user(z - step)) / (2 * step)
    assert torch.allclose(log_volume(scale, z), slope.log(), atol=5e-3)


@FAMILIES
def test_log_volume_is_finite_at_the_bounds_in_single_precision(prior: td.Distribution) -> None:
    z = torch.tensor([-5.9, -5.0, 0.0, 5.0, 5.9])
    assert log_volume(scale_of(prior), z).isfinite().all()


@FAMILIES
@settings(max_examples=10, deadline=None)
@given(
    mean=st.floats(-2, 2),
    gap=st.floats(0, 2),
    std=st.floats(0.05, 1.0),
    share=st.floats(0.05, 0.95),
)
def test_posterior_density_integrates_to_one(
    prior: td.Distribution, mean: float, gap: float, std: float, share: float
) -> None:
    parameters = Parameters({"a": prior})
    mixture = Mixture(
        torch.tensor([share, 1 - share], dtype=torch.float64).log(),
        torch.tensor([mean, mean - gap], dtype=torch.float64),
        torch.tensor([std, 0.5], dtype=torch.float64),
    )
    z = torch.linspace(-6.0, 6.0, 6001, dtype=torch.float64)
    density = (mixture.log_prob(z) - parameters.log_volume(z[:, None])[:, 0]).exp()
    mass = torch.trapezoid(density, parameters.to_user(z[:, None])["a"])
    assert mass.item() == pytest.approx(1.0, abs=3e-3)


@FAMILIES
def test_prior_density_is_the_declared_one(prior: td.Distribution) -> None:
    parameters = Parameters({"a": prior})
    z = torch.linspace(-3.0, 3.0, 61, dtype=torch.float64)[:, None]
    declared = prior.log_prob(parameters.to_user(z)["a"]).double()
    assert torch.allclose(parameters.log_prior(z)[:, 0], declared, atol=1e-4)


def test_plain_data_round_trip() -> None:
    for name, prior in PRIORS.items():
        plain = Prior.of(name, prior)
        assert Prior.from_json(plain.to_json()) == plain


def test_independent_products_become_vectors() -> None:
    product = td.Independent(td.Normal(torch.zeros(3), torch.ones(3)), 1)
    assert Prior.of("a", product).size == 3


def test_unknown_family_names_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"prior of rate must be one of Uniform.*got Cauchy"):
        Parameters({"rate": td.Cauchy(0.0, 1.0)})


def test_value_at_the_edge_of_a_lognormal_has_no_density_but_a_number() -> None:
    z = Parameters({"a": td.LogNormal(0.0, 1.0)}).to_network({"a": 0.0})
    assert math.isfinite(z.item())
