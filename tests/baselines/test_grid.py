"""Grid methods against the definitions of their papers, computed the long way."""

import math

import pytest
import torch
from small import goal_for, seeded
from torch import Tensor

from aline.baselines import PsiMarginal, QuestPlus
from aline.baselines.grid import GridPolicy
from aline.episodes import Goal, Offer
from aline.errors import InputError
from aline.tasks import Task, get

GRID = {"threshold": 7, "slope": 4, "guess": 3, "lapse": 3}
NAMES = tuple(GRID)


@pytest.fixture(scope="module")
def task() -> Task:
    return get("psychometric")


@pytest.fixture(scope="module")
def psi(task: Task) -> PsiMarginal:
    return PsiMarginal(task, GRID, {"stimulus": torch.linspace(-5, 5, 9).tolist()})


def after_some_trials(method: GridPolicy, goal: Goal):  # type: ignore[no-untyped-def]
    state = method.begin(goal)
    for i, answers in enumerate([[1.0, -1.0], [-1.0, -1.0], [1.0, 1.0]]):
        state = method.observe(state, method.stimuli[[2 * i, 2 * i + 2]], torch.tensor(answers))
    return state


def expected_entropy(
    weight: Tensor, yes: Tensor, shape: tuple[int, ...], targets: list[int]
) -> Tensor:
    """As published: the posterior after each answer to each stimulus, its entropy, their mean."""
    found = []
    nuisance = [i for i in range(len(shape)) if i not in targets]
    for p in yes.double():
        total = 0.0
        for likelihood in (p, 1 - p):
            joint = weight.double() * likelihood
            evidence = joint.sum()
            posterior = (joint / evidence).view(shape)
            posterior = posterior.sum(nuisance) if nuisance else posterior
            total += float(evidence * torch.special.entr(posterior).sum())
        found.append(total)
    return torch.tensor(found)


@pytest.mark.parametrize(
    "aims", [("threshold",), ("lapse",), ("threshold", "slope"), ("slope", "lapse"), NAMES]
)
def test_information_is_the_fall_of_the_expected_entropy(
    psi: PsiMarginal, aims: tuple[str, ...]
) -> None:
    state = after_some_trials(psi, goal_for(psi.spec, aims, 2))
    targets = [NAMES.index(name) for name in aims]
    found = psi.information(state)
    for row in range(2):
        weight, shape = state.weight[row], psi.lattice.shape
        nuisance = [i for i in range(4) if i not in targets]
        now = weight.double().view(shape)
        now = now.sum(nuisance) if nuisance else now
        fall = torch.special.entr(now).sum() - expected_entropy(
            weight, psi.table(psi.stimuli), shape, targets
        )
        assert torch.allclose(found[row].double(), fall.double(), atol=2e-6)


def test_questplus_minimises_the_entropy_of_all_parameters(task: Task) -> None:
    method = QuestPlus(task, GRID, {"stimulus": torch.linspace(-5, 5, 9).tolist()})
    state = after_some_trials(method, goal_for(task.spec, ("lapse",), 2))
    chosen = method.choose(state, None, seeded(0))
    for row in range(2):
        entropy = expected_entropy(
            state.weight[row], method.table(method.stimuli), method.lattice.shape, [0, 1, 2, 3]
        )
        assert torch.equal(chosen[row], method.stimuli[entropy.argmin()])


def test_nuisance_may_be_any_subset_whatever_the_goal(task: Task) -> None:
    stimuli = {"stimulus": torch.linspace(-5, 5, 9).tolist()}
    fixed = PsiMarginal(task, GRID, stimuli, nuisance=["slope", "guess"])
    by_goal = PsiMarginal(task, GRID, stimuli)
    a = fixed.information(after_some_trials(fixed, goal_for(task.spec, ("slope",), 2)))
    wanted = goal_for(task.spec, ("threshold", "lapse"), 2)
    assert torch.allclose(a, by_goal.information(after_some_trials(by_goal, wanted)))
    with pytest.raises(InputError, match="at least one"):
        PsiMarginal(task, GRID, nuisance=NAMES)


def test_goals_may_differ_within_a_batch(psi: PsiMarginal) -> None:
    aims = [("threshold", "slope"), ("guess", "lapse")]
    mixed = Goal(
        torch.stack([psi.spec.parameters.mask(names) for names in aims]),
        torch.zeros(2, 0, 1),
        torch.zeros(2, 0, dtype=torch.bool),
    )
    found = psi.information(after_some_trials(psi, mixed))
    for row, names in enumerate(aims):
        one = psi.information(after_some_trials(psi, goal_for(psi.spec, names, 2)))
        assert torch.allclose(found[row], one[row])


def test_the_posterior_is_bayes_rule(psi: PsiMarginal) -> None:
    state = after_some_trials(psi, goal_for(psi.spec, NAMES, 2))
    designs = psi.stimuli[[0, 2, 4]][None]
    outcomes = torch.tensor([[1.0, -1.0, 1.0]])
    log = psi.task.log_prob(psi.lattice.z, designs, outcomes).sum(1) + psi.lattice.weight.log()
    assert torch.allclose(state.weight[0], log.softmax(0), atol=1e-6)


def test_a_design_off_the_stimuli_counts_as_it_is(psi: PsiMarginal) -> None:
    goal = goal_for(psi.spec, NAMES, 1)
    x = torch.tensor([[0.123]])
    state = psi.observe(psi.begin(goal), x, torch.tensor([-1.0]))
    log = psi.task.log_prob(psi.lattice.z, x[None], torch.tensor([[-1.0]]))[:, 0]
    assert torch.allclose(state.weight[0], (log + psi.lattice.weight.log()).softmax(0), atol=1e-6)


def test_an_offer_of_the_same_stimuli_changes_nothing(psi: PsiMarginal) -> None:
    state = after_some_trials(psi, goal_for(psi.spec, ("guess",), 2))
    offered = psi.stimuli.expand(2, -1, -1)
    assert torch.allclose(psi.information(state), psi.information(state, offered), atol=1e-6)
    last = torch.zeros(2, 9, dtype=torch.bool)
    last[:, 8] = True
    assert psi.choose(state, Offer(offered, last), seeded(0)).flatten().tolist() == [1.0, 1.0]


def test_moments_are_the_weights(psi: PsiMarginal) -> None:
    state = after_some_trials(psi, goal_for(psi.spec, NAMES, 2))
    mean, std = psi.moments(state)
    values = psi.values["slope"]
    expected = float((state.weight[1] * values).sum())
    assert mean["slope"][1].item() == pytest.approx(expected, abs=1e-6)
    spread = math.sqrt(float((state.weight[1] * (values - expected) ** 2).sum()))
    assert std["slope"][1].item() == pytest.approx(spread, abs=1e-4)


# Grids


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ({"threshold": 5}, "must name exactly threshold, slope, guess, lapse"),
        ({**GRID, "slope": 0}, "at least one point"),
        ({**GRID, "slope": [0.5, 0.2]}, "rising values"),
        ({**GRID, "slope": [0.5, 20.0]}, r"must lie in \[0.1, 2\]"),
    ],
)
def test_a_bad_grid_is_refused(task: Task, points: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        QuestPlus(task, points)


def test_only_yes_or_no_tasks_with_a_likelihood() -> None:
    with pytest.raises(InputError, match="binary outcome"):
        QuestPlus(get("linear"), {"intercept": 3, "slope": 3})
