"""Notes taken while playing say what reading the prefixes again would."""

import pytest
import torch

from aline.engine import BatchEngine
from aline.episodes import draw_goals, play
from aline.model import ModelConfig, fresh
from aline.policies import LearnedPolicy
from aline.tasks import get
from aline.training.losses import up_to
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
    notes = Notes.of(policy.steps)
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
