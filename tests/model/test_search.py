"""A search by weighed points, against posteriors that are known."""

import math

import torch
from torch import Tensor

from aline.model.search import Places, cut, fitted, search, tempered, unit_points

PRIOR = Places(torch.zeros(1), torch.zeros(1, 3), torch.ones(1, 3))


def normal(points: Tensor, mean: Tensor, std: float) -> Tensor:
    return -0.5 * ((points - mean) / std).square().sum(-1)


def test_a_narrow_posterior_is_found_from_the_prior() -> None:
    """A millionth of the prior's volume: in no stage would plain weights leave two points."""
    truth, std = torch.tensor([1.2, -0.7, 0.4]), 0.01

    def height(points: Tensor) -> Tensor:
        return normal(points, truth, std) + normal(points, torch.zeros(3), 1.0)

    found, _ = search(PRIOR, 2, unit_points(3, 9), height)
    share = found.log_weight.exp()[:, None]
    torch.testing.assert_close((share * found.mean).sum(0), truth, atol=std, rtol=0)
    assert float(found.std.max()) < 3 * std


def test_parameters_that_may_change_places_are_found_in_both() -> None:
    first, second = torch.tensor([1.0, -1.0]), torch.tensor([-1.0, 1.0])

    def height(points: Tensor) -> Tensor:
        both = torch.stack([normal(points, place, 0.05) for place in (first, second)])
        return both.logsumexp(0)

    start = Places(torch.zeros(1), torch.zeros(1, 2), torch.ones(1, 2))
    found, _ = search(start, 4, unit_points(2, 6), height)
    near_first = (found.mean - first).norm(dim=-1) < 0.2
    near_second = (found.mean - second).norm(dim=-1) < 0.2
    assert bool((near_first | near_second | (found.log_weight < -5)).all())
    mass = found.log_weight.exp()
    torch.testing.assert_close(mass[near_first].sum(), torch.tensor(0.5), atol=0.1, rtol=0)


def test_without_data_the_places_are_those_of_the_prior() -> None:
    found, _ = search(
        PRIOR, 2, unit_points(3, 3), lambda points: normal(points, torch.zeros(3), 1.0)
    )
    share = found.log_weight.exp()[:, None]
    mean = (share * found.mean).sum(0)
    square = (share * (found.std.square() + found.mean.square())).sum(0)
    torch.testing.assert_close(mean, torch.zeros(3), atol=0.15, rtol=0)
    torch.testing.assert_close(square.sqrt(), torch.ones(3), atol=0.15, rtol=0)


def test_weights_are_tempered_only_where_too_few_count() -> None:
    even, uneven = torch.randn(100) * 0.3, torch.randn(100) * 30
    torch.testing.assert_close(tempered(even, 15.0), even.log_softmax(-1))
    effective = 1 / tempered(uneven, 15.0).exp().square().sum()
    assert 10 < float(effective) < 30


def test_episodes_do_not_disturb_each_other() -> None:
    start = Places(torch.zeros(2, 1), torch.zeros(2, 1, 3), torch.ones(2, 1, 3))
    truths = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.5, 0.2]])

    def height(points: Tensor) -> Tensor:
        return normal(points, truths[:, None], 0.1)

    both, _ = search(start, 2, unit_points(3, 3), height)
    alone, _ = search(PRIOR, 2, unit_points(3, 3), lambda points: normal(points, truths[1], 0.1))
    torch.testing.assert_close(both.mean[1], alone.mean)


def test_sides_share_all_points() -> None:
    points = unit_points(2, 1)[0]
    sides = cut(points, torch.zeros(len(points)), 4)
    assert sides.shape == (4, len(points))
    assert bool((sides.sum(0) == 1).all())
    assert int(sides.sum(1).min()) > len(points) / 16


def test_a_place_without_points_stays_a_number() -> None:
    points = unit_points(2, 1)[0]
    count = len(points)
    shares = torch.tensor([[0.0], [-1e4]]).expand(2, count)
    found = fitted(points, torch.full((count,), -math.log(count)), shares)
    assert all(bool(part.isfinite().all()) for part in found)


def test_places_survive_as_one_tensor() -> None:
    places = Places(torch.randn(2, 4), torch.randn(2, 4, 3), torch.rand(2, 4, 3))
    for part, again in zip(places, Places.from_tensor(places.as_tensor()), strict=True):
        torch.testing.assert_close(again, part)


def test_a_search_goes_on_with_each_observation() -> None:
    """One stage an observation, and the points of earlier stages, keep up with the posterior."""
    generator, noise = torch.Generator().manual_seed(0), 0.5
    truth, units = torch.tensor([0.7, -0.4, 1.1]), unit_points(3, 4)
    seen = truth + noise * torch.randn(20, 3, generator=generator)

    def height(points: Tensor, count: int) -> Tensor:
        of_data = sum(normal(points, one, noise) for one in seen[:count])
        return of_data + normal(points, torch.zeros(3), 1.0)

    places, stages = search(PRIOR, 2, units, lambda points: height(points, 0))
    for count in range(1, 21):
        stages = [
            stage._replace(height=stage.height + normal(stage.points, seen[count - 1], noise))
            for stage in stages
        ]
        places, stages = search(
            places, 2, units[count % 4, None], lambda p, n=count: height(p, n), before=stages
        )
    share = places.log_weight.exp()[:, None]
    mean = (share * places.mean).sum(0)
    spread = (share * (places.std.square() + (places.mean - mean).square())).sum(0).sqrt()
    exact = (1 + 20 / noise**2) ** -0.5
    torch.testing.assert_close(mean, seen.sum(0) * exact**2 / noise**2, atol=0.4 * exact, rtol=0)
    torch.testing.assert_close(spread, torch.full((3,), exact), atol=0.35 * exact, rtol=0)
