"""Hypotheses close to the data, against closed forms and the exact posterior on a grid."""

import math

import pytest
import torch
from small import seeded
from torch import Tensor
from torch.distributions import MultivariateNormal

from aline.episodes import Context
from aline.experiment.refine import power_of
from aline.functions.closer import Cloud, Data, Kernels, Proposal, fits, log_prior
from aline.functions.hypotheses import EFFECTIVE, Guess, Hypotheses
from aline.functions.task import KERNELS, covariance
from aline.tasks import get

ALONG = [0, 1]  # the columns of two lengthscales; a third parameter is the scale


def some_data(rows: int = 4, count: int = 6) -> Data:
    designs = 2 * torch.rand(rows, count, 2, generator=seeded(1)) - 1
    return Data(designs, torch.randn(rows, count, generator=seeded(2)), torch.ones(rows, count))


def some_kernels(rows: int = 4) -> Kernels:
    inverse = 1 + torch.rand(rows, 3, 2, generator=seeded(3))
    noise = 0.01 + 0.1 * torch.rand(rows, 3, generator=seeded(4))
    return Kernels(inverse, noise, 0.3 * inverse[..., 0], torch.arange(3).expand(rows, -1))


def matrix_of(kernels: Kernels, row: int, which: int, a: Tensor, b: Tensor) -> Tensor:
    """The covariance of the function at a and b, by tasks/gp.py."""
    scaled = [x.double() * kernels.inverse[row, which].double() for x in (a, b)]
    size = (2 * kernels.log_scale[row, which].double()).exp()
    return size * covariance(KERNELS[which], torch.cdist(*scaled))


@pytest.mark.parametrize("which", range(3))
def test_fit_is_the_log_density_of_the_outcomes(which: int) -> None:
    data, kernels = some_data(), some_kernels()
    found = kernels.fit(data)[:, which]
    for row in range(4):
        matrix = matrix_of(kernels, row, which, data.designs[row], data.designs[row])
        noise = kernels.noise[row, which] * (2 * kernels.log_scale[row, which].double()).exp()
        matrix += noise * torch.eye(6)
        exact = MultivariateNormal(torch.zeros(6).double(), matrix).log_prob(data.outcomes[row])
        assert float(found[row]) == pytest.approx(
            float(exact) + 3 * math.log(2 * math.pi), abs=1e-3
        )


@pytest.mark.parametrize("which", range(3))
def test_predictions_are_those_of_the_closed_form(which: int) -> None:
    data, kernels = some_data(), some_kernels()
    points = 2 * torch.rand(4, 5, 2, generator=seeded(5)) - 1
    mean, left = (part[0, which] for part in kernels.at(data, points))
    size = (2 * kernels.log_scale[0, which].double()).exp()
    noise = kernels.noise[0, which] * size
    x, at = data.designs[0], points[0]
    inner = matrix_of(kernels, 0, which, x, x) + noise * torch.eye(6)
    cross = matrix_of(kernels, 0, which, at, x)
    solved = torch.linalg.solve(inner, cross.mT)
    assert torch.allclose(mean.double(), solved.mT @ data.outcomes[0].double(), atol=1e-3)
    variance = size + noise - (cross * solved.mT).sum(-1)
    assert torch.allclose(left.double() * size, variance, atol=1e-3)


def test_what_is_not_seen_does_not_count() -> None:
    data, kernels = some_data(), some_kernels()
    seen = torch.ones(4, 6)
    seen[:, 4:] = 0
    seen[1, 1] = 0
    hidden = Data(data.designs, data.outcomes * seen, seen)
    assert hidden.lengths.tolist() == [4, 4, 4, 4]
    short = Data(data.designs[:, :4], data.outcomes[:, :4], torch.ones(4, 4))
    rest = [0, 2, 3]
    assert torch.allclose(fits(kernels, hidden)[rest], kernels.fit(short)[rest], atol=1e-4)
    left = Data(*(part[1:2, [0, 2, 3]] for part in data))
    alone = Kernels(*(part[1:2] for part in kernels)).fit(left)
    assert torch.allclose(fits(kernels, hidden)[1:2], alone, atol=1e-4)


def test_parts_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = (torch.arange(6) < torch.tensor([0, 3, 6, 1])[:, None]).float()
    data = some_data()
    data = Data(data.designs, data.outcomes * seen, seen)
    whole = some_kernels().fit(data)
    monkeypatch.setattr("aline.functions.closer.AT_ONCE", 1)
    assert torch.allclose(fits(some_kernels(), data), whole, atol=1e-4)
    assert float(whole[0].abs().max()) == 0.0  # of no data


