"""The ensemble against Gaussian processes computed one at a time from their definition."""

import math

import pytest
import torch
from processes import Process
from small import random_context, seeded
from torch import Tensor

from aline.episodes import Context
from aline.errors import InternalError
from aline.functions.ensemble import NOISE_RATIO, Posterior, read, spread_kernels
from aline.functions.kernels import Kernels, spread_lengthscales
from aline.functions.known_points import REMEMBERED
from aline.tasks import get

SPEC = get("gp2d").spec
COUNT = 7
LENGTHSCALES = spread_lengthscales(COUNT, 2, 0.02 * math.sqrt(2), math.sqrt(2)).double()
PROCESSES = [Process(k % 3, LENGTHSCALES[k], NOISE_RATIO) for k in range(COUNT)]


KERNELS = Kernels.of(
    torch.arange(COUNT) % 3, LENGTHSCALES, torch.full((COUNT,), NOISE_RATIO).double()
)


def data(count: int) -> tuple[Tensor, Tensor, Tensor]:
    context = random_context(SPEC, 2, count)
    points = SPEC.design.sample(2, 5, seeded(3)).double()
    return context.designs.double(), context.outcomes.double(), points


def check(state: Posterior, group: int, episode: int, x: Tensor, y: Tensor, points: Tensor) -> None:
    """All that a group is told is what the processes say of its own observations."""
    evidence = state.evidence
    mean, left = state.moments(points)
    for k, process in enumerate(PROCESSES):
        log_scale, log_density = process.evidence(x[episode], y[episode])
        assert float(evidence.log_scale[episode, group, k]) == pytest.approx(log_scale, rel=1e-5)
        found = float(evidence.log_density[episode, group, k])
        assert found == pytest.approx(log_density, rel=1e-5)
        expected = process.moments(x[episode], y[episode], points[episode])
        for part, one in zip((mean, left), expected, strict=True):
            assert torch.allclose(part[episode, k, group], one, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("count", [1, 8])
def test_an_ensemble_is_its_processes(count: int) -> None:
    x, y, points = data(count)
    state = read(KERNELS, Context(x, y))
    for episode in (0, 1):
        check(state, 0, episode, x, y, points)


def test_every_prefix_is_a_context_of_its_own() -> None:
    x, y, points = data(8)
    lengths = torch.tensor([[0, 3, 8], [2, 5, 7]])
    visible = torch.arange(8) < lengths[..., None]
    whole = read(KERNELS, Context(x, y))
    for state in (read(KERNELS, Context(x, y), visible), whole.prefixes(visible)):
        for episode, group in ((0, 1), (0, 2), (1, 0), (1, 1), (1, 2)):
            n = int(lengths[episode, group])
            check(state, group, episode, x[:, :n], y[:, :n], points)


def test_growing_is_reading() -> None:
    x, y, points = data(6)
    state = read(KERNELS, Context(x[:, :0], y[:, :0]))
    for step in range(6):
        state = state.extend(x[:, step], y[:, step])
        if step != 2:  # nobody has to ask each time
            state.moments(points)
    for episode in (0, 1):
        check(state, 0, episode, x, y, points)


@pytest.mark.parametrize(("scale", "loc"), [(1000.0, 0.0), (1e-6, 3.0), (3.0, -5e6)])
def test_standardising_changes_no_factor(scale: float, loc: float) -> None:
    x, y, points = data(6)
    standard = (y - y.mean(1, keepdim=True)) / (y.std(1, keepdim=True) * math.sqrt(7 / 5))
    raw = y * scale + loc
    grown = read(KERNELS, Context(x[:, :0], raw[:, :0]), standardise=True)
    for step in range(6):
        grown = grown.extend(x[:, step], raw[:, step])
    for state in (grown, read(KERNELS, Context(x, raw), standardise=True)):
        for episode in (0, 1):
            check(state, 0, episode, x, standard, points)


def reduction(process: Process, x: Tensor, candidates: Tensor, targets: Tensor) -> Tensor:
    """By the definition: add the candidate to the data, and compare; last the variance now."""
    now = process.variance(x, targets)
    then = [process.variance(torch.cat([x, one[None]]), targets) for one in candidates]
    return torch.stack([*(now - one for one in then), now])


@pytest.mark.parametrize("wanted", [[True] * 4, [True, False, True, False]])
def test_the_share_is_the_variance_that_goes(wanted: list[bool]) -> None:
    x, y, candidates = data(6)
    targets, mask = SPEC.design.sample(2, 4, seeded(9)).double(), torch.tensor(wanted)
    state = read(KERNELS, Context(x, y))
    found = state.log_variance_share(candidates, targets, mask.expand(2, -1))[:, 0]
    for episode in (0, 1):
        at = targets[episode][mask]
        each = [reduction(p, x[episode], candidates[episode], at) for p in PROCESSES]
        every = torch.stack(each, -1)  # [query + 1, kernel]
        size = (state.evidence.log_weight + 2 * state.evidence.log_scale).exp()[episode, 0]
        expected = (every[:-1] @ size) / (every[-1] @ size)
        assert torch.allclose(found[episode].exp(), expected.clamp(1e-4, 1), rtol=1e-5)


def test_points_that_were_asked_about_before_are_not_computed_anew() -> None:
    x, y, candidates = data(8)
    targets, wanted = SPEC.design.sample(2, 3, seeded(9)).double(), torch.ones(2, 3) > 0
    grown = middle = read(KERNELS, Context(x[:, :0], y[:, :0]))
    for step in range(8):
        grown = grown.extend(x[:, step], y[:, step])
        if step != 3:
            grown.log_variance_share(candidates, targets, wanted)
        middle = grown if step == 5 else middle
    other = middle.extend(x[:, 7], y[:, 7])  # another future of the same past
    futures = (grown, [*range(8)]), (other, [0, 1, 2, 3, 4, 5, 7]), (middle, [*range(6)])
    for state, steps in futures:
        anew = read(KERNELS, Context(x[:, steps], y[:, steps]))
        each = (s.log_variance_share(candidates, targets, wanted) for s in (state, anew))
        assert torch.allclose(*each, atol=1e-8)


def test_points_are_found_by_identity_and_few_are_kept() -> None:
    x, y, targets = data(6)
    state, wanted = read(KERNELS, Context(x, y)), torch.ones(2, 5, dtype=torch.bool)
    for seed in range(12):
        candidates = SPEC.design.sample(2, 15, seeded(seed)).double()
        anew = read(KERNELS, Context(x, y))
        each = (s.log_variance_share(candidates, targets, wanted) for s in (state, anew))
        assert torch.allclose(*each, atol=1e-9)
        assert len(state.memory.known) <= REMEMBERED
        del candidates  # its memory may be used again at once


def test_single_precision_is_enough() -> None:
    """Smooth kernels make the worst conditioned matrices: fifty points of a smooth function."""
    x = SPEC.design.sample(4, 50, seeded(0)).double()
    y = x.sum(-1).sin()
    points = SPEC.design.sample(4, 20, seeded(1)).double()
    kernels = spread_kernels(2, COUNT)
    exact = read(KERNELS, Context(x, y)).moments(points)
    single = read(kernels, Context(x.float(), y.float())).moments(points.float())
    weight = read(KERNELS, Context(x, y)).evidence.log_weight.exp()[:, 0, :, None, None]
    means = [(weight * part[0]).sum(1) for part in (exact, single)]
    assert float((means[0] - means[1]).abs().max()) < 5e-3


def test_repeated_designs_and_long_contexts_stay_numbers() -> None:
    x = torch.zeros(1, 60, 2)
    x[:, 30:] = SPEC.design.sample(1, 30, seeded(0))
    state = read(spread_kernels(2, 9), Context(x, torch.randn(1, 60, generator=seeded(1))))
    assert all(part.isfinite().all() for part in state.moments(x))


def test_groups_that_are_no_prefixes_are_refused() -> None:
    x, y, _ = data(3)
    visible = torch.tensor([[True, False, True], [True, True, True]]).expand(2, 2, 3)
    with pytest.raises(InternalError, match="prefix"):
        read(KERNELS, Context(x, y), visible)
    with pytest.raises(InternalError, match="grow"):
        read(KERNELS, Context(x, y)).prefixes(visible).extend(x[:, 0], y[:, 0])
