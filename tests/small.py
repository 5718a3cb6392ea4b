"""Small untrained networks and random data for tests."""

from functools import cache
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from aline.episodes import Context, Goal, goal_of
from aline.model import Belief, Encoded, Mixture, Model, ModelConfig, Network, fresh
from aline.model.joint import random_orders
from aline.tasks import Spec, Task, get
from aline.zoo import shipped

SIZES = {
    "width": 16,
    "heads": 2,
    "layers": 3,
    "feedforward": 24,
    "components": 4,
    "octaves": 2,
    "policy_layers": 2,
    "newton_steps": 1,
}


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def small_network(
    task: str | Task = "psychometric",
    context: Literal["independent", "full"] = "independent",
    policy: Literal["pool", "box", "informed"] = "pool",
    seed: int = 0,
    zoom_layers: int = 0,
) -> Network:
    """A network that says something different for every context, though nothing sensible."""
    task = get(task) if isinstance(task, str) else task
    config = ModelConfig(context=context, policy=policy, zoom_layers=zoom_layers, **SIZES)
    network = fresh(task.fitted().spec, config, seeded(seed)).eval().requires_grad_(False)
    for parameter in network.parameters():
        parameter.mul_(1.5)
    return network


def small_model(task: str | Task = "psychometric", **options: str) -> Model:
    return Model(small_network(task, **options))  # type: ignore[arg-type]


def save_untrained(name: str, folder: Path) -> None:
    """An untrained model of a built-in task, which takes priors."""
    config = ModelConfig(priors=True, **SIZES)  # type: ignore[arg-type]
    Model(fresh(get(name).fitted().spec, config, seeded(0)).eval()).save(folder)


def save_detection(folder: Path) -> None:
    """An untrained model of detection, unless a trained one is shipped."""
    if "detection" not in shipped():
        save_untrained("detection", folder)


def small_functions(
    task: str | Task = "gp1d", kernels: int = 3, hypotheses: int = 16, seed: int = 0
) -> Network:
    """A network with the functions plug-in, which also chooses designs."""
    task = get(task) if isinstance(task, str) else task
    settings = {"kernels": kernels, "hypotheses": hypotheses}
    config = ModelConfig(policy="plugin", plugin="functions", plugin_settings=settings, **SIZES)
    return fresh(task.fitted().spec, config, seeded(seed)).eval().requires_grad_(False)


def random_context(spec: Spec, batch: int, length: int, seed: int = 0) -> Context:
    generator = seeded(seed)
    outcomes = torch.randn(batch, length, generator=generator)
    if spec.outcome.to_json()["kind"] == "binary":
        outcomes = outcomes.sign()
    return Context(spec.design.sample(batch, length, generator), outcomes)


def simulated_context(task: Task, batch: int, length: int, seed: int = 0) -> Context:
    """Random designs as a task answers them, for outcomes of any kind."""
    generator = seeded(seed)
    designs = task.spec.design.sample(batch, length, generator)
    return Context(designs, task.draw(batch, generator).answer(designs, generator))


def posterior_of(network: Network, context: Context) -> Mixture:
    """[batch, 1, parameter], after a whole context."""
    return network.posterior(network.encode(context))


def scores_of(network: Network, encoded: Encoded, goal: Goal, candidates: Tensor) -> Tensor:
    """[batch, group, n]."""
    return network.scores(encoded, network.summary(encoded), goal, candidates)


def everything(belief: Belief) -> Tensor:
    """Everything a belief [batch, ...] says, in one tensor [batch, numbers]."""
    return torch.cat([part.flatten(1) for part in belief.tensors().values()], 1)


def goal_for(spec: Spec, names: tuple[str, ...], batch: int) -> Goal:
    return goal_of(spec, names).repeat(batch)


def largest_difference(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


@cache
def line_network(steps: int = 250) -> tuple[Task, Network]:
    """A task of a line, and a network that learned it from designs on one side: q alone, briefly.

    Intercept and slope are then strongly dependent.
    """
    task, generator = get("linear", horizon=6).fitted(), seeded(0)
    network = fresh(task.spec, ModelConfig(**SIZES), generator)
    optimiser = torch.optim.Adam(network.parameters(), 5e-3)
    for _ in range(steps):
        world, context = one_sided(task, 64, generator)
        joint, theta = network.joint(network.encode(context)), world[:, None, None]
        order = random_orders((64, 1, 1), 2, generator)
        single = joint.marginals.log_prob(theta[:, :, 0]).sum()
        loss = -(joint.terms(theta, order).sum() + single) / 64
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return task, network.eval().requires_grad_(False)


def one_sided(task: Task, batch: int, generator: torch.Generator) -> tuple[Tensor, Context]:
    """Truths [batch, parameter], and six outcomes of each at designs above zero."""
    world, designs = task.draw(batch, generator), torch.rand(batch, 6, 1, generator=generator)
    return world.theta, Context(designs, world.answer(designs, generator))
