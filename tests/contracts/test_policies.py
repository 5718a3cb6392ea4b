"""What every policy promises on the episode loop."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from small import goal_for, seeded, small_functions, small_network
from torch.distributions import Uniform

from aline.baselines import (
    AcePolicy,
    Dad,
    GPPolicy,
    PsiMarginal,
    QuestPlus,
    RlBoed,
    RlBoedConfig,
    UncertaintyPolicy,
    VpceConfig,
    VpcePolicy,
    Vsoed,
    VsoedConfig,
)
from aline.baselines.particles import ParticlePolicy
from aline.engine import BatchEngine, LiveEngine, TorchRunner
from aline.episodes import FixedPool, Offer, Policy, RandomPolicy, play
from aline.functions.standardised import StandardisedEngine
from aline.model import Network
from aline.policies import FixedPolicy, LearnedPolicy, Memory
from aline.spaces import Binary, Pool, Real
from aline.tasks import Task, get, is_differentiable

BATCH = 3


def pool_task() -> Task:
    """A straight line that can be measured at five places only."""
    return Task(
        parameters={"slope": Uniform(-1.0, 1.0)},
        design=Pool(x=[-2.0, -1.0, 0.5, 3.0, 4.0]),
        outcome=Real(0.0, 1.0),
        simulate=lambda theta, design, generator: (
            theta["slope"] * design["x"] + 0.1 * torch.randn(design["x"].shape, generator=generator)
        ),
        horizon=4,
    )


TASKS = {
    "a box": get("location", horizon=5),
    "yes or no": get("psychometric"),
    "a pool": pool_task(),
}


def grid_policies(task: Task) -> dict[str, Policy]:
    if task.log_likelihood is None or not isinstance(task.spec.outcome, Binary):
        return {}
    points = dict.fromkeys(task.spec.parameters.names, 4)
    return {"QUEST+": QuestPlus(task, points), "psi-marginal": PsiMarginal(task, points)}


def live(network: Network) -> LiveEngine:
    return LiveEngine(network, TorchRunner(network))


def in_any_units(task: Task) -> StandardisedEngine:
    return StandardisedEngine(BatchEngine(small_functions(task, hypotheses=0)))


def policies(task: Task) -> dict[str, Policy]:
    pool, box = BatchEngine(small_network(task)), BatchEngine(small_network(task, policy="box"))
    full = BatchEngine(small_network(task, context="full"))
    informed = BatchEngine(small_network(task, policy="informed"))
    return (
        grid_policies(task)
        | {
            "random": RandomPolicy(task.spec.design),
            "fixed": FixedPolicy(task.spec.design.sample(1, 4, seeded(8))[0]),
            "learned": LearnedPolicy(pool, candidates=12),
            "learned, exploring": LearnedPolicy(pool, explore=True, candidates=12),
            "learned, refining": LearnedPolicy(pool, candidates=12, refine=2),
            "learned, full context": LearnedPolicy(full, candidates=12),
            "informed": LearnedPolicy(informed, candidates=12),
            "learned box": LearnedPolicy(box),
            "learned, live": LearnedPolicy(live(pool.network), candidates=12),
            "learned box, live": LearnedPolicy(live(box.network)),
            "learned box, exploring": LearnedPolicy(box, explore=True),
            "uncertainty": UncertaintyPolicy(pool, candidates=12),
            "ACE, random": AcePolicy(pool, acquisition="rs"),
            "vsoed": Vsoed(task, VsoedConfig(width=8)).policy(),
        }
        | needing_a_likelihood(task)
        | (
            {
                "learned, standardising": LearnedPolicy(in_any_units(task), candidates=12),
                "a GP": GPPolicy(task.spec, "us", candidates=12),
                "a GP, random": GPPolicy(task.spec, "rs", normalise=True),
            }
            if isinstance(task.spec.outcome, Real)
            else {}
        )
    )


def needing_a_likelihood(task: Task) -> dict[str, Policy]:
    """The baselines that differentiate outcomes, and RL-BOED."""
    if task.log_likelihood is None:
        return {}
    found: dict[str, Policy] = {
        "rl-boed": RlBoed(task, RlBoedConfig(width=8, code=4)).policy(),
        "greedy on particles": ParticlePolicy(task, particles=200, candidates=12),
    }
    if is_differentiable(task):
        few = VpceConfig(fit_steps=2, design_steps=2, contrastive=3, outer=3)
        found |= {"dad": Dad(task).policy(), "vpce": VpcePolicy(task, few)}
    return found


CASES = [
    pytest.param(task, policy, id=f"{name} on {where}")
    for where, task in TASKS.items()
    for name, policy in policies(task).items()
]
EVERY = pytest.mark.parametrize(("task", "policy"), CASES)
LEARNED_CASES = [case for case in CASES if isinstance(case.values[1], LearnedPolicy)]
LEARNED = pytest.mark.parametrize(("task", "policy"), LEARNED_CASES)


def scores(policy: LearnedPolicy) -> bool:
    """Whether it takes the best candidate, and leaves nothing to chance."""
    return policy.engine.network.config.policy == "pool" and not policy.explore


def started(policy: Policy, task: Task) -> Any:
    goal = goal_for(task.spec, tuple(task.spec.parameters.names[:1]), BATCH)
    return policy.begin(goal)


@EVERY
def test_without_an_offer_designs_are_allowed_ones(task: Task, policy: Policy) -> None:
    design = policy.choose(started(policy, task), None, seeded(0))
    assert design.shape == (BATCH, len(task.spec.design))
    assert bool((design.abs() <= 1).all())
    if task.spec.design.points is not None:
        every = task.spec.design.to_network(task.spec.design.points)
        assert bool((design[:, None] == every).all(-1).any(1).all())


@EVERY
def test_only_what_is_allowed_is_chosen(task: Task, policy: Policy) -> None:
    points = task.spec.design.sample(BATCH, 5, seeded(1))
    for only in range(5):
        allowed = torch.zeros(BATCH, 5, dtype=torch.bool)
        allowed[:, only] = True
        chosen = policy.choose(started(policy, task), Offer(points, allowed), seeded(2))
        assert torch.equal(chosen, points[:, only])


@EVERY
def test_the_same_seed_plays_the_same_episode(task: Task, policy: Policy) -> None:
    def run() -> torch.Tensor:
        generator = seeded(4)
        world = task.draw(BATCH, generator)
        goal = goal_for(task.spec, tuple(task.spec.parameters.names), BATCH)
        context = play(policy, world, goal, steps=3, generator=generator)
        return torch.cat([context.designs.flatten(1), context.outcomes], 1)

    assert torch.equal(run(), run())


@EVERY
def test_a_fixed_pool_is_never_asked_twice(task: Task, policy: Policy) -> None:
    generator = seeded(5)
    points = task.spec.design.sample(BATCH, 4, generator)
    goal = goal_for(task.spec, tuple(task.spec.parameters.names), BATCH)
    world = task.draw(BATCH, generator)
    context = play(policy, world, goal, steps=4, generator=generator, offers=FixedPool(points))
    order = context.designs.sum(-1).sort(1).values
    assert torch.equal(order, points.sum(-1).sort(1).values)


@EVERY
def test_observing_leaves_the_earlier_state_alone(task: Task, policy: Policy) -> None:
    state = started(policy, task)
    before = policy.choose(state, None, seeded(6))
    policy.observe(state, before, torch.ones(BATCH))
    assert torch.equal(policy.choose(state, None, seeded(6)), before)


@LEARNED
def test_a_goal_in_turns_is_its_parts_one_after_the_other(task: Task, policy: Policy) -> None:
    """For policies that were trained for the parts; others aim at the whole, or at nothing."""
    goals = [goal_for(task.spec, (name,), BATCH) for name in task.spec.parameters.names[:2]]
    state = policy.begin(replace(goals[0], turns=tuple(goals)))
    for observed in range(4):
        part = Memory(state.state, goals[observed % len(goals)])
        design = policy.choose(state, None, seeded(observed))
        assert torch.equal(design, policy.choose(part, None, seeded(observed)))
        state = policy.observe(state, design, torch.ones(BATCH))


@pytest.mark.parametrize(("task", "policy"), [c for c in LEARNED_CASES if scores(c.values[1])])
def test_an_episode_among_others_is_that_episode_alone(task: Task, policy: Policy) -> None:
    names = tuple(task.spec.parameters.names)  # of psychometric in turns
    offer = task.spec.design.sample(BATCH, 9, seeded(7))
    several = policy.begin(goal_for(task.spec, names, BATCH))
    alone = [policy.begin(goal_for(task.spec, names, 1)) for _ in range(BATCH)]
    for step in range(3):
        designs = policy.choose(several, Offer(offer), seeded(step))
        outcomes = torch.tensor([1.0, -1.0, 1.0])
        for row, state in enumerate(alone):
            rows = slice(row, row + 1)
            assert torch.equal(policy.choose(state, Offer(offer[rows]), seeded(0)), designs[rows])
            alone[row] = policy.observe(state, designs[rows], outcomes[rows])
        several = policy.observe(several, designs, outcomes)
