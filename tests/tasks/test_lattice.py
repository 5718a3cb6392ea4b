"""Grids over a prior."""

import pytest
import torch
from torch.distributions import Normal, Uniform

from aline.spaces import Parameters
from aline.tasks.lattice import Lattice


def test_a_count_cuts_the_prior_into_equal_masses() -> None:
    parameters = Parameters({"a": Uniform(0.0, 1.0), "b": Normal(2.0, 3.0)})
    lattice = Lattice.of(parameters, {"a": 4, "b": 3})
    assert lattice.shape == (4, 3)
    assert torch.allclose(lattice.weight, torch.full((12,), 1 / 12))
    values = parameters.to_labels(lattice.z)
    assert values["a"].unique().tolist() == pytest.approx([0.125, 0.375, 0.625, 0.875], abs=1e-6)
    assert float(values["b"].mean()) == pytest.approx(2.0, abs=1e-5)


def test_values_weigh_what_the_prior_has_around_them() -> None:
    parameters = Parameters({"a": Uniform(0.0, 1.0)})
    lattice = Lattice.of(parameters, {"a": [0.1, 0.3, 0.9]})
    assert lattice.weight.tolist() == pytest.approx([0.2, 0.4, 0.4], abs=1e-6)
    assert Lattice.of(parameters, {"a": [0.3]}).weight.tolist() == [1.0]


def test_few_nodes_integrate_polynomials_of_the_quantile_exactly() -> None:
    lattice = Lattice.of_prior((5, 40))
    assert lattice.shape == (5, 40)
    u = torch.special.ndtr(lattice.z)
    for degree in range(10):
        assert float(lattice.weight @ u[:, 0] ** degree) == pytest.approx(1 / (degree + 1), 1e-4)
    assert float(lattice.weight @ u[:, 1] ** 2) == pytest.approx(1 / 3, 1e-3)
