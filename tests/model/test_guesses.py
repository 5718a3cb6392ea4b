"""Several guesses about all parameters together, against plain sums over them."""

import torch
from small import SIZES, random_context, seeded

import aline
from aline.model import ModelConfig, fresh
from aline.model.advice import Frame
from aline.model.emulator import Evidence, points_around
from aline.model.guesses import Guesses, spread_points, two_sides
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
    weight = guesses.given(values, mask).exp()[0, 0]  # [guess, question]
    torch.testing.assert_close(weight, torch.tensor([[1.0, 0.0], [0.0, 1.0]]))


def test_weighed_points_are_cut_between_two_modes() -> None:
    """Where parameters may change places, on either side of the line on which they are equal."""
    points = spread_points(2)
    places = torch.tensor([[-1.0, 1.0], [1.0, -1.0]])
    away = (points[:, None] - places).square().sum(-1)
    log_weight = (-0.5 * away / 0.3**2).logsumexp(-1)
    mass, sides = two_sides(points[None, None], log_weight[None, None])
    torch.testing.assert_close(mass.exp()[0, 0], torch.tensor([0.5, 0.5]), atol=0.1, rtol=0)
    found = sides.mean[0, 0][sides.mean[0, 0, :, 0].argsort()]
    torch.testing.assert_close(found, places, atol=0.3, rtol=0)
    assert sides.std.max() < 0.6


def test_points_of_one_place_leave_the_other_side_light() -> None:
    points = spread_points(3)
    log_weight = -50 * (points - points[4]).square().sum(-1)
    mass, sides = two_sides(points[None, None], log_weight[None, None])
    likelier = int(mass[0, 0].argmax())
    torch.testing.assert_close(sides.mean[0, 0, likelier], points[4], atol=0.1, rtol=0)
    assert all(part.isfinite().all() for part in (mass, *sides))


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
    config = ModelConfig(**SIZES, guesses=2)
    network = fresh(spec, config, seeded(0)).eval()
    encoded = network.encode(random_context(spec, 2, 3))
    joint = network.joint(encoded)
    assert joint.sample(10, seeded(1)).shape == (2, 1, 10, 2)
    assert network.summary(encoded).places.shape == (2, 1, 2, 3)
    theta = torch.randn(2, 1, 4, 2, generator=seeded(2))
    assert joint.log_prob(theta).isfinite().all()
