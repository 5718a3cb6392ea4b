"""How much the experiments of a policy tell: sPCE and sNMC, and J where there is a posterior q."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from aline.engine import BatchEngine
from aline.episodes import Context, Policy
from aline.evaluation.bounds import Bounds, adaptive_bounds, information_bounds
from aline.evaluation.estimates import Estimate, enough, mean
from aline.evaluation.results import Row, result, row
from aline.evaluation.simulated import Protocol, log_prior, play_protocol, posteriors_after
from aline.model import Joint, Mixture, Model, Network
from aline.policies import LearnedPolicy
from aline.tasks import Task

_AT_ONCE = 250  # episodes

Progress = Callable[[str, int, int], None]
"""Told what is being done, and how much of how much of it is done."""


@dataclass(frozen=True)
class Information:
    """What a policy's experiments say about all parameters, in nats.

    >>> from aline.episodes import RandomPolicy
    >>> from aline.tasks import get
    >>> task = get("linear", horizon=2)
    >>> protocol = Protocol(episodes=8, steps=2)
    >>> found = measure_information(RandomPolicy(task.spec.design), task, protocol, 100)
    >>> found.theta.shape, found.bounds.contrastive, found.j is None
    (torch.Size([8, 2]), 100, True)
    """

    bounds: Bounds | None  # None for a simulator without a likelihood
    adaptive: Bounds | None  # likewise, and for a policy without a posterior of its own
    j: Estimate | None  # None for a policy without a posterior of its own
    theta: Tensor  # [batch, parameter] on the network's scale
    context: Context

    @property
    def notes(self) -> list[str]:
        """What a reader of the numbers must know."""
        if self.bounds is None:
            return ["J only: sPCE and sNMC need a log_likelihood, and this task has none"]
        return [] if self.bounds.note is None else [self.bounds.note]


def measure_information(
    policy: Policy,
    task: Task,
    protocol: Protocol,
    contrastive: int,
    *,
    network: Network | None = None,
    adaptive: int = 0,
    progress: Progress | None = None,
) -> Information:
    """Play a policy aimed at all parameters and bound what it learned.

    `network` is the posterior whose J (Eq. 9, nats gained over the prior) is reported beside, and
    with `adaptive` draws an episode from it also the adaptive pair of bounds.

    >>> from aline.episodes import RandomPolicy
    >>> from aline.tasks import get
    >>> task = get("linear", horizon=2)
    >>> policy, protocol = RandomPolicy(task.spec.design), Protocol(episodes=8, steps=2)
    >>> bounds = measure_information(policy, task, protocol, contrastive=100).bounds
    >>> bounds.lower.value < bounds.upper.value
    True
    """
    enough(protocol.episodes)
    names = tuple(task.spec.parameters.priors)
    theta, context = play_protocol(policy, task, names, protocol, _named(progress, "playing"))
    bounds = nearer = None
    if task.log_likelihood is not None:
        generator = torch.Generator().manual_seed(protocol.seed + 1_000_003)
        report = _named(progress, "bounding")
        bounds = information_bounds(task, context, theta, contrastive, generator, report)
        if adaptive and network is not None:
            nearer = adaptive_bounds(
                task, context, theta, _each(network, context), adaptive, generator, report
            )
    j = None if network is None else mean(gains(network, theta, context))
    return Information(bounds, nearer, j, theta, context)


def final_posterior(network: Network, context: Context) -> Mixture:
    """q after the whole episode, [batch, parameter]."""
    return posteriors_after(network, context, [context.length])[:, 0]


@torch.no_grad()
def _each(network: Network, context: Context) -> Iterator[Joint]:
    """q after each whole episode."""
    for designs, outcomes in zip(context.designs.split(1), context.outcomes.split(1), strict=True):
        one = Context(designs, outcomes)
        yield network.joint(network.encode(one))


def gains(network: Network, theta: Tensor, context: Context) -> Tensor:
    """What q learned about all parameters in each episode, log q - log prior of the truth."""
    found = []
    for rows in torch.arange(len(theta)).split(_AT_ONCE):
        part = Context(context.designs[rows], context.outcomes[rows])
        with torch.no_grad():
            joint = network.joint(network.encode(part))
            found.append(joint.log_prob(theta[rows, None, None])[:, 0, 0])
    return torch.cat(found) - log_prior(theta).sum(-1)


def _named(progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress(what, done, total)


def information_rows(method: str, task: Task, protocol: Protocol, found: Information) -> list[Row]:
    """The numbers in the layout of every result.

    >>> from aline.episodes import RandomPolicy
    >>> from aline.tasks import get
    >>> task = get("linear", horizon=2)
    >>> policy, protocol = RandomPolicy(task.spec.design), Protocol(episodes=8, steps=2)
    >>> found = measure_information(policy, task, protocol, contrastive=100)
    >>> [row["metric"] for row in information_rows("random", task, protocol, found)]
    ['spce', 'snmc']
    """
    measured: dict[str, Estimate | None] = {"j": found.j}
    if found.bounds is not None:
        measured |= {"spce": found.bounds.lower, "snmc": found.bounds.upper}
    if found.adaptive is not None:
        measured |= {"ace": found.adaptive.lower, "vnmc": found.adaptive.upper}
    target = ",".join(task.spec.parameters.priors)
    return [
        row(task.spec.name, method, target, metric, protocol.steps, estimate)
        for metric, estimate in measured.items()
        if estimate is not None
    ]


def evaluate_information(
    model: Model,
    task: Task,
    protocol: Protocol,
    contrastive: int,
    adaptive: int = 0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """sPCE, sNMC, the adaptive pair and J of a model's own policy, as a result to write down.

    `aline` is the method's name on a pool, `aline-box` where any design may be asked.

    >>> import aline
    >>> from aline.tasks import get
    >>> task = get("linear", horizon=2)
    >>> model = aline.train(task, rounds=1, progress=False)
    >>> found = evaluate_information(model, task, Protocol(episodes=8, steps=2), contrastive=100)
    >>> [row["metric"] for row in found["rows"]]
    ['j', 'spce', 'snmc']
    """
    began = time.monotonic()
    task = task.described_by(model.spec)
    policy = LearnedPolicy(BatchEngine(model.network), task=task)
    network = model.network
    found = measure_information(
        policy,
        task,
        protocol,
        contrastive,
        network=network,
        adaptive=adaptive,
        progress=progress,
    )
    method = "aline-box" if protocol.pool is None else "aline"
    return result(
        "information",
        information_rows(method, task, protocol, found),
        time.monotonic() - began,
        protocol=asdict(protocol),
        contrastive=contrastive,
        adaptive=adaptive,
        notes=found.notes,
    )
