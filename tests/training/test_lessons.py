"""Lessons of earlier rounds are learned again, and outlive an interruption."""

from pathlib import Path

import torch
from small import random_context, seeded, small_network

from aline.episodes import Goal, goal_of
from aline.files import read_tensors, write_tensors
from aline.model.prior import own_prior
from aline.tasks import get
from aline.training.lessons import KEPT, Lesson, Lessons

BATCH, LENGTH, COMPARED = 6, 4, 5


def lesson(seed: int = 0) -> Lesson:
    spec = get("linear").fitted().spec
    context = random_context(spec, BATCH, LENGTH, seed)
    generator = seeded(seed)
    return Lesson(
        context.designs,
        context.outcomes,
        torch.randint(LENGTH, (BATCH,), generator=generator),
        torch.ones(BATCH, len(spec.parameters), dtype=torch.bool),
        spec.design.sample(BATCH, COMPARED, generator),
        torch.randn(BATCH, COMPARED, generator=generator),
        own_prior(BATCH, len(spec.parameters)),
        torch.zeros(BATCH, 1, 0, 0),
    )


def test_a_lesson_sees_only_what_was_observed_before_its_state() -> None:
    network, one = small_network("linear"), lesson()
    later = torch.arange(LENGTH) >= one.step[:, None]
    other = one._replace(outcomes=torch.where(later, one.outcomes + 1.0, one.outcomes))
    torch.testing.assert_close(one.loss(network), other.loss(network))
    earlier = one._replace(outcomes=torch.where(later, one.outcomes, one.outcomes + 1.0))
    assert not torch.isclose(one.loss(network), earlier.loss(network))


def test_what_a_state_is_worth_is_not_the_policys_to_say() -> None:
    network, one = small_network("linear"), lesson()
    scores = network.scores(*one.known(network), *goal_and_designs(one))[:, 0]
    exact = one._replace(wanted=scores - scores.mean(1, keepdim=True))
    assert float(exact.loss(network)) < 1e-9


def goal_and_designs(one: Lesson) -> tuple[Goal, torch.Tensor]:
    names = tuple(get("linear").spec.parameters.priors)
    return goal_of(get("linear").fitted().spec, names).repeat(BATCH), one.designs


def test_a_gradient_reaches_the_policy_and_nothing_else() -> None:
    network = small_network("linear").requires_grad_(True)
    lesson().loss(network).backward()
    policy = {id(p) for p in network.learned_policy.parameters()}
    touched = {id(p) for p in network.parameters() if p.grad is not None}
    assert touched
    assert touched <= policy


def test_without_a_lesson_there_is_nothing_to_learn() -> None:
    assert Lessons().loss(small_network("linear"), seeded(0)) is None


def test_the_oldest_are_forgotten_and_the_rest_survive_a_checkpoint(tmp_path: Path) -> None:
    lessons, again = Lessons(), Lessons()
    for seed in range(KEPT + 1):
        lessons.add(lesson(seed))
    lessons.add(lessons.kept[-1])  # of the same episodes
    write_tensors(tmp_path / "lessons.safetensors", dict(lessons.tensors()), {})
    again.restore(read_tensors(tmp_path / "lessons.safetensors")[0])
    assert len(again.kept) == KEPT
    for one, other in zip(lessons.kept, again.kept, strict=True):
        assert all(map(torch.equal, one, other))
    assert torch.equal(again.kept[0].wanted, lesson(2).wanted)
