"""Several guesses about all parameters together, against plain sums over them."""

import pytest
import torch
from discrete import PROBS, trend_task
from small import SIZES, random_context, seeded

import aline
from aline.model import ModelConfig, fresh
from aline.model.advice import Frame
from aline.model.evidence import Evidence, points_around
from aline.model.guesses import ByValue, Guesses
from aline.spaces.outcomes.mixture import Mixture

NOISE = 0.05


def two_places() -> Guesses:
    """(-1, 1) with probability 1/4, (1, -1) with 3/4."""
    mean = torch.tensor([[-1.0, 1.0], [1.0, -1.0]])[None, None, ..., None]
    parts = Mixture(torch.zeros_like(mean), mean, torch.full_like(mean, NOISE))
    return Guesses(torch.tensor([[[0.25, 0.75]]]).log(), parts)


def test_marginals_are_mixtures_of_the_guesses() -> None:
    marginals = two_places().marginals
    assert marginals.shape == (1, 1, 2)
    mean, _ = marginals.moments()
    torch.testing.assert_close(mean, torch.tensor([[[0.5, -0.5]]]))


def test_draws_keep_together_what_belongs_together() -> None:
    drawn = two_places().sample(4000, seeded(0))[0, 0]
    assert (drawn[:, 0] + drawn[:, 1]).abs().max() < 10 * NOISE
    assert abs(float((drawn[:, 0] > 0).float().mean()) - 0.75) < 0.03


def test_the_joint_density_is_not_the_product_of_marginals() -> None:
    guesses = two_places()
    together = torch.tensor([[[[1.0, -1.0], [1.0, 1.0]]]])
    likely, impossible = guesses.log_prob(together)[0, 0]
    exact = torch.tensor(0.75 / (2 * torch.pi * NOISE**2)).log()
    torch.testing.assert_close(likely, exact)
    assert impossible < likely - 100


def test_a_known_value_picks_the_guess() -> None:
    guesses = two_places()
    values = torch.tensor([[[[-1.0, 0.0], [0.0, -1.0]]]])
    mask = torch.tensor([[[[True, False], [False, True]]]])
    asked = torch.tensor([[[1, 0]]])
    weight = guesses.given(values, mask, asked).exp()[0, 0]  # [guess, question]
    torch.testing.assert_close(weight, torch.tensor([[1.0, 0.0], [0.0, 1.0]]))


def test_the_mass_near_guesses_is_that_of_a_mixture_of_normals() -> None:
    """Two normals of known mass, told by their log density alone."""
    mass, spread = torch.tensor([0.2, 0.8]), torch.tensor([0.05, 0.1])
    centres = torch.tensor([-1.0, 1.0])
    guess = Frame(centres[None, None, :, None] + 0.02, torch.full((1, 1, 2, 1), 0.04))
    points = points_around(guess)[..., 0]
    z = (points - centres[:, None]) / spread[:, None]
    log_density = (mass / spread)[:, None].log() - 0.5 * z.square()
    log_likelihood = log_density + 0.5 * points.square()  # over the prior's
    evidence = Evidence.of(log_likelihood[..., None], guess, None)
    found = evidence.log_mass(evidence.step()).exp()
    torch.testing.assert_close(found[0, 0], mass, atol=0.02, rtol=0)


def test_a_network_with_guesses_knows_the_joint_posterior() -> None:
    spec = aline.tasks.get("linear").fitted().spec
    config = ModelConfig(**SIZES, search_stages=2, guesses=2)
    network = fresh(spec, config, seeded(0)).eval()
    encoded = network.encode(random_context(spec, 2, 3))
    joint = network.joint(encoded)
    assert joint.sample(10, seeded(1)).shape == (2, 1, 10, 2)
    assert network.summary(encoded).places.shape == (2, 1, 2, 3)
    theta = torch.randn(2, 1, 4, 2, generator=seeded(2))
    assert joint.log_prob(theta).isfinite().all()


def trends() -> ByValue:
    found = ByValue.of(trend_task().spec.parameters, 3)
    assert found is not None
    return found


