"""A thousand trials in a row: contexts far longer than any training."""

import time
import tracemalloc

import pytest
import torch
from small import small_functions, small_model

from aline.engine.engine import MANY
from aline.errors import InputError
from aline.evaluation.simulated import posteriors_after
from aline.experiment import Experiment, Posterior
from aline.experiment.storage import MemoryStorage
from aline.model import Model


def test_a_thousand_trials_neither_slow_down_nor_grow_nor_drift() -> None:
    model = small_model("psychometric")
    experiment = Experiment(model, ["threshold"], horizon=1000, candidates=40)
    seconds, held = [], {}
    for number in range(1000):
        if number == 899:  # not before: it makes a trial three times as long
            tracemalloc.start()
        before = time.process_time()  # unlike the clock, it does not depend on the load
        trial = experiment.ask()
        experiment.tell(trial, number % 3 == 0)
        seconds.append(time.process_time() - before)
        if number in (899, 999):
            held[number] = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert experiment.finished
    assert sorted(seconds)[-5] < 0.05
    # What is kept is the trials themselves: a few hundred bytes each.
    assert held[999] - held[899] < 100 * 4000
    state = experiment._state
    live = state.engine.posterior(state.data).moments()[0][0]
    at_once = posteriors_after(model.network, state.context, [1000]).moments()[0][0, 0]
    assert torch.allclose(live, at_once, atol=1e-4)


@pytest.mark.parametrize("kind", ["psychometric", "functions"])
def test_what_is_read_at_once_is_what_was_read_one_by_one(kind: str) -> None:
    """After a resumption, an undo and in the history of more trials than are read one by one."""
    storage, before = MemoryStorage(), None
    model = Model(small_functions()) if kind == "functions" else small_model("psychometric")
    # A last digit may change which hypotheses are drawn near the data.
    tolerance = 1e-2 if kind == "functions" else 1e-4
    (axis,) = model.spec.design.names
    experiment = Experiment(model, storage=storage, horizon=MANY + 20)
    designs = {axis: torch.linspace(-4, 4, MANY + 5).tolist()}
    experiment.attach(designs, [float(n % 3 == 0) for n in range(MANY + 5)])
    for number in range(3):
        before = experiment.posterior()
        experiment.tell(experiment.ask(), number % 2)
    resumed = Experiment.resume(storage, model=model)
    _assert_same(resumed.posterior(), experiment.posterior(), tolerance)
    lengths = [0, 7, MANY + 7, MANY + 8]
    whole = experiment.history()
    for n, found in zip(lengths, resumed.history(lengths), strict=True):
        _assert_same(found, whole[n], tolerance)
    with pytest.raises(InputError, match="lengths must ascend"):
        resumed.history([3, 1])
    experiment.undo()
    assert before is not None
    _assert_same(experiment.posterior(), before, tolerance)


def _assert_same(a: Posterior, b: Posterior, tolerance: float) -> None:
    for name in a.names:
        wanted = pytest.approx((b[name].mean, b[name].std), rel=tolerance)
        assert (a[name].mean, a[name].std) == wanted
