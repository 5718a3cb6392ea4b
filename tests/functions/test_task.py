import math

import pytest
import torch
from processes import kernel as exact
from small import seeded
from torch import Tensor

from aline.errors import InputError
from aline.functions.kernels import KINDS
from aline.functions.task import draw_frequencies, draw_waves, gp, gp2d, waves_at


@pytest.mark.parametrize("dimensions", [1, 2])
@pytest.mark.parametrize("kernel", range(3), ids=KINDS)
def test_each_functions_covariance_is_the_kernels(kernel: int, dimensions: int) -> None:
    """Given its frequencies, a function's covariance is their cosines' sum: near and far."""
    waves, power = draw_frequencies(torch.full((200,), kernel), dimensions, 256, seeded(0))
    along = torch.full((dimensions, 1), 1 / math.sqrt(dimensions))
    # Far apart, where the kernel is 0, it is as good as that of 180 independent frequencies.
    near, far = torch.linspace(0, 4, 41), torch.linspace(4, 100, 97)
    for distance, bound in ((near, 0.018), (far, 0.055)):
        mine = ((waves @ along * distance).cos() * power[..., None]).sum(1)
        error = mine - exact(kernel, distance)
        assert float(error.square().mean().sqrt()) < bound
        assert float(error.mean(0).abs().max()) < 0.015


@pytest.mark.parametrize("kernel", range(3), ids=KINDS)
def test_functions_are_as_rough_as_their_kernel_close_by(kernel: int) -> None:
    """What is left of the variance between close points is what tells of lengthscales and kinds.

    It is a thousandth of the whole, and must be right for each function, not on average.
    """
    waves, power = draw_frequencies(torch.full((300,), kernel), 1, 256, seeded(0))
    x = 0.3 * torch.arange(5.0, dtype=torch.float64)
    apart = x[:, None] - x
    cosines = (waves[..., 0, None, None].double() * apart).cos()
    found, expected = (
        1 / torch.linalg.inv(matrix)[..., 2, 2]
        for matrix in (
            (power[..., None, None] * cosines).sum(1),
            exact(kernel, apart.abs()),
        )
    )
    ratio = (found / expected).log()
    assert float(ratio.mean().abs()) < 0.05
    assert float(ratio.std()) < 0.15


def test_values_are_gaussian_with_the_kernels_covariance() -> None:
    """The draws themselves, not their frequencies: 20000 functions at three points."""
    hidden = draw_waves(torch.full((20000,), 2), 1, 64, seeded(1))
    x = torch.tensor([0.0, 0.7, 2.0])[None, :, None].expand(20000, 3, 1)
    values = waves_at(hidden, x)
    expected = exact(2, (x[0] - x[0].T).abs())
    assert torch.allclose(values.T.cov(), expected, atol=4 * math.sqrt(2 / 20000))
    kurtosis = (values**4).mean(0) / (values**2).mean(0) ** 2
    assert torch.allclose(kurtosis, torch.full((3,), 3.0), atol=0.2)


def test_a_world_answers_the_same_function_again() -> None:
    task = gp2d()
    world = task.draw(50, seeded(0))
    x = task.spec.design.sample(50, 4, seeded(1))
    first, second = (world.answer(x, seeded(seed)) for seed in (2, 3))
    one = torch.cat([world.answer(x[:, [i]], seeded(4)) for i in range(4)], 1)
    noise = math.sqrt(2) * 0.01 / 0.6
    assert float((first - second).std()) == pytest.approx(noise, rel=0.2)
    assert float((first - one).std()) == pytest.approx(noise, rel=0.2)


def test_scales_are_the_priors() -> None:
    task = gp2d()
    world = task.draw(4000, seeded(0))
    theta = task.spec.parameters.to_user(world.theta)
    lengthscale, scale = theta["lengthscale"], theta["output_scale"]
    same = lengthscale[:, 0] == lengthscale[:, 1]
    assert float(same.float().mean()) == pytest.approx(0.5, abs=0.03)
    unit = math.sqrt(2)
    assert 0.1 * unit <= float(lengthscale.min()) < float(lengthscale.max()) <= 2 * unit
    assert lengthscale.mean(0).tolist() == pytest.approx([1.05 * unit] * 2, rel=0.03)
    # The second lengthscale is uniform whether or not it is the first's.
    assert float(lengthscale[:, 1].std()) == pytest.approx(1.9 * unit / math.sqrt(12), rel=0.03)
    x = task.spec.design.sample(4000, 60, seeded(1))
    outcomes = task.spec.outcome.to_user(world.answer(x, seeded(2)))
    ratio = outcomes.square().mean(1) / scale**2
    assert float(ratio.mean()) == pytest.approx(1.0, abs=0.05)


def test_lengthscale_is_a_lengthscale() -> None:
    """Neighbours a lengthscale apart are correlated as the kernels say, whatever the axis."""
    task = gp2d()
    theta = {"lengthscale": [0.5, 2.0], "output_scale": 1.0}
    z = task.spec.parameters.to_network(theta).expand(6000, -1)
    world = task.worlds(z, seeded(0))
    expected = sum(float(exact(k, torch.tensor(1.0))) for k in range(3)) / 3
    for step in ([0.5, 0.0], [0.0, 2.0]):
        pair = torch.tensor([[0.0, 0.0], step])
        x = task.spec.design.to_network(pair).expand(6000, 2, 2)
        y: Tensor = task.spec.outcome.to_user(world.answer(x, seeded(1)))
        assert float((y[:, 0] * y[:, 1]).mean()) == pytest.approx(expected, abs=0.05)


def test_any_number_of_dimensions() -> None:
    task = gp(dimensions=5)
    assert task.spec.name == "gp5d"
    assert task.spec.design.names == ("x1", "x2", "x3", "x4", "x5")
    names = [f"lengthscale_{i}" for i in range(1, 6)]
    assert task.spec.parameters.names == (*names, "output_scale")
    assert task.draw(2, seeded(0)).answer(torch.zeros(2, 3, 5), seeded(0)).shape == (2, 3)
    with pytest.raises(InputError, match="dimensions"):
        gp(dimensions=0)
