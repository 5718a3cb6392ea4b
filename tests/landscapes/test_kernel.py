"""The learned kernel against plain Gaussian conditioning."""

import pytest
import torch
from torch import Tensor

from aline.episodes import Context
from aline.errors import InternalError
from aline.landscapes.kernel import Embedded, LearnedKernel

BATCH, COUNT, AXES = 3, 6, 4


@pytest.fixture
def kernel() -> LearnedKernel:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return LearnedKernel(AXES, features=5, hidden=16, axes=3).requires_grad_(False)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def context(count: int = COUNT) -> Context:
    return Context(drawn(BATCH, COUNT, AXES)[:, :count], drawn(BATCH, COUNT, seed=1)[:, :count])


def conditioned(kernel: LearnedKernel, seen: Context, points: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance of the landscape at points [batch, n, design], by the textbook."""
    here, there = kernel.embed(seen.designs), kernel.embed(points)
    own = kernel.covariance(here, here) + kernel.noise * torch.eye(seen.length)
    gain = torch.linalg.solve(own, kernel.covariance(here, there)).mT
    mean = there.mean + (gain @ (seen.outcomes - here.mean)[..., None])[..., 0]
    return mean, kernel.covariance(there, there) - gain @ kernel.covariance(here, there)


def at(kernel: LearnedKernel, points: Tensor) -> Embedded:
    return kernel.embed(points[:, None])


def test_moments_are_those_of_conditioning(kernel: LearnedKernel) -> None:
    points = drawn(BATCH, 7, AXES, seed=2)
    mean, variance = kernel.read(context()).moments(at(kernel, points))
    expected, covariance = conditioned(kernel, context(), points)
    torch.testing.assert_close(mean[:, 0], expected)
    spread = covariance.diagonal(dim1=1, dim2=2) + kernel.noise
    torch.testing.assert_close(variance[:, 0], spread, rtol=1e-6, atol=1e-6)


def test_a_prefix_knows_what_a_shorter_context_says(kernel: LearnedKernel) -> None:
    points = drawn(BATCH, 5, AXES, seed=2)
    visible = torch.arange(COUNT) < torch.tensor([0, 2, COUNT])[:, None]
    whole = kernel.read(context()).prefixes(visible.expand(BATCH, -1, -1))
    mean, variance = whole.moments(at(kernel, points))
    for group, count in enumerate((0, 2, COUNT)):
        one = kernel.read(context(count)).moments(at(kernel, points))
        torch.testing.assert_close(mean[:, group], one[0][:, 0])
        torch.testing.assert_close(variance[:, group], one[1][:, 0])


def test_what_a_mask_hides_is_not_there(kernel: LearnedKernel) -> None:
    kept = [0, 2, 5]
    mask = torch.zeros(BATCH, COUNT, dtype=torch.bool)
    mask[:, kept] = True
    whole = context()
    points = at(kernel, drawn(BATCH, 5, AXES, seed=2))
    masked = kernel.read(Context(whole.designs, whole.outcomes, mask)).moments(points)
    alone = kernel.read(Context(whole.designs[:, kept], whole.outcomes[:, kept])).moments(points)
    for ours, theirs in zip(masked, alone, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_groups_must_see_prefixes(kernel: LearnedKernel) -> None:
    visible = torch.tensor([[True, False, True, False, False, False]]).expand(BATCH, 1, -1)
    with pytest.raises(InternalError, match="prefixes"):
        kernel.read(context()).prefixes(visible)


def test_the_share_of_variance_is_what_an_outcome_really_takes_away(kernel: LearnedKernel) -> None:
    candidates, targets = drawn(BATCH, 3, AXES, seed=3), drawn(BATCH, 9, AXES, seed=4)
    mask = torch.ones(BATCH, 9, dtype=torch.bool)
    mask[0, 5:] = False
    state = kernel.read(context())
    share = state.log_variance_share(candidates, targets, mask)[:, 0].exp()
    before = conditioned(kernel, context(), targets)[1].diagonal(dim1=1, dim2=2) * mask
    for number in range(3):
        more = context().append(candidates[:, number], torch.zeros(BATCH))
        after = conditioned(kernel, more, targets)[1].diagonal(dim1=1, dim2=2) * mask
        gone = (before - after).sum(1) / before.sum(1)
        torch.testing.assert_close(share[:, number], gone, rtol=1e-3, atol=1e-6)
