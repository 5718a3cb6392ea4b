"""The compiled step says what the plain one says, whatever the sizes, and stays within bounds."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from small import SIZES, seeded
from torch import Tensor

from aline.episodes import Context, FixedPool, Goal, play
from aline.model import Mixture, ModelConfig, Network, View, fresh, live_native
from aline.policies import LearnedPolicy
from aline.model.kernels import KernelBank
from aline.model.live_bank import LiveBank
from aline.model.live_functions import FunctionView, begin_function
from aline.model.live_native import NativeView, begin_native
from aline.model.native_bank import NativeBank
from aline.model.running import begin
from aline.tasks import Task, get
from aline.tasks.gp import gp

pytestmark = pytest.mark.usefixtures("compiled")


def network(task: Task, **changes: object) -> Network:
    config = ModelConfig(**{"kernels": 6, **SIZES, **changes})  # type: ignore[arg-type]
    return fresh(task.spec, config, seeded(0)).eval().requires_grad_(False)


def goal_at(points: Tensor, parameters: list[bool]) -> Goal:
    """Of points [target, design] and some of the parameters."""
    return Goal(
        torch.tensor([parameters]), points[None], torch.ones(1, len(points), dtype=torch.bool)
    )


def sampled(task: Task, count: int, seed: int) -> Tensor:
    """Points [1, count, design]."""
    return task.spec.design.sample(1, count, seeded(seed))


def smooth_data(task: Task, count: int) -> Context:
    """Of a smooth function: noise would leave little of the digits, whichever step reads it."""
    designs = sampled(task, count, 0)
    return Context(designs, (3 * designs.sum(-1)).sin())


def assert_close(one: Tensor, other: Tensor, tolerance: float = 2e-4) -> None:
    assert one.shape == other.shape
    assert torch.allclose(one, other, atol=tolerance, rtol=tolerance)


def assert_same_belief(one: object, other: object) -> None:
    assert isinstance(one, Mixture)
    assert isinstance(other, Mixture)
    for name in ("log_weight", "mean", "std"):
        assert_close(getattr(one, name), getattr(other, name))
    for a, b in zip(one.moments(), other.moments(), strict=True):
        assert_close(a, b)


def test_the_environment_may_ask_for_the_plain_step(monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(get("gp1d"))
    assert type(begin(made)) is NativeView
    monkeypatch.setenv("ALINE_NATIVE", "0")
    assert type(begin(made)) is FunctionView


@pytest.mark.parametrize(
    ("design", "kernels", "candidates", "targets", "observations"),
    [(1, 1, 1, 1, 0), (1, 12, 15, 17, 3), (2, 5, 16, 16, 34), (3, 4, 33, 1, 70), (5, 2, 1, 40, 5)],
)
def test_banks_of_all_sizes(
    design: int, kernels: int, candidates: int, targets: int, observations: int
) -> None:
    """Asked after every observation, and at once after all of them."""
    bank, task = KernelBank.spread(design, kernels), gp(design)
    data = smooth_data(task, observations)
    pool, goal = sampled(task, candidates, 3), sampled(task, targets, 4)
    every = torch.ones(1, targets, dtype=torch.bool)
    plain, asked, late = LiveBank.empty(bank), NativeBank.empty(bank), NativeBank.empty(bank)
    for row in range(observations):
        new = data.designs[:, row], data.outcomes[:, row]
        asked.worth(pool[None], goal, every)
        plain, asked, late = plain.extend(*new), asked.extend(*new), late.extend(*new)
    for native in (asked, late):
        assert_close(native.describe(), plain.describe(), 1e-3)
        assert_close(
            native.worth(pool[None], goal, every), plain.worth(pool[None], goal, every), 5e-3
        )
        found, expected = native.predict(pool[None]), plain.predict(pool[None])
        assert_close(found.mean, expected.mean, 1e-3)
        assert_close(found.std, expected.std, 1e-3)
        assert_close(found.features, expected.features, 5e-3)


@pytest.mark.parametrize(
    ("dimensions", "changes"),
    [
        (1, {}),
        (3, {"width": 20, "heads": 4, "feedforward": 13, "components": 3, "octaves": 1}),
        (2, {"layers": 1, "policy_layers": 1, "kernels": 1, "width": 6, "heads": 1}),
        (1, {"shortcuts": False, "components": 1, "feedforward": 5, "width": 9, "heads": 3}),
        (2, {"hypotheses": 16, "layers": 2, "policy_layers": 2, "width": 32, "heads": 2}),
    ],
)
@pytest.mark.parametrize("count", [0, 1, 8])
def test_networks_of_all_sizes(dimensions: int, changes: dict[str, object], count: int) -> None:
    task = gp(dimensions)
    made = network(task, **changes)
    data = smooth_data(task, count)
    compiled: View = begin_native(made)
    plain: View = begin_function(made)
    points, pool = sampled(task, 35, 2)[:, None], sampled(task, 70, 5)
    for row in range(count):
        compiled = compiled.extend(data.designs[:, row], data.outcomes[:, row])
        plain = plain.extend(data.designs[:, row], data.outcomes[:, row])
    assert_same_belief(compiled.predictive(points), plain.predictive(points))
    assert_same_belief(compiled.posterior(), plain.posterior())
    one = points[:, :, :1]
    assert_same_belief(compiled.predictive(one), plain.predictive(one))
    none = [False] * len(task.spec.parameters)
    first = [True, *none[1:]]
    some, no_points = points[0, 0], points[0, 0, :0]
    for goal in (
        goal_at(some, none), goal_at(one[0, 0], none), goal_at(no_points, first),
        goal_at(some, first),
    ):  # fmt: skip
        for offered in (pool[:, :1], pool[:, :17], pool):
            scores = plain.scores(offered[:, None], goal)
            assert_close(compiled.scores(offered[:, None], goal), scores, 5e-3)
            best = scores[0, 0, compiled.best(offered, goal)]
            assert float(best) == pytest.approx(float(scores.max()), abs=1e-2)


def test_an_older_view_says_what_it_said() -> None:
    """After newer ones, and several of them, were made and asked."""
    task = gp(2)
    made, data = network(task), smooth_data(task, 25)
    points, pool = sampled(task, 20, 2)[:, None], sampled(task, 100, 5)
    goal = goal_at(points[0, 0], [False] * len(task.spec.parameters))
    views: list[View] = [begin_native(made)]
    said = []
    for row in range(25):
        said.append((views[-1].predictive(points), views[-1].scores(pool[:, None], goal)))
        views[-1].extend(pool[:, row], data.outcomes[:, 0]).predictive(points)  # is let go
        views.append(views[-1].extend(data.designs[:, row], data.outcomes[:, row]))
    again = sampled(task, 20, 2)[:, None]  # the same, but elsewhere in memory
    for view, (belief, scores) in zip(views[:-1], said, strict=True):
        view.extend(pool[:, 50], data.outcomes[:, 0]).scores(pool[:, None], goal)
        assert_same_belief(view.predictive(again), belief)
        assert_close(view.scores(pool[:, None], goal), scores, 5e-3)


def test_threads_may_go_on_from_the_same_view() -> None:
    task = gp(1)
    made, data = network(task), smooth_data(task, 30)
    points = sampled(task, 50, 2)[:, None]

    def go_on(view: View, rows: list[int]) -> Tensor:
        for row in rows:
            view = view.extend(data.designs[:, row], data.outcomes[:, row])
            belief = view.predictive(points)
        assert isinstance(belief, Mixture)
        return belief.moments()[0]

    past: View = begin_native(made).extend(data.designs[:, 0], data.outcomes[:, 0])
    past.predictive(points)
    orders = [[int(row) for row in torch.randperm(30, generator=seeded(i))] for i in range(16)]
    expected = [go_on(past, order) for order in orders]
    with ThreadPoolExecutor(4) as threads:
        for found, alone in zip(
            threads.map(go_on, [past] * len(orders), orders), expected, strict=True
        ):
            assert_close(found, alone)


def test_a_run_takes_the_same_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    task = gp(1)
    made = network(task, hypotheses=16)
    world, pool = task.draw(1, seeded(1)), sampled(task, 200, 3)
    goal = goal_at(sampled(task, 60, 4)[0], [False] * len(task.spec.parameters))

    def designs() -> Tensor:
        return play(
            LearnedPolicy(made), world, goal, steps=20, generator=seeded(0),
            offers=FixedPool(pool), given=pool[:, :1],
        ).designs  # fmt: skip

    compiled = designs()
    monkeypatch.setenv("ALINE_NATIVE", "0")
    assert torch.equal(compiled, designs())


def test_a_shortlist_has_the_largest_of_what_is_allowed() -> None:
    native = live_native.native
    generator = np.random.default_rng(0)
    for count, most in ((1, 1), (5, 9), (500, 64), (500, 499), (64, 64)):
        values = generator.random(count, np.float32)
        among = np.empty(most, np.int64)
        found = native.shortlist(count, most, values, None, among)
        expected = np.sort(np.argsort(-values)[:most])
        assert among[:found].tolist() == expected.tolist()
        allowed = generator.random(count) < 0.1
        found = native.shortlist(count, most, values, allowed, among)
        expected = np.sort([i for i in np.argsort(-values) if allowed[i]][:most])
        assert among[:found].tolist() == (expected.tolist() or [0])


def test_buffers_of_another_size_are_refused() -> None:
    native = live_native.native
    values, among = np.zeros(5, np.float32), np.empty(2, np.int64)
    for given in (
        (6, 2, values, None, among),
        (5, 3, values, None, among),
        (5, 2, values.astype(np.float64), None, among),
        (5, 2, values[::2], None, among),
        (5, 2, values, None),
        (5, 2, values, None, among, among),
        (-1, 2, values, None, among),
    ):
        with pytest.raises((ValueError, TypeError, BufferError)):
            native.shortlist(*given)
    point, wide = np.zeros((1, native.LANES), np.float32), np.zeros((3, native.LANES), np.float32)
    fits, out = np.zeros(1, np.float32), np.empty(1, np.float32)
    with pytest.raises(IndexError, match="no column 3 of 3"):
        native.expect(
            1, 3, 1, native.LANES, np.array([3]), point, point, fits, fits, out, out.copy(),
            np.empty(6, np.float32),
        )  # fmt: skip
    with pytest.raises(ValueError, match="whole blocks"):
        native.find(1, 3, native.LANES + 1, wide, fits)