def test_each_value_has_a_guess_that_reaches_no_other() -> None:
    """A standard deviation to either side is still the same value."""
    places = trends().pinned(Frame(torch.zeros(3, 3), torch.ones(3, 3)))
    parameters = trend_task().spec.parameters
    for value, around in enumerate(points_around(places)):
        assert set(parameters.to_user(around)["trend"].tolist()) == {value}
    torch.testing.assert_close(places.std[:, 1:], torch.ones(3, 2))


def searching(guesses: int) -> ModelConfig:
    return ModelConfig(**{**SIZES, "search_stages": 2, "guesses": guesses})


def test_values_share_points_evenly_whatever_their_number() -> None:
    """Four parameters have 128 points, which three values cannot share."""
    task = trend_task()
    more = {**task.spec.parameters.priors, "other": torch.distributions.Uniform(0.0, 1.0)}
    task = trend_task(parameters=more)
    network = fresh(task.spec, searching(3), seeded(0))
    found = network.posterior(network.encode(random_context(task.spec, 2, 4)))
    assert bool(found.mean.isfinite().all())


def test_a_number_of_guesses_that_nothing_can_make_is_refused() -> None:
    task = aline.tasks.get("linear")
    with pytest.raises(aline.errors.InputError, match="guesses are 1, 2 or 4"):
        fresh(task.spec, searching(3), seeded(0))
    with pytest.raises(aline.errors.InputError, match="use guesses=3"):
        fresh(trend_task().spec, searching(2), seeded(0))


def test_values_weigh_as_their_prior_has_them() -> None:
    torch.testing.assert_close(trends().log_prior(None).exp(), torch.tensor(PROBS))
    parameters = trend_task().spec.parameters
    place = parameters.to_network({"trend": torch.tensor([1]), "slope": 1.0, "bias": 0.0})
    known = Frame(place, torch.full_like(place, 0.01))
    torch.testing.assert_close(
        trends().log_prior(known).exp(), torch.tensor([[0.0, 1.0, 0.0]]), atol=1e-4, rtol=0
    )


def test_a_prior_chosen_for_an_experiment_counts_once() -> None:
    """For the values themselves, and for what the other parameters are under each."""
    values, parameters = trends(), trend_task().spec.parameters
    prior = Frame(torch.tensor([[[0.8, 0.0, 0.0]]]), torch.tensor([[[0.5, 1.0, 1.0]]]))
    odds = values.odds(prior)
    assert odds is not None
    data = torch.tensor([0.2, 0.3, 0.5])  # how likely the data are under each value
    log_weight = (data.log() + values.log_prior(prior)).log_softmax(-1)
    parts = Mixture(*(torch.full((1, 1, 3, 3, 1), x) for x in (0.0, 0.0, 1.0)))
    parts.mean[:, :, 1, 2] = 4.0  # where `bias` lies if the second value is the truth
    cut = parameters.cut(
        values.settled(parts), prior=(prior.mean[:, :, None], prior.std[:, :, None])
    )
    found = Guesses(log_weight, cut, odds.expand(1, 1, 3, 3)).marginals
    expected = data * values.log_prior(prior)[0, 0].exp()
    expected = expected / expected.sum()
    torch.testing.assert_close(found.probabilities()[0, 0, 0], expected)
    torch.testing.assert_close(found.moments()[0][0, 0, 2], 4 * expected[1])


def test_evidence_compares_values_by_their_likelihood_alone() -> None:
    """Along the discrete parameter there is neither slope nor bend."""
    task = trend_task()
    network = fresh(task.spec, searching(3), seeded(0))
    context = random_context(task.spec, 2, 4)
    encoded = network.encode(context)
    start = Frame(torch.zeros(2, 1, 3, 3), torch.ones(2, 1, 3, 3))
    places = trends().pinned(start)
    found = network.evidence(encoded, places)
    assert float(found.bend[..., 0].abs().max()) < 1e-3
    likely = network.learned_likelihood(
        places.mean[:, 0], context.designs[:, None], context.outcomes[:, None]
    )
    expected = likely.sum(-1) + trends().log_prior(None)
    difference = found.height[:, 0] - expected
    torch.testing.assert_close(difference, difference[:, :1].expand(2, 3), atol=1e-3, rtol=0)
