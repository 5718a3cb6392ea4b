import math
from typing import Any

import pytest
import torch
from small import seeded, small_functions

from aline.engine import BatchEngine
from aline.errors import InputError
from aline.evaluation.active import (
    METHODS,
    Problem,
    learn,
    make_problem,
    policy_of,
    ratio,
    seconds_per_run,
)
from aline.evaluation.problems import FunctionWorld, function_named
from aline.model import Model
from aline.spaces import Box
from aline.tasks import get

GP1D, GP2D = get("gp1d"), get("gp2d")
MODEL1, MODEL2 = (Model(small_functions(task)) for task in (GP1D, GP2D))


def some(name: str = "gp1d", batch: int = 3) -> Problem:
    return make_problem(name, GP1D if name in ("gp1d", "higdon") else GP2D, batch, 0)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_on_the_same_runs(method: str) -> None:
    problem = some()
    curves = learn(problem, policy_of(method, MODEL1, problem), problem.aimed(), 3, 1)
    assert curves.rmse.shape == curves.covered.shape == (3, 3)
    assert curves.log_q.shape == (3, 3, 2)
    assert torch.equal(curves.designs[:, 0], GP1D.spec.design.to_user(problem.start[:, 0]))
    assert curves.rmse.isfinite().all()
    assert bool(curves.log_q.isnan().all()) == method.startswith("gp")
    assert torch.allclose(curves.area, curves.rmse.mean(1))


def test_all_methods_are_told_the_same_noise_where_units_are_unknown() -> None:
    problem, inside = some("branin"), some("gp2d")
    noise = FunctionWorld(function_named("branin"), GP2D.spec, 1).noise
    unit = float(GP2D.spec.outcome.log_volume(torch.zeros(())).exp())
    for method in METHODS:
        policy: Any = policy_of(method, MODEL2, problem)
        if method.startswith("gp"):
            assert policy.noise == noise
            continue
        assert policy.engine.noise * unit == pytest.approx(noise, rel=1e-5)
        plain: Any = policy_of(method, MODEL2, inside)
        assert isinstance(plain.engine, BatchEngine)  # in the task's units, which it knows


def test_a_gp_learns_a_function_and_knows_how_well() -> None:
    problem = make_problem("higdon", GP1D, 3, 0)
    curves = learn(problem, policy_of("gp-us", MODEL1, problem), problem.aimed(), 25, 1)
    error = curves.rmse.mean(0)
    assert float(error[-1]) < 0.1 < 0.3 < float(error[0])


@pytest.mark.parametrize("name", ["gp1d", "higdon"])
def test_the_ensemble_asks_what_the_network_asks_and_answers_without_it(name: str) -> None:
    """Another network with the same kernels answers and asks the same."""
    problem = some(name)
    others = (MODEL1, Model(small_functions(GP1D, seed=5)))
    first, second = (
        learn(problem, policy_of("ensemble", model, problem), problem.aimed(), 4, 1)
        for model in others
    )
    ours = learn(problem, policy_of("aline", MODEL1, problem), problem.aimed(), 4, 1)
    assert torch.equal(first.designs, second.designs)
    assert torch.equal(first.rmse, second.rmse)
    assert torch.equal(first.designs, ours.designs)
    assert not torch.equal(first.covered, ours.covered) or not torch.equal(first.rmse, ours.rmse)


def test_errors_are_of_the_function_not_of_its_noise() -> None:
    problem = some(batch=40)
    first, second = (problem.exact.answer(problem.targets, seeded(seed)) for seed in (0, 1))
    assert torch.equal(first, second)
    noise = problem.world.answer(problem.targets, seeded(0)) - first
    assert float(noise.std()) == pytest.approx(0.01 / 0.6, rel=0.05)


@pytest.mark.parametrize("name", ["gp2d", "branin"])
def test_some_of_the_runs_are_the_same_functions(name: str) -> None:
    problem = some(name, batch=4)
    part = problem.runs(1, 3)
    assert part.batch == 2
    whole = problem.exact.answer(problem.targets, seeded(0))
    assert torch.allclose(part.exact.answer(part.targets, seeded(0)), whole[1:3], atol=1e-5)


def test_targets_within_a_region() -> None:
    inside = some("gp2d").within(Box(x1=(1.0, 2.0)), seeded(0))
    x1, x2 = GP2D.spec.design.to_user(inside.targets).unbind(-1)
    assert 1.0 <= float(x1.min()) < float(x1.max()) <= 2.0
    assert float(x2.min()) < -4.5
    assert inside.aimed_anywhere().points.shape == (3, 64, 2)


def test_a_run_is_timed() -> None:
    problem = some(batch=3)
    taken = seconds_per_run(problem, policy_of("aline", MODEL1, problem), 2, 2)
    assert taken.shape == (2,)
    assert bool((taken > 0).all())


def test_ratio_of_paired_means() -> None:
    """Its interval is that of the pairs: no wider for what both share."""
    generator = seeded(0)
    shared = 1 + torch.rand(4000, generator=generator).double()
    ours = 0.8 * shared + 0.01 * torch.randn(4000, generator=generator).double()
    found = ratio(ours, shared)
    assert found.value == pytest.approx(0.8, abs=3 * found.ci95)
    assert found.ci95 < 1e-3
    independent = ratio(ours, shared[torch.randperm(4000, generator=generator)])
    assert independent.ci95 > 5 * found.ci95
    assert math.isfinite(independent.ci95)


def test_mistakes() -> None:
    with pytest.raises(InputError, match="problems are gp1d"):
        make_problem("rosenbrock", GP1D, 2, 0)
    with pytest.raises(InputError, match="methods are aline"):
        policy_of("magic", MODEL1, some())
