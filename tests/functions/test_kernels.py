import pytest
import torch
from processes import kernel
from small import seeded

from aline.functions.kernels import KINDS, Kernels, covariance


@pytest.mark.parametrize("kind", range(3), ids=KINDS)
def test_kernels_are_the_textbooks(kind: int) -> None:
    distance = torch.linspace(0, 8, 50).double()
    found = covariance(torch.tensor(kind), distance.square())
    assert torch.allclose(found, kernel(kind, distance), atol=1e-12)


@pytest.mark.parametrize("kinds", [[0, 1, 2], [0, 0, 0]], ids=["all", "rbf"])
def test_lengthscales_are_by_axis(kinds: list[int]) -> None:
    a, b = (torch.rand(2, n, 2, generator=seeded(n)).double() for n in (4, 5))
    lengthscale = torch.tensor([[0.3, 1.0], [0.5, 0.2], [2.0, 0.7]]).double()
    kernels = Kernels.of(torch.tensor(kinds), lengthscale, torch.zeros(3).double())
    found = kernels.covariance(a, b)
    assert found.shape == (2, 3, 4, 5)
    for i, kind in enumerate(kinds):
        distance = ((a[1][:, None] - b[1]) / lengthscale[i]).norm(dim=-1)
        assert torch.allclose(found[1, i], kernel(kind, distance), atol=1e-12)


def test_each_episode_may_have_its_own() -> None:
    x = torch.rand(2, 3, 1, generator=seeded(0)).double()
    lengthscale = torch.tensor([[[0.3], [0.6]], [[1.0], [2.0]]]).double()
    own = Kernels.of(torch.tensor([[0, 1], [2, 0]]), lengthscale, torch.zeros(2, 2).double())
    for episode in (0, 1):
        alone = own.episodes(torch.tensor([episode])).covariance(x[[episode]], x[[episode]])
        assert torch.equal(own.covariance(x, x)[[episode]], alone)