def cloud_of(count: int) -> Cloud:
    z = torch.randn(1, count, 3, generator=seeded(6))
    tied = torch.rand(1, count, generator=seeded(7)) < 0.5
    z[..., 1] = torch.where(tied, z[..., 0], z[..., 1])
    kind = torch.randint(3, (1, count), generator=seeded(8))
    return Cloud(z, kind, tied)


def proposal_of(count: int = 40) -> Proposal:
    fit = 3 * torch.randn(1, count, generator=seeded(9))
    return Proposal.around(cloud_of(count), fit, power_of(fit, EFFECTIVE), ALONG)


def test_draws_are_the_same_each_time_and_tied_ones_stay_tied() -> None:
    first, second = proposal_of().draw(64), proposal_of().draw(64)
    assert torch.equal(first.z, second.z)
    assert bool((first.z[..., 0] == first.z[..., 1])[first.tied].all())
    assert bool((first.z[..., 0] != first.z[..., 1])[~first.tied].any())


def test_draws_have_the_density_that_is_told() -> None:
    """Weighed by another density over theirs they have that one's moments, and its shares."""
    proposal = proposal_of()
    draws = proposal.draw(20_000)
    at = proposal.parents
    centre = (proposal.weight[..., None] * at.z).sum(1)[0]
    root = proposal.root[0]
    # A normal within the proposal's reach, a share of it for each of the six sorts of hypotheses.
    free, fewer = MultivariateNormal(centre, root @ root.mT), [0, 2]
    tied = MultivariateNormal(centre[fewer], (root @ root.mT)[fewer][:, fewer])
    target = torch.where(
        draws.tied[0], tied.log_prob(draws.z[0][:, fewer]), free.log_prob(draws.z[0])
    )
    weight = (target - proposal.log_density(draws)[0]).exp()
    sorts = {(int(k), bool(t)) for k, t in zip(at.kind[0], at.tied[0], strict=True)}
    for kind, is_tied in sorts:
        mine = (draws.kind[0] == kind) & (draws.tied[0] == is_tied)
        total = float(weight[mine].sum()) / 20_000
        error = float((weight * mine).std()) / math.sqrt(20_000)
        assert total == pytest.approx(1.0, abs=max(0.05, 5 * error))


def test_the_prior_counts_one_lengthscale_once() -> None:
    cloud = cloud_of(5)
    each = -0.5 * (cloud.z.square() + math.log(2 * math.pi))
    expected = torch.where(cloud.tied, each[..., [0, 2]].sum(-1), each.sum(-1))
    assert torch.allclose(log_prior(cloud, ALONG), expected)


def guess_of(name: str, count: int, data: int, rows: int = 24) -> tuple[Guess, Guess, Context]:
    """With closer hypotheses, and by the grid alone."""
    task = get(name)
    made = Hypotheses(task.spec, count)
    designs = task.spec.design.sample(rows, data, seeded(2))
    context = Context(designs, task.draw(rows, seeded(1)).answer(designs, seeded(3)))
    bank = made.read(context, None, None)
    fit = made._fit(bank)
    return made.guess(bank), Guess.of(made.z.expand(*fit.shape, -1), fit), context


def test_without_data_they_are_the_prior() -> None:
    guess, _, _ = guess_of("gp2d", 256, 0, 2)
    assert torch.allclose(guess.mean, torch.zeros_like(guess.mean), atol=0.06)
    assert torch.allclose(guess.std, torch.ones_like(guess.std), atol=0.06)


def test_few_of_them_are_as_good_as_a_dense_grid() -> None:
    """After many data: means within a fraction of the posterior's own deviation."""
    guess, grid, context = guess_of("gp2d", 128, 25)
    dense = Hypotheses(get("gp2d").spec, 8192)
    exact = dense._fit(dense.read(context, None, None))
    reference = Guess.of(dense.z.expand(*exact.shape, -1), exact)
    good = (reference.power[:, 0, 0] == 1).nonzero()[:, 0]
    assert len(good) > 12

    def error(other: Guess) -> Tensor:
        away: Tensor = (other.mean - reference.mean) / reference.std
        return away[good].square().mean().sqrt()

    assert float(error(guess)) < 0.3
    assert float(error(guess)) < 0.6 * float(error(grid))
