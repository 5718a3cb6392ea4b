"""Hypotheses drawn near the data, against closed forms and the exact posterior on a grid."""

import math

import pytest
import torch
from processes import kernel
from small import seeded
from torch import Tensor
from torch.distributions import MultivariateNormal

from aline.episodes import Context
from aline.functions.hypotheses import Hypotheses, ParameterPosterior
from aline.functions.importance_draws import Cloud, Data, Proposal, _log_likelihood
from aline.functions.kernels import Kernels
from aline.tasks import get

ALONG = [0, 1]  # the columns of two lengthscales; a third parameter is the scale


def some_data(rows: int = 4, count: int = 6) -> Data:
    designs = 2 * torch.rand(rows, count, 2, generator=seeded(1)) - 1
    seen = torch.ones(rows, count, dtype=torch.bool)
    return Data(designs, torch.randn(rows, count, generator=seeded(2)), seen)


LENGTHSCALE = 1 / (1 + torch.rand(4, 3, 2, generator=seeded(3)))
NOISE = 0.01 + 0.1 * torch.rand(4, 3, generator=seeded(4))
LOG_SCALE = 0.3 / LENGTHSCALE[..., 0]
KERNELS = Kernels.of(torch.arange(3).expand(4, -1), LENGTHSCALE, NOISE)


@pytest.mark.parametrize("kind", range(3))
def test_the_likelihood_is_the_density_of_the_outcomes(kind: int) -> None:
    data = some_data()
    found = _log_likelihood(KERNELS, LOG_SCALE, data)[:, kind]
    for row in range(4):
        scaled = data.designs[row].double() / LENGTHSCALE[row, kind].double()
        matrix = kernel(kind, torch.cdist(scaled, scaled)) + NOISE[row, kind] * torch.eye(6)
        matrix *= (2 * LOG_SCALE[row, kind].double()).exp()
        exact = MultivariateNormal(torch.zeros(6).double(), matrix).log_prob(data.outcomes[row])
        expected = float(exact) + 3 * math.log(2 * math.pi)
        assert float(found[row]) == pytest.approx(expected, abs=1e-3)


def test_what_is_not_seen_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    data = some_data()
    seen = torch.arange(6) < torch.tensor([0, 3, 6, 1])[:, None]
    seen[2, 1] = False
    hidden = data._replace(seen=seen)
    found = _log_likelihood(KERNELS, LOG_SCALE, hidden)
    assert float(found[0].abs().max()) == 0.0  # of no data
    for row in range(1, 4):
        one = torch.tensor([row])
        alone = Data(*(part[one][:, seen[row]] for part in data))
        expected = _log_likelihood(KERNELS.episodes(one), LOG_SCALE[one], alone)
        assert torch.allclose(found[one], expected, atol=1e-4)
    monkeypatch.setattr("aline.functions.importance_draws.AT_ONCE", 1)
    assert torch.allclose(_log_likelihood(KERNELS, LOG_SCALE, hidden), found, atol=1e-4)


def cloud_of(count: int) -> Cloud:
    z = torch.randn(1, count, 3, generator=seeded(6))
    tied = torch.rand(1, count, generator=seeded(7)) < 0.5
    z[..., 1] = torch.where(tied, z[..., 0], z[..., 1])
    kind = torch.randint(3, (1, count), generator=seeded(8))
    return Cloud(z, kind, tied)


def proposal_of(count: int = 40) -> Proposal:
    fit = 3 * torch.randn(1, count, generator=seeded(9))
    return Proposal.around(cloud_of(count), fit, ALONG)


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
    assert torch.allclose(cloud.log_prior(ALONG), expected)


def posteriors(
    name: str, count: int, data: int, rows: int = 24
) -> tuple[ParameterPosterior, ParameterPosterior, Context]:
    """With draws near the data, and by the grid alone."""
    task = get(name)
    designs = task.spec.design.sample(rows, data, seeded(2))
    context = Context(designs, task.draw(rows, seeded(1)).answer(designs, seeded(3)))
    both = (Hypotheses(task.spec, count, draws) for draws in (True, False))
    near, grid = (posterior(made, context) for made in both)
    return near, grid, context


def posterior(made: Hypotheses, context: Context) -> ParameterPosterior:
    return made.posterior(made.read(context))


def test_without_data_they_are_the_prior() -> None:
    found, _, _ = posteriors("gp2d", 256, 0, 2)
    assert torch.allclose(found.mean, torch.zeros_like(found.mean), atol=0.06)
    assert torch.allclose(found.std, torch.ones_like(found.std), atol=0.06)


def test_few_of_them_are_as_good_as_a_dense_grid() -> None:
    """After many data: means within a fraction of the posterior's own deviation."""
    near, grid, context = posteriors("gp2d", 128, 25)
    dense = Hypotheses(get("gp2d").spec, 8192, draws=False)
    exact = posterior(dense, context)
    good = (exact.power[:, 0, 0] == 1).nonzero()[:, 0]
    assert len(good) > 12

    def error(other: ParameterPosterior) -> Tensor:
        away: Tensor = (other.mean - exact.mean) / exact.std
        return away[good].square().mean().sqrt()

    assert float(error(near)) < 0.3
    assert float(error(near)) < 0.6 * float(error(grid))
