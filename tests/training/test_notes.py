"""Notes taken while playing say what reading the prefixes again would."""

from dataclasses import replace

import pytest
import torch

from aline.engine import BatchEngine
from aline.episodes import Context, draw_goals, play
from aline.model import ModelConfig, Network, fresh
from aline.policies import LearnedPolicy
from aline.tasks import get
from aline.training.losses import Played, up_to
from aline.training.notes import Notes, Noting


@pytest.mark.parametrize("context", ["independent", "full"])
def test_notes_are_what_the_network_makes_of_prefixes(context):
    generator = torch.Generator().manual_seed(0)
    task = get("location", horizon=5)
    config = ModelConfig(policy="box", context=context, zoom_layers=1)
    network = fresh(task.spec, config, generator).requires_grad_(False)
    policy = Noting(LearnedPolicy(BatchEngine(network)))
    world, goal = task.draw(7, generator), draw_goals(task.spec, 7, generator)
    episodes = play(policy, world, goal, steps=5, generator=generator)
    notes = Notes.of(policy.before)
    steps = torch.randint(5, (7, 3), generator=generator)
    encoded = network.regroup(network.encode(episodes), up_to(steps, 5))
    read, told = network.summary(encoded), notes.after(steps, encoded)
    torch.testing.assert_close(told.moments, read.moments, rtol=1e-4, atol=1e-4)
    proposed = [network.propose(encoded, summary, goal).mean for summary in (told, read)]
    torch.testing.assert_close(*proposed, atol=1e-4, rtol=0)
    for a, b in zip(told.decoded.states, read.decoded.states, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    means = [network.posterior_of(encoded, each.decoded).mean for each in (told, read)]
    torch.testing.assert_close(*means, rtol=1e-4, atol=1e-4)


def searching_network() -> Network:
    config = ModelConfig(search_stages=2, guesses=4, newton_steps=1)
    network = fresh(get("linear").fitted().spec, config, torch.Generator().manual_seed(1))
    return network.eval().requires_grad_(False)


def test_searches_of_play_are_kept_for_every_number_of_observations() -> None:
    """Designs that are given ask the policy nothing, but a search goes on beside them."""
    generator, network = torch.Generator().manual_seed(0), searching_network()
    task = get("linear", horizon=4)
    policy = Noting(LearnedPolicy(BatchEngine(network)))
    world, goal = task.draw(3, generator), draw_goals(task.spec, 3, generator)
    given = task.spec.design.sample(3, 2, generator)
    with torch.inference_mode():
        context = play(policy, world, goal, steps=4, generator=generator, given=given)
    context = Context(context.designs.clone(), context.outcomes.clone())
    assert policy.searched is not None
    played = Played(world, goal, context, torch.zeros(3, 0), policy.last.encoded.advice,
                    searched=policy.searched)  # fmt: skip
    engine = BatchEngine(network)
    state = engine.begin(3)
    for step in range(5):
        encoded = played.after(network, torch.full((3, 1), step))
        known = network.guesses(encoded)[-1].marginals.moments()
        again = network.posterior_of(state.encoded, state.summary.decoded).moments()
        torch.testing.assert_close(known, again, rtol=1e-4, atol=1e-4)
        if step < 4:
            state = engine.extend(state, context.designs[:, step], context.outcomes[:, step])


def test_a_search_that_was_made_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    network, generator = searching_network(), torch.Generator().manual_seed(0)
    encoded = network.begin(2)
    searched = network.guesses(encoded)[-1].searched
    assert searched is not None

    def fail(*_: object) -> None:
        raise AssertionError("it searched")

    monkeypatch.setattr(network, "_search", fail)
    network.joint(replace(encoded, searched=searched)).sample(3, generator)
    network.guesses(replace(encoded, searched=searched._replace(evidence=None)))
    with pytest.raises(AssertionError, match="it searched"):
        network.guesses(encoded)
