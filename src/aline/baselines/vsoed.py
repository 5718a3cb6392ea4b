"""Variational sequential design (Shen et al., 2025): actor and critic, rewarded by a posterior.

The reward of a step is what it adds to log q of the truth, q a Gaussian mixture by a network of
its own for every stage. The actor is deterministic and explores by Gaussian noise.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aline.baselines.history import (
    FlatNet,
    History,
    HistoryPolicy,
    annealed,
    check_one_number,
    roll,
)
from aline.baselines.replay import Replay
from aline.model import initial_weights
from aline.tasks import Task


@dataclass(frozen=True)
class VsoedConfig:
    """The paper's settings (appendix C.2.2).

    >>> VsoedConfig(batch=500).batch
    500
    """

    batch: int = 10_000  # episodes an epoch, and transitions an update
    buffer: int = 1_000_000  # transitions
    updates: int = 1
    width: int = 256
    components: int = 8
    learning_rate: float = 1e-3
    decay: float = 0.9999  # of the learning rate, an epoch
    discount: float = 0.9
    noise: float = 0.5  # in the design's units
    noise_decay: float = 0.9999
    target_rate: float = 0.01
    strain: float = 1e-2  # ours: the cost of a point beyond the bounds
    anneals: bool = False  # rate and noise end at 0 with the budget, whatever their decay is


VSOED_PRESETS = {
    "location": VsoedConfig(),
    "ces": VsoedConfig(noise=5.0, noise_decay=0.9998),
}
# For minutes on a core: rounds that are 20 times cheaper.
VSOED_SHORT = {"batch": 500, "buffer": 100_000, "updates": 4, "width": 128, "anneals": True}


class Vsoed:
    """Variational sequential design in training.

    >>> from aline.baselines import learn
    >>> from aline.tasks import get
    >>> small = VsoedConfig(batch=8, buffer=100, width=8, components=2)
    >>> learner = Vsoed(get("location", horizon=3), small)
    >>> seconds = learn(learner, rounds=1)
    >>> learner.policy().horizon
    3
    """

    def __init__(self, task: Task, config: VsoedConfig | None = None, seed: int = 0):
        check_one_number(task, "vsOED")
        self.task, self.config = task, config or VSOED_PRESETS.get(task.spec.name, VsoedConfig())
        spec, width = task.spec, [self.config.width] * 3
        design, horizon = len(spec.design), spec.horizon
        outputs = self.config.components * (1 + 2 * len(spec.parameters))
        with initial_weights(seed):
            actor = FlatNet(design, horizon, width, design)
            critic = FlatNet(design, horizon, width, 1, extra=design)
            posteriors = [FlatNet(design, horizon, width, outputs) for _ in range(horizon)]
        self.networks = nn.ModuleDict(
            {"actor": actor, "critic": critic, "posteriors": nn.ModuleList(posteriors)}
        )
        self._target = copy.deepcopy(critic).requires_grad_(False)
        rate = self.config.learning_rate
        self._optimisers = {
            name: torch.optim.Adam(part.parameters(), lr=rate)
            for name, part in self.networks.items()
        }
        self._replay = Replay(self.config.buffer // horizon)
        self._noise = 2 * self.config.noise / (spec.design.high - spec.design.low)  # linear units
        self._rounds = 0

    def round(self, generator: torch.Generator, progress: float) -> None:
        """Play a batch, improve q on it, then critic and actor on what is remembered."""
        config = self.config
        left = annealed(progress)
        decay, calm = (
            left if config.anneals else each**self._rounds
            for each in (config.decay, config.noise_decay)
        )
        for optimiser in self._optimisers.values():
            optimiser.param_groups[0]["lr"] = config.learning_rate * decay
        noise = self._noise * calm

        def explore(history: History, step: int) -> Tensor:
            design = self.act(history)
            jitter = noise * torch.randn(design.shape, generator=generator)
            return (design + jitter).clamp(-1, 1)

        with torch.no_grad():
            rolled = roll(self.task, explore, config.batch, generator)
        self._replay.add(rolled.history, rolled.world.theta)
        self._learn_posteriors(rolled.history, rolled.world.theta)
        for _ in range(config.updates):
            self._learn_policy(generator)
        self._rounds += 1

    def _learn_posteriors(self, history: History, theta: Tensor) -> None:
        stages = [
            self.log_posterior(history, theta, stage)
            for stage in range(1, self.task.spec.horizon + 1)
        ]
        self._step("posteriors", -torch.stack(stages).mean(1).sum())

    def log_posterior(self, history: History, theta: Tensor, stage: int) -> Tensor:
        """Log q of theta [batch, parameter] after `stage` observations; the prior after none."""
        if stage == 0:
            return -0.5 * (theta**2).sum(-1) - 0.5 * theta.shape[-1] * _LOG_2PI
        known = history.before(torch.full((len(theta),), stage))
        raw = self.networks["posteriors"][stage - 1](known)  # type: ignore[index]
        count = self.config.components
        weight, rest = raw[:, :count].log_softmax(-1), raw[:, count:]
        mean, spread = rest.view(len(theta), count, 2, -1).unbind(2)
        std = F.softplus(spread) + 1e-4
        z = (theta[:, None] - mean) / std
        each = (-0.5 * z * z - std.log() - 0.5 * _LOG_2PI).sum(-1)
        log_q: Tensor = (weight + each).logsumexp(-1)
        return log_q

    def _learn_policy(self, generator: torch.Generator) -> None:
        spec = self.task.spec
        history, theta, _ = self._replay.draw(self.config.batch, generator)
        step = torch.randint(spec.start, spec.horizon, (len(theta),), generator=generator)
        before, after = history.before(step), history.before(step + 1)
        rows = torch.arange(len(theta))
        with torch.no_grad():
            reward = self._reward(history, theta, step)
            last = (step + 1 == spec.horizon).float()
            future = self._target(after, self.act(after))[:, 0]
            wanted = reward + self.config.discount * (1 - last) * future
        value = self.networks["critic"](before, history.designs[rows, step])[:, 0]
        self._step("critic", F.mse_loss(value, wanted))
        raw = self.networks["actor"](before)
        # Without the second term the actor ends at a corner, where tanh has no gradient left.
        worth = self.networks["critic"](before, raw.tanh()).mean()
        self._step("actor", self.config.strain * (raw**2).mean() - worth)
        with torch.no_grad():
            pairs = zip(
                self._target.parameters(), self.networks["critic"].parameters(), strict=True
            )
            for target, current in pairs:
                target.lerp_(current, self.config.target_rate)

    def _reward(self, history: History, theta: Tensor, step: Tensor) -> Tensor:
        """What the observation at each step [batch] added to log q of the truth."""
        reward = torch.empty(len(theta))
        for stage in step.unique().tolist():
            rows = (step == stage).nonzero()[:, 0]
            known, truth = history[rows], theta[rows]
            gained = self.log_posterior(known, truth, stage + 1)
            reward[rows] = gained - self.log_posterior(known, truth, stage)
        return reward

    def _step(self, name: str, loss: Tensor) -> None:
        optimiser = self._optimisers[name]
        self.networks.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.networks[name].parameters(), 1.0)
        optimiser.step()

    def act(self, history: History) -> Tensor:
        """The actor's design."""
        chosen: Tensor = self.networks["actor"](history)
        return chosen.tanh()

    def policy(self) -> HistoryPolicy:
        """What it has learned."""
        return HistoryPolicy(self.task.spec.design, self.act, self.task.spec.horizon)


_LOG_2PI = 1.8378770664093453
