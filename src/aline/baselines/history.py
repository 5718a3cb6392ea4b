"""What the amortised baselines share: networks from a history to a design, and their training.

The baselines see and choose designs linearly in the user's units, as their papers do, whatever
coordinates the task has for our own network; outcomes they see on the network's scale.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from aline.episodes import Context, Goal, Offer
from aline.errors import InputError
from aline.policies import nearest
from aline.spaces import Design
from aline.tasks import Task, World
from aline.training.budget import Budget
from aline.training.run import seeded


def to_linear(space: Design, x: Tensor) -> Tensor:
    """Network designs [..., design] linearly on [-1, 1]."""
    return 2 * (space.to_user(x) - space.low) / (space.high - space.low) - 1


def from_linear(space: Design, linear: Tensor) -> Tensor:
    """Designs linearly on [-1, 1] as the network sees them."""
    return space.to_network(space.low + (linear + 1) / 2 * (space.high - space.low))


@dataclass(frozen=True)
class History:
    """Observations so far, padded: which are real says `mask`."""

    designs: Tensor  # [batch, step, design], linear
    outcomes: Tensor  # [batch, step]
    mask: Tensor  # [batch, step], 1 where there is an observation

    def before(self, step: Tensor) -> History:
        """What was known before step [batch]."""
        mask = (torch.arange(self.mask.shape[1]) < step[:, None]).float()
        return History(self.designs, self.outcomes, mask)

    def __getitem__(self, rows: Tensor) -> History:
        return History(self.designs[rows], self.outcomes[rows], self.mask[rows])


def mlp(*sizes: int) -> nn.Sequential:
    """Linear layers with ReLUs between."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class SetNet(nn.Module):
    """Encodes each observation, sums, and maps the sum (with `extra` inputs) to outputs (DAD)."""

    def __init__(self, design: int, hidden: list[int], code: int, head: list[int], extra: int = 0):
        super().__init__()
        self.encoder = mlp(design + 1, *hidden, code)
        self.head = mlp(code + extra, *head)

    def forward(self, history: History, extra: Tensor | None = None) -> Tensor:
        """[batch, outputs]."""
        pairs = torch.cat([history.designs, history.outcomes[..., None]], -1)
        code = (self.encoder(pairs) * history.mask[..., None]).sum(1)
        out: Tensor = self.head(code if extra is None else torch.cat([code, extra], -1))
        return out


class FlatNet(nn.Module):
    """An MLP on the zero-padded history and a one-hot step (vsOED)."""

    def __init__(self, design: int, horizon: int, sizes: list[int], outputs: int, extra: int = 0):
        super().__init__()
        self.horizon = horizon
        self.mlp = mlp(horizon * (design + 1) + horizon + 1 + extra, *sizes, outputs)

    def forward(self, history: History, extra: Tensor | None = None) -> Tensor:
        """[batch, outputs]."""
        pairs = torch.cat([history.designs, history.outcomes[..., None]], -1)
        padded = (pairs * history.mask[..., None]).flatten(1)
        step = nn.functional.one_hot(history.mask.sum(1).long(), self.horizon + 1)
        parts = [padded, step.to(padded.dtype)] + ([] if extra is None else [extra])
        out: Tensor = self.mlp(torch.cat(parts, -1))
        return out


def annealed(progress: float) -> float:
    """What is left of a rate when this share of a budget is spent: half a cosine."""
    return 0.5 * (1 + math.cos(math.pi * progress))


Act = Callable[[History], Tensor]
"""A history to the next design [batch, design], linear on [-1, 1]."""


@dataclass(frozen=True)
class HistoryPolicy:
    """A trained network as a policy on the episode loop; on a pool it takes the nearest.

    >>> from aline.baselines import Dad
    >>> from aline.tasks import get
    >>> policy = Dad(get("location")).policy()
    >>> isinstance(policy, HistoryPolicy), policy.horizon
    (True, 30)
    """

    space: Design
    act: Act
    horizon: int

    def begin(self, goal: Goal) -> Context:
        """Nothing measured yet; these methods always aim at all parameters."""
        return Context.empty(len(goal.parameters), len(self.space))

    def observe(self, state: Context, design: Tensor, outcome: Tensor) -> Context:
        """Take in one more observation."""
        return state.append(design, outcome)

    def choose(self, state: Context, offer: Offer | None, generator: torch.Generator) -> Tensor:
        """The next design [batch, design]."""
        with torch.no_grad():
            point = from_linear(self.space, self.act(self.history(state)))
        if offer is None and self.space.points is not None:
            every = self.space.to_network(self.space.points)
            offer = Offer(every.expand(len(point), -1, -1))
        return point if offer is None else nearest(offer, point)

    def history(self, state: Context) -> History:
        """A context padded to the horizon (or beyond it cut to its last observations)."""
        batch, length = state.outcomes.shape
        linear = to_linear(self.space, state.designs)[:, -self.horizon :]
        outcomes = state.outcomes[:, -self.horizon :]
        rest = self.horizon - outcomes.shape[1]
        return History(
            torch.cat([linear, torch.zeros(batch, rest, linear.shape[-1])], 1),
            torch.cat([outcomes, torch.zeros(batch, rest)], 1),
            (torch.arange(self.horizon) < length).float().expand(batch, -1),
        )


