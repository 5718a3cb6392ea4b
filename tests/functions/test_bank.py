"""The bank against Gaussian processes computed one at a time from their definition."""

import math

import pytest
import torch
from aline.model.running import begin
from small import SIZES, goal_for, largest_difference, random_context, seeded
from torch import Tensor

from aline.episodes import Context
from aline.errors import InputError, InternalError
from aline.functions.bank import NOISE, REMEMBERED, Bank, KernelBank
from aline.functions.task import KERNELS, covariance
from aline.model import Mixture, ModelConfig, Network, View, fresh
from aline.tasks import get

TASK = get("gp2d", horizon=8)
BANK = KernelBank.spread(2, 7)


def plain(kernel: int, x: Tensor, y: Tensor, points: Tensor) -> tuple[Tensor, Tensor, float, float]:
    """Mean and standard deviation at points, log scale and log marginal likelihood (unshifted)."""
    name = KERNELS[(0, 1, 2)[kernel % 3]]
    scale = BANK.inverse[kernel].double()

    def matrix(a: Tensor, b: Tensor) -> Tensor:
        return covariance(name, ((a[:, None] - b[None]) * scale).norm(dim=-1))

    own = matrix(x, x) + NOISE * torch.eye(len(x)).double()
    inverse = torch.linalg.inv(own)
    square = (float(y @ inverse @ y) + 1) / (len(y) + 1)
    cross = matrix(points, x)
    variance = (1 + NOISE - (cross @ inverse * cross).sum(1)) * square
    evidence = -(len(y) + 1) / 2 * math.log(square) - 0.5 * float(torch.logdet(own))
    return cross @ inverse @ y, variance.sqrt(), math.log(square) / 2, evidence


def check(bank: Bank, group: int, episode: int, x: Tensor, y: Tensor, points: Tensor) -> None:
    expected = [plain(k, x[episode], y[episode], points[episode]) for k in range(7)]
    weight = torch.tensor([e[3] for e in expected]).double().softmax(0)
    scale, log_weight, count = bank.weigh()
    assert torch.allclose(log_weight[episode, group].exp(), weight, atol=1e-6)
    assert torch.allclose(scale[episode, group], torch.tensor([e[2] for e in expected]).double())
    assert float(count[episode, group]) == pytest.approx(math.log1p(y.shape[1]))
    mean = sum(w * e[0] for w, e in zip(weight, expected, strict=True))
    spread = sum(
        w * (e[1] ** 2 + (e[0] - mean) ** 2) for w, e in zip(weight, expected, strict=True)
    )
    found = bank.predict(points[:, None])
    assert torch.allclose(found.mean[episode, group].double(), mean, atol=1e-4)
    assert torch.allclose(found.std[episode, group].double(), spread.sqrt(), atol=1e-4)
    several = bank.predict(points[:, None].expand(-1, bank.seen.shape[1], -1, -1))
    assert torch.allclose(several.mean, found.mean, atol=1e-5)
    assert torch.allclose(several.features, found.features, atol=1e-4)


def data(count: int) -> tuple[Tensor, Tensor, Tensor]:
    context = random_context(TASK.spec, 2, count)
    points = TASK.spec.design.sample(2, 5, seeded(3)).double()
    return context.designs.double(), context.outcomes.double(), points


@pytest.mark.parametrize("count", [1, 8])
def test_a_bank_is_its_processes(count: int) -> None:
    x, y, points = data(count)
    bank = BANK.read(Context(x, y), None, None)
    for episode in (0, 1):
        check(bank, 0, episode, x, y, points)


def test_every_prefix_is_a_context_of_its_own() -> None:
    x, y, points = data(8)
    lengths = torch.tensor([[0, 3, 8], [2, 5, 7]])
    bank = BANK.read(Context(x, y), torch.arange(8) < lengths[..., None], None)
    for group, length in ((1, 3), (2, 8)):
        check(bank, group, 0, x[:, :length], y[:, :length], points)
    for group, length in ((0, 2), (1, 5), (2, 7)):
        check(bank, group, 1, x[:, :length], y[:, :length], points)


def plain_worth(kernel: int, x: Tensor, y: Tensor, candidates: Tensor, targets: Tensor) -> Tensor:
    """The fall of the targets' variance, then that variance: [query + 1], unscaled."""
    name, scale = KERNELS[kernel % 3], BANK.inverse[kernel].double()

    def matrix(a: Tensor, b: Tensor) -> Tensor:
        return covariance(name, ((a[:, None] - b[None]) * scale).norm(dim=-1))

    def left(x: Tensor) -> Tensor:
        cross = matrix(targets, x)
        own = matrix(x, x) + NOISE * torch.eye(len(x)).double()
        return (1 - (cross @ torch.linalg.inv(own) * cross).sum(1)).sum()

    now = left(x)
    return torch.stack([*(now - left(torch.cat([x, one[None]])) for one in candidates), now])


