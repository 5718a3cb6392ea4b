import pytest
import torch
from small import goal_for, seeded

from aline.episodes import Context
from aline.errors import InputError
from aline.evaluation import exact_log_marginals
from aline.evaluation.greedy import exact_greedy, information_share
from aline.tasks import get


def test_its_posterior_is_the_exact_one() -> None:
    task, generator = get("psychometric"), seeded(0)
    oracle = exact_greedy(task, (48, 20, 6, 6))
    world = task.draw(2, generator)
    stimuli = oracle.stimuli[torch.randint(200, (2, 12), generator=generator)]
    outcomes = world.answer(stimuli, generator)
    state = oracle.begin(goal_for(task.spec, ("lapse",), 2))
    for step in range(12):
        state = oracle.observe(state, stimuli[:, step], outcomes[:, step])
    # The exact density at sixty evenly likely lapse rates gives the exact mean.
    z = torch.special.ndtri((torch.arange(60) + 0.5) / 60)
    theta = torch.stack([torch.zeros(60)] * 3 + [z], 1)
    lapse = task.spec.parameters.to_labels(theta)["lapse"]
    for row in range(2):
        same = (stimuli[row].expand(60, -1, -1), outcomes[row].expand(60, -1))
        log_density = exact_log_marginals(task, Context(*same), theta, [12], (48, 16, 6, 6))
        weight = (log_density[:, 0, 3] + 0.5 * z**2).softmax(0)  # uniform in the prior's quantile
        mean = float(oracle.moments(state)[0]["lapse"][row])
        assert mean == pytest.approx(float(weight @ lapse), abs=2e-3)


def test_more_nodes_change_no_choice_that_matters() -> None:
    task, generator = get("psychometric"), seeded(1)
    coarse, fine = exact_greedy(task, (48, 20, 6, 6)), exact_greedy(task, (72, 28, 8, 8))
    stimuli = coarse.stimuli[torch.randint(200, (3, 10), generator=generator)]
    outcomes = task.draw(3, generator).answer(stimuli, generator)
    found = []
    for oracle in (coarse, fine):
        state = oracle.begin(goal_for(task.spec, ("threshold", "slope"), 3))
        for step in range(10):
            state = oracle.observe(state, stimuli[:, step], outcomes[:, step])
        found.append(oracle.information(state))
    assert torch.allclose(*found, atol=0.02 * float(found[1].max()))


def test_the_greedy_choice_has_a_share_of_one_and_no_other_more() -> None:
    task = get("psychometric")
    oracle = exact_greedy(task, (16, 8, 4, 4))
    state = oracle.begin(goal_for(task.spec, ("guess", "lapse"), 2))
    best = oracle.choose(state, None, seeded(0))
    other = oracle.stimuli[[100, 30]]
    designs = torch.stack([best, other], 1)
    shares = information_share(oracle, Context(designs, torch.ones(2, 2)), ("guess", "lapse"))
    assert shares[:, 0].tolist() == pytest.approx([1.0, 1.0])
    assert bool((shares[:, 1] < 1).all())
    with pytest.raises(InputError, match="not among"):
        information_share(oracle, Context(designs + 1e-3, torch.ones(2, 2)), ("guess",))
