from dataclasses import dataclass, field

import pytest
import torch
from small import goal_for, seeded
from torch import Tensor

from aline.episodes import Context, FixedPool, Goal, Offer, RandomPolicy, play
from aline.tasks import get

TASK = get("location")


@dataclass
class Recorder:
    """Chooses the origin and writes down what it was shown."""

    offers: list[Offer | None] = field(default_factory=list)
    seen: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def begin(self, goal: Goal) -> int:
        return 0

    def choose(self, state: int, offer: Offer | None, generator: torch.Generator) -> Tensor:
        assert state == len(self.seen)
        self.offers.append(offer)
        return torch.zeros(2, 2)

    def observe(self, state: int, design: Tensor, outcome: Tensor) -> int:
        self.seen.append((design, outcome))
        return state + 1


def start(batch: int, seed: int = 0) -> tuple[object, Goal, torch.Generator]:
    generator = seeded(seed)
    names = TASK.spec.parameters.names
    return TASK.draw(batch, generator), goal_for(TASK.spec, names, batch), generator


def test_given_designs_come_first_and_are_observed() -> None:
    world, goal, generator = start(2)
    given = TASK.spec.design.sample(2, 3, seeded(9))
    policy = Recorder()
    context = play(policy, world, goal, steps=5, generator=generator, given=given)
    assert torch.equal(context.designs[:, :3], given)
    assert len(policy.offers) == 2
    assert len(policy.seen) == 5
    assert torch.equal(torch.stack([y for _, y in policy.seen], 1), context.outcomes)


def test_more_given_designs_than_steps() -> None:
    world, goal, generator = start(2)
    given = TASK.spec.design.sample(2, 6, seeded(9))
    context = play(Recorder(), world, goal, steps=4, generator=generator, given=given)
    assert torch.equal(context.designs, given[:, :4])


def test_a_fixed_pool_runs_dry_without_repeats() -> None:
    world, goal, generator = start(3)
    points = TASK.spec.design.sample(3, 8, generator)
    context = play(
        RandomPolicy(TASK.spec.design),
        world,
        goal,
        steps=8,
        generator=generator,
        offers=FixedPool(points),
    )
    for episode in range(3):
        asked = {tuple(x) for x in context.designs[episode].tolist()}
        assert asked == {tuple(x) for x in points[episode].tolist()}


def test_a_pool_with_equal_points_loses_one_at_a_time() -> None:
    pool = FixedPool(torch.zeros(1, 3, 2))
    for left in (2, 1, 0):
        pool.remove(torch.zeros(1, 2))
        assert pool.offer.allowed is not None
        assert int(pool.offer.allowed.sum()) == left


def test_the_same_seed_plays_the_same_episode() -> None:
    contexts = []
    for _ in range(2):
        world, goal, generator = start(4, seed=11)
        contexts.append(
            play(RandomPolicy(TASK.spec.design), world, goal, steps=6, generator=generator)
        )
    assert torch.equal(contexts[0].designs, contexts[1].designs)
    assert torch.equal(contexts[0].outcomes, contexts[1].outcomes)


def test_no_steps_no_observations() -> None:
    world, goal, generator = start(2)
    context = play(Recorder(), world, goal, steps=0, generator=generator)
    assert context.length == 0
    assert context.designs.shape == (2, 0, 2)


@pytest.mark.parametrize("masked", [False, True])
def test_appending_to_a_context(masked: bool) -> None:
    mask = torch.tensor([[True, False]]) if masked else None
    context = Context(torch.zeros(1, 2, 1), torch.zeros(1, 2), mask)
    longer = context.append(torch.ones(1, 1), torch.ones(1))
    assert longer.length == 3
    assert longer.outcomes[0].tolist() == [0.0, 0.0, 1.0]
    assert longer.mask is None if not masked else longer.mask.tolist() == [[True, False, True]]
    assert context.length == 2


def test_luck_is_the_same_whatever_the_policy_draws() -> None:
    task = get("linear")
    goal = goal_for(task.spec, task.spec.parameters.names, 4)
    world = task.draw(4, seeded(0))
    given = torch.zeros(4, 3, 1)
    one, other = (
        play(
            RandomPolicy(task.spec.design),
            world,
            goal,
            steps=3,
            generator=seeded(number),
            given=given,
            luck=seeded(9),
        )
        for number in (1, 2)
    )
    assert torch.equal(one.outcomes, other.outcomes)