class Learner(Protocol):
    """A baseline in training."""

    networks: nn.ModuleDict  # all its weights

    def round(self, generator: torch.Generator, progress: float) -> None:
        """One epoch; progress is the share of the budget spent."""
        ...

    def policy(self) -> HistoryPolicy:
        """What it has learned."""
        ...


def learn(
    learner: Learner,
    budget: str = "30min",
    *,
    rounds: int | None = None,
    seed: int = 0,
    report: Callable[[float], None] = lambda share: None,
) -> float:
    """Train to the end of a budget; returns the seconds it took.

    >>> from aline.baselines import Dad, DadConfig
    >>> from aline.tasks import get
    >>> learner = Dad(get("location", horizon=3), DadConfig(contrastive=10, batch=4))
    >>> learn(learner, rounds=2) > 0
    True
    """
    limit, began, done = Budget.of(budget, rounds), time.monotonic(), 0
    share = 0.0
    while share < 1:
        learner.round(seeded(seed, done), share)
        done += 1
        share = limit.progress(done, time.monotonic() - began)
        report(share)
    learner.networks.eval().requires_grad_(False)
    return time.monotonic() - began


def check_likelihood(task: Task, method: str) -> None:
    """Some baselines need to know the likelihood."""
    if task.log_likelihood is None:
        raise InputError(
            f"{method} needs a log_likelihood, task {task.spec.name} has none: "
            "give one to Task(...)"
        )


def check_one_number(task: Task, method: str) -> None:
    """The networks of these baselines take an outcome as one number."""
    if task.spec.outcome.width != 1:
        raise InputError(
            f"{method} is for outcomes that are one number, and task {task.spec.name} gives "
            f"{task.spec.outcome.words()}: compare with a random policy"
        )


def log_likelihoods(task: Task, theta: Tensor, x: Tensor, outcome: Tensor) -> Tensor:
    """Of one observation an episode under many draws: theta [draw, parameter] -> [draw, batch]."""
    each = task.log_prob(theta[:, None], x[:, None], outcome[:, None])
    return each[..., 0]


@dataclass(frozen=True)
class Rolled:
    """Played episodes, linear, with the gradient where the play had one."""

    world: World
    history: History
    x: list[Tensor]  # a step: [batch, design] as the network sees it


def roll(
    task: Task,
    act: Callable[[History, int], Tensor],
    batch: int,
    generator: torch.Generator,
) -> Rolled:
    """Episodes that keep the gradient from outcomes to designs; the first designs are random."""
    spec = task.spec
    world = task.draw(batch, generator)
    given = spec.design.sample(batch, spec.start, generator)
    linear: list[Tensor] = []
    outcomes: list[Tensor] = []
    chosen: list[Tensor] = []
    for step in range(spec.horizon):
        if step < spec.start:
            x = given[:, step]
            linear.append(to_linear(spec.design, x))
        else:
            linear.append(
                act(_padded(linear, outcomes, batch, spec.horizon, len(spec.design)), step)
            )
            x = from_linear(spec.design, linear[-1])
        outcomes.append(world.answer(x[:, None], generator)[:, 0])
        chosen.append(x)
    history = _padded(linear, outcomes, batch, spec.horizon, len(spec.design))
    return Rolled(world, history, chosen)


def _padded(
    linear: list[Tensor], outcomes: list[Tensor], batch: int, horizon: int, design: int
) -> History:
    rest = horizon - len(linear)
    none = [torch.zeros(batch, design)] * rest, [torch.zeros(batch)] * rest
    return History(
        torch.stack([*linear, *none[0]], 1),
        torch.stack([*outcomes, *none[1]], 1),
        (torch.arange(horizon) < len(linear)).float().expand(batch, -1),
    )