def test_the_worth_of_a_candidate_is_the_variance_it_takes_away() -> None:
    """By the definition: add the candidate to the data, and compare the targets' variances."""
    x, y, candidates = data(6)
    targets = TASK.spec.design.sample(2, 4, seeded(9)).double()
    wanted = torch.tensor([[True] * 4, [True, False, True, False]])
    bank = BANK.read(Context(x, y), None, None)
    found = bank.worth(candidates[:, None], targets, wanted)[:, 0]
    scale, weight, _ = bank.weigh()
    for episode in (0, 1):
        at = targets[episode][wanted[episode]]
        parts = [plain_worth(k, x[episode], y[episode], candidates[episode], at) for k in range(7)]
        every = torch.stack(parts, -1)  # [query + 1, kernel]
        size = (weight + 2 * scale).exp()[episode, 0]
        average = (every[:-1] @ size) / (every[-1] @ size)
        expected = torch.cat([every[:-1] / every[-1], average[:, None]], -1)
        assert torch.allclose(found[episode].exp().double(), expected.clamp(1e-4, 1), atol=1e-4)


def test_points_that_were_asked_about_before_are_not_computed_anew() -> None:
    x, y, candidates = data(8)
    targets, wanted = TASK.spec.design.sample(2, 3, seeded(9)).double(), torch.ones(2, 3) > 0
    nothing = Context(x[:, :0], y[:, :0])
    grown, middle = BANK.read(nothing, None, None), None
    for step in range(8):
        grown = grown.extend(x[:, step], y[:, step])
        if step != 3:  # nobody has to ask each time
            grown.worth(candidates[:, None], targets, wanted)
        middle = grown if step == 5 else middle
    assert middle is not None
    other = middle.extend(x[:, 7], y[:, 7])  # another future of the same past
    for bank, steps in (
        (grown, list(range(8))),
        (other, [0, 1, 2, 3, 4, 5, 7]),
        (middle, range(6)),
    ):
        anew = BANK.read(Context(x[:, list(steps)], y[:, list(steps)]), None, None)
        for ask in (
            lambda b: b.worth(candidates[:, None], targets, wanted),
            lambda b: b.predict(candidates[:, None]).features,
        ):
            assert torch.allclose(ask(bank), ask(anew), atol=1e-5)


def test_points_in_the_place_of_forgotten_ones_are_computed_anew() -> None:
    """Memory that was freed is used again at once: the same address, other points."""
    x, y, targets = data(6)
    bank, wanted = BANK.read(Context(x, y), None, None), torch.ones(2, 5, dtype=torch.bool)
    for seed in range(12):
        candidates = TASK.spec.design.sample(2, 15, seeded(seed)).double()[:, None]
        for other in (3, 4):
            bank.at(TASK.spec.design.sample(2, other, seeded(seed)).double()[:, None])
        fresh_bank = BANK.read(Context(x, y), None, None)
        worths = [one.worth(candidates, targets, wanted) for one in (bank, fresh_bank)]
        assert torch.allclose(*worths, atol=1e-5)
        assert len(bank.shared) <= REMEMBERED
        del candidates


def test_one_factor_serves_all_prefixes() -> None:
    x, y, candidates = data(8)
    targets, wanted = TASK.spec.design.sample(2, 3, seeded(9)).double(), torch.ones(2, 3) > 0
    whole = BANK.read(Context(x, y), None, None)
    for lengths in (torch.tensor([[3], [3]]), torch.tensor([[2, 8], [5, 7]])):
        visible = torch.arange(8) < lengths[..., None]
        part, anew = whole.prefixes(visible), BANK.read(Context(x, y), visible, None)
        asked = candidates[:, None]
        assert torch.allclose(part.predict(asked).features, anew.predict(asked).features, atol=1e-5)
        same = [bank.worth(asked, targets, wanted) for bank in (part, anew)]
        assert torch.allclose(*same, atol=1e-5)


def test_other_outcomes_at_the_same_designs() -> None:
    x, y, points = data(5)
    bank = BANK.read(Context(x, y), None, None).restated(3 * y + 1)
    for episode in (0, 1):
        check(bank, 0, episode, x, 3 * y + 1, points)


