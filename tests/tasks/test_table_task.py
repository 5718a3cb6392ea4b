"""Episodes on recorded tables, and a training that learns from them."""

import pytest
import torch

import aline
from aline.episodes import Context, draw_goals
from aline.errors import InputError
from aline.tasks.table_task import TableTask
from aline.tasks.tables import Table, Tables


def landscape(number: int, rows: int = 40) -> Table:
    """A line whose slope is the data set's own."""
    generator = torch.Generator().manual_seed(number)
    X = torch.rand(rows + number % 3, 2, generator=generator)
    slope = torch.randn(2, generator=generator)
    return Table(f"d{number}", X, X @ slope)


@pytest.fixture(scope="module")
def tables() -> Tables:
    return Tables.of("lines", ["a", "b"], [landscape(i) for i in range(30)])


def test_a_world_answers_with_what_was_recorded(tables: Tables) -> None:
    task, generator = TableTask(tables), torch.Generator()
    world = task.draw(50, generator)
    designs = world.sample(9, generator)
    answers = task.spec.outcome.to_user(world.answer(designs, generator))
    for which, x, y in zip(world.which, task.spec.design.to_user(designs), answers, strict=True):
        table = tables.part("train")[which]
        rows = torch.cdist(x, table.X).argmin(1)
        torch.testing.assert_close(table.X[rows], x, rtol=0, atol=1e-6)
        torch.testing.assert_close(table.y[rows], y, rtol=0, atol=1e-5)


def test_designs_come_without_repeats_while_there_are_any(tables: Tables) -> None:
    world = TableTask(tables).draw(20, torch.Generator())
    for rows in world.sample(40, torch.Generator()):
        assert len(rows.unique(dim=0)) == 40
    assert world.sample(100, torch.Generator()).shape == (20, 100, 2)


def test_only_what_was_recorded_is_answered(tables: Tables) -> None:
    world = TableTask(tables).draw(2, torch.Generator())
    with pytest.raises(InputError, match="only recorded configurations"):
        world.answer(torch.full((2, 1, 2), 0.1234), torch.Generator())


def test_goals_are_recorded_points(tables: Tables) -> None:
    task = TableTask(tables)
    world = task.draw(20, torch.Generator())
    goal = draw_goals(task.spec, 20, torch.Generator(), world)
    assert goal.points.shape[1] > 0
    world.answer(goal.points, torch.Generator())  # it would refuse others


def test_episodes_are_of_one_part_and_scales_of_the_training_part(tables: Tables) -> None:
    train = TableTask(tables)
    test = train.on("test")
    assert len(train.recorded.count) == len(tables.part("train"))
    assert len(test.recorded.count) == len(tables.part("test"))
    assert test.spec is train.spec
    assert set(train.spec.config["learned_from"]) == {t.name for t in tables.part("train")}


@pytest.mark.parametrize("model", [{}, {"policy": "pool", "plugin": None, "plugin_settings": {}}])
def test_training_learns_from_tables(tables: Tables, model: dict[str, object]) -> None:
    task = TableTask(tables, horizon=4, start=1)
    config = {"batch": 8, "updates": 2, "pool": 12, "warmup": 0.5}
    trained = aline.train(task, rounds=2, progress=False, model=model, config=config)
    assert trained.spec.name == "lines"


def test_a_kernel_learns_that_landscapes_are_lines(tables: Tables) -> None:
    task = TableTask(tables, horizon=4, start=1)
    config = {"batch": 16, "updates": 4, "warmup": 1.0, "learning_rate": 5e-3}
    kernel = {"plugin_settings": {"features": 8, "hidden": 32}}
    trained = aline.train(task, rounds=40, progress=False, model=kernel, config=config)
    world = task.on("test").draw(64, torch.Generator())
    designs, points = world.sample(12, torch.Generator()).split([4, 8], 1)
    context = Context(designs, world.answer(designs, torch.Generator()))
    network = trained.network
    belief = network.predictive(network.encode(context), points)
    error = belief.moments()[0][:, 0] - world.answer(points, torch.Generator())
    spread = world.answer(points, torch.Generator()).std()
    # Three numbers make a line: four outcomes leave little.
    assert float(error.square().mean().sqrt()) < 0.4 * float(spread)
