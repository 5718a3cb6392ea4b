"""A thousand trials in a row: contexts far longer than any training."""

import time
import tracemalloc

import torch
from small import small_model

from aline.evaluation.simulated import posteriors_after
from aline.experiment import Experiment


def test_a_thousand_trials_neither_slow_down_nor_grow_nor_drift() -> None:
    model = small_model("psychometric")
    experiment = Experiment(model, ["threshold"], horizon=1000, candidates=40)
    seconds, held = [], {}
    tracemalloc.start()
    for number in range(1000):
        before = time.process_time()  # unlike the clock, it does not depend on the load
        trial = experiment.ask()
        experiment.tell(trial, number % 3 == 0)
        seconds.append(time.process_time() - before)
        if number in (499, 999):
            held[number] = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert experiment.finished
    assert sorted(seconds)[-5] < 0.05
    # What is kept is the trials themselves: a few hundred bytes each.
    assert held[999] - held[499] < 500 * 4000
    state = experiment._state
    live = state.view.posterior().moments()[0][0, 0]
    at_once = posteriors_after(model.network, state.view.context, [1000]).moments()[0][0, 0]
    assert torch.allclose(live, at_once, atol=1e-4)