def test_an_observation_of_a_groups_own() -> None:
    """As an alternative is judged: without one of the others, and with one more a group."""
    x, y, points = data(8)
    kept = torch.tensor([True, True, False, True, True, True, False, False])
    own = Context(TASK.spec.design.sample(4, 1, seeded(5)).double(), torch.randn(4, 1).double())
    bank = BANK.read(Context(x, y), kept.expand(2, 2, 8), own)
    for episode in (0, 1):
        for group in (0, 1):
            row = 2 * episode + group
            more = torch.cat([x[:, kept], own.designs[row].expand(2, 1, -1)], 1)
            outcomes = torch.cat([y[:, kept], own.outcomes[row].expand(2, 1)], 1)
            check(bank, group, episode, more, outcomes, points)


def test_single_precision_is_enough() -> None:
    """Smooth kernels make the worst conditioned matrices: fifty points of a smooth function."""
    x = TASK.spec.design.sample(4, 50, seeded(0)).double()
    y = x.sum(-1).sin()
    points = TASK.spec.design.sample(4, 20, seeded(1))[:, None].double()
    exact = BANK.read(Context(x, y), None, None).predict(points)
    single = BANK.read(Context(x.float(), y.float()), None, None).predict(points)
    assert largest_difference(exact.mean, single.mean) < 5e-3
    assert largest_difference(exact.std.log(), single.std.log()) < 0.1


def test_before_any_data_the_bank_expects_the_prior() -> None:
    bank = BANK.read(Context.empty(2, 2), None, None)
    found = bank.predict(torch.zeros(2, 1, 3, 2))
    assert torch.equal(found.mean, torch.zeros(2, 1, 3))
    assert torch.allclose(found.std, torch.full((2, 1, 3), math.sqrt(1 + NOISE)))
    assert bank.describe().isfinite().all()


def test_repeated_designs_and_long_contexts_stay_numbers() -> None:
    x = torch.zeros(1, 60, 2)
    x[:, 30:] = TASK.spec.design.sample(1, 30, seeded(0))
    bank = BANK.read(Context(x, torch.randn(1, 60, generator=seeded(1))), None, None)
    assert bank.predict(x[:, None]).features.isfinite().all()


def test_groups_that_are_no_prefixes_are_refused() -> None:
    x, y, _ = data(3)
    visible = torch.tensor([[True, False, True], [True, True, True]]).expand(2, 2, 3)
    with pytest.raises(InternalError, match="prefix"):
        BANK.read(Context(x, y), visible, None)


def network(context: str = "independent") -> Network:
    config = ModelConfig(
        plugin="functions", plugin_settings={"kernels": 6}, context=context, **SIZES
    )  # type: ignore[arg-type]
    return fresh(TASK.spec, config, seeded(0)).eval().requires_grad_(False)


def numbers(view: View, goal_points: Tensor) -> list[Tensor]:
    belief = view.predictive(goal_points[:, None])
    assert isinstance(belief, Mixture)
    posterior = view.posterior()
    scores = view.scores(goal_points[:, None], goal_for(TASK.spec, ("predictions",), 1))
    return [belief.mean, belief.std, posterior.mean, posterior.std, scores]


@pytest.mark.parametrize("context", ["independent", "full"])
def test_a_network_with_kernels_grows_as_it_reads(context: str) -> None:
    made = network(context)
    whole = random_context(TASK.spec, 1, 6)
    points = TASK.spec.design.sample(1, 4, seeded(2))
    live = begin(made)
    for step in range(6):
        live = live.extend(whole.designs[:, step], whole.outcomes[:, step])
        if step == 2:
            third = numbers(live, points)
    for grown, read in zip(numbers(live, points), numbers(made.read(whole), points), strict=True):
        assert largest_difference(grown, read) < 1e-4
    prefix = torch.tensor([[[True] * 3 + [False] * 3, [True] * 6]])
    belief = made.read(whole, prefix).predictive(points[:, None])
    assert isinstance(belief, Mixture)
    assert largest_difference(belief.mean[:, :1], third[0]) < 1e-4


def test_untrained_predictions_are_near_the_banks() -> None:
    """What a new network has still to learn is small."""
    world = TASK.draw(20, seeded(0))
    x = TASK.spec.design.sample(20, 30, seeded(1))
    points = TASK.spec.design.sample(20, 30, seeded(2))
    view = network().read(Context(x, world.answer(x, seeded(3))))
    belief = view.predictive(points[:, None])
    assert isinstance(belief, Mixture)
    truth = world.answer(points, seeded(4))
    error = (belief.moments()[0][:, 0] - truth).square().mean().sqrt()
    assert float(error) < 0.8 * float(truth.std())


def test_mistakes() -> None:
    with pytest.raises(InputError, match="pool"):
        ModelConfig(plugin="functions", plugin_settings={"kernels": 4}, policy="box")
    with pytest.raises(InputError, match="real outcomes"):
        Network(
            get("psychometric").spec,
            ModelConfig(plugin="functions", plugin_settings={"kernels": 4}),
        )
