"""One pass for all that ask at the same moment, and each gets its own."""

import asyncio

import pytest

import aline
from aline.app.service import chooser
from aline.app.service.chooser import MOST, Chooser
from aline.experiment import Experiment, prepare

MODEL = aline.load("psychometric")


def start(seed: int, trials: int, **settings: object) -> Experiment:
    experiment = aline.Experiment(MODEL, seed=seed, **settings)
    for number in range(trials):
        experiment.tell(experiment.ask(), number % 2)
    return experiment


def test_each_gets_the_design_that_it_would_choose_alone() -> None:
    together = [start(seed, trials=seed % 4) for seed in range(6)]
    alone = [start(seed, trials=seed % 4) for seed in range(6)]
    prepare(together)
    for one, other in zip(together, alone, strict=True):
        assert one.ask().design == pytest.approx(other.ask().design, abs=1e-5)


def test_one_that_cannot_choose_holds_up_no_other() -> None:
    stuck, finished, well = start(0, 1), start(1, 2, horizon=2), start(2, 1)
    stuck.restrict({"stimulus": [0.5]}, repeats=False)
    stuck.tell(stuck.ask(), 1)
    prepare([stuck, finished, well])
    assert well.ask().number == 1
    for one in (stuck, finished):
        with pytest.raises(aline.errors.StateError):
            one.ask()


def test_who_asks_at_the_same_moment_shares_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[int] = []
    monkeypatch.setattr(chooser, "prepare", lambda some: groups.append(len(some)))
    experiment = start(0, 0)

    async def main() -> None:
        one = Chooser()
        tasks = [asyncio.create_task(one.choose(experiment)) for _ in range(MOST + 3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.gather(*tasks[1:])
        await one.choose(experiment)

    asyncio.run(main())
    assert groups == [MOST, 3, 1]


def test_a_pass_that_fails_leaves_each_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(some: object) -> None:
        raise ArithmeticError("no numbers")

    monkeypatch.setattr(chooser, "prepare", fail)
    said: list[object] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: said.append(what))
        await asyncio.wait_for(Chooser().choose(start(0, 0)), 5)

    asyncio.run(main())
    assert said
