"""RL-BOED (Blau et al., 2022): REDQ on the stepwise sPCE reward.

The reward of a step is what it adds to sPCE with the same contrastive draws. REDQ (Chen et al.,
2021) is soft actor-critic with the smallest of a random subset of critics as the target.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from aline.baselines.history import (
    History,
    HistoryPolicy,
    Rolled,
    SetNet,
    check_likelihood,
    check_one_number,
    log_likelihoods,
    roll,
)
from aline.baselines.replay import Replay
from aline.model import initial_weights
from aline.tasks import Task


@dataclass(frozen=True)
class RlBoedConfig:
    """The paper's settings (appendix C.2.2, its table); batches and updates are REDQ's usual.

    >>> RlBoedConfig(contrastive=1000).contrastive
    1000
    """

    critics: int = 2
    subset: int = 2
    contrastive: int = 100_000
    discount: float = 0.9
    target_rate: float = 1e-3
    policy_rate: float = 1e-4
    critic_rate: float = 3e-4
    buffer: int = 10_000_000  # transitions
    episodes: int = 10  # played an epoch
    updates: int = 64  # of the critics, an epoch; the policy takes one for every eight
    batch: int = 512
    width: int = 128
    code: int = 64


RL_BOED_PRESETS = {
    "location": RlBoedConfig(),
    "ces": RlBoedConfig(target_rate=5e-3, policy_rate=3e-4, buffer=1_000_000),
}
# For minutes on a core: rewards from fewer draws, larger steps, targets that follow faster.
RL_BOED_SHORT = {
    "contrastive": 2000,
    "buffer": 100_000,
    "batch": 256,
    "policy_rate": 1e-3,
    "critic_rate": 1e-3,
    "target_rate": 1e-2,
}
_POLICY_EVERY = 8


class RlBoed:
    """RL-BOED in training.

    >>> from aline.baselines import learn
    >>> from aline.tasks import get
    >>> small = RlBoedConfig(contrastive=10, buffer=100, episodes=4, updates=1, batch=8, width=8)
    >>> learner = RlBoed(get("location", horizon=3), small)
    >>> seconds = learn(learner, rounds=1)
    >>> learner.policy().horizon
    3
    """

    def __init__(self, task: Task, config: RlBoedConfig | None = None, seed: int = 0):
        check_likelihood(task, "RL-BOED")
        check_one_number(task, "RL-BOED")
        self.task, self.config = task, config or RL_BOED_PRESETS.get(task.spec.name, RlBoedConfig())
        design, width, code = len(task.spec.design), self.config.width, self.config.code
        with initial_weights(seed):
            actor = SetNet(design, [width, width], code, [width, 2 * design])
            critics = [
                SetNet(design, [width, width], code, [width, 1], extra=design)
                for _ in range(self.config.critics)
            ]
        self.networks = nn.ModuleDict({"actor": actor, "critics": nn.ModuleList(critics)})
        self._targets = copy.deepcopy(self.networks["critics"]).requires_grad_(False)
        self._log_temperature = torch.zeros((), requires_grad=True)
        self._actor = torch.optim.Adam(actor.parameters(), lr=self.config.policy_rate)
        self._critics = torch.optim.Adam(
            self.networks["critics"].parameters(), lr=self.config.critic_rate
        )
        self._heat = torch.optim.Adam([self._log_temperature], lr=self.config.policy_rate)
        self._replay = Replay(self.config.buffer // task.spec.horizon)

    def round(self, generator: torch.Generator, progress: float) -> None:
        """Play some episodes, then update critics and policy on what is remembered."""
        with torch.no_grad():
            rolled = roll(
                self.task,
                lambda history, step: self._draw(history, generator)[0],
                self.config.episodes,
                generator,
            )
            rewards = self.rewards(rolled, generator)
        self._replay.add(rolled.history, rolled.world.theta, rewards)
        for update in range(self.config.updates):
            history, _, reward = self._replay.draw(self.config.batch, generator)
            spec = self.task.spec
            step = torch.randint(
                spec.start, spec.horizon, (self.config.batch,), generator=generator
            )
            self._learn_critics(history, reward, step, generator)
            if update % _POLICY_EVERY == 0:
                self._learn_actor(history.before(step), generator)

    def rewards(self, rolled: Rolled, generator: torch.Generator) -> Tensor:
        """What each step added to sPCE, [batch, step]."""
        task, batch = self.task, len(rolled.world.theta)
        draws = task.spec.parameters.sample(self.config.contrastive, generator)
        truth, others = torch.zeros(batch), torch.zeros(len(draws), batch)
        values = [torch.zeros(batch)]
        constant = torch.tensor(float(len(draws) + 1)).log()
        for step, x in enumerate(rolled.x):
            y = rolled.history.outcomes[:, step]
            truth = truth + task.log_prob(rolled.world.theta, x[:, None], y[:, None])[:, 0]
            others += log_likelihoods(task, draws, x, y)
            evidence = torch.logaddexp(truth, others.logsumexp(0))
            values.append(truth - evidence + constant)
        return torch.stack(values, 1).diff(dim=1)

    def _draw(self, history: History, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A design from the tanh-Gaussian policy, with its log probability."""
        raw: Tensor = self.networks["actor"](history)
        mean, log_std = raw.chunk(2, -1)
        log_std = log_std.clamp(-5.0, 1.0)
        noise = torch.randn(mean.shape, generator=generator)
        before = mean + log_std.exp() * noise
        # log |d tanh(x) / dx| in the form that does not underflow.
        squash = 2 * (0.6931471805599453 - before - F.softplus(-2 * before))
        log_prob = (-0.5 * noise**2 - 0.9189385332046727 - log_std - squash).sum(-1)
        return before.tanh(), log_prob

    def _learn_critics(
        self, history: History, reward: Tensor, step: Tensor, generator: torch.Generator
    ) -> None:
        config, rows = self.config, torch.arange(len(step))
        before, after = history.before(step), history.before(step + 1)
        with torch.no_grad():
            design, log_prob = self._draw(after, generator)
            subset = torch.randperm(config.critics, generator=generator)[: config.subset].tolist()
            values = [self._targets[i](after, design)[:, 0] for i in subset]  # type: ignore[index]
            future = torch.stack(values).amin(0) - self._log_temperature.exp() * log_prob
            last = (step + 1 == self.task.spec.horizon).float()
            wanted = reward[rows, step] + config.discount * (1 - last) * future
        critics: nn.ModuleList = self.networks["critics"]  # type: ignore[assignment]
        taken = history.designs[rows, step]
        loss = torch.stack([F.mse_loss(c(before, taken)[:, 0], wanted) for c in critics]).sum()
        self._critics.zero_grad(set_to_none=True)
        loss.backward()
        self._critics.step()
        with torch.no_grad():
            pairs = zip(self._targets.parameters(), critics.parameters(), strict=True)
            for target, current in pairs:
                target.lerp_(current, config.target_rate)

    def _learn_actor(self, before: History, generator: torch.Generator) -> None:
        design, log_prob = self._draw(before, generator)
        critics: nn.ModuleList = self.networks["critics"]  # type: ignore[assignment]
        value = torch.stack([critic(before, design)[:, 0] for critic in critics]).mean(0)
        loss = (self._log_temperature.exp().detach() * log_prob - value).mean()
        self._actor.zero_grad(set_to_none=True)
        loss.backward()
        self._actor.step()
        wanted = -float(design.shape[-1])  # the usual target entropy
        heat = -(self._log_temperature * (log_prob.detach() + wanted).mean())
        self._heat.zero_grad(set_to_none=True)
        heat.backward()
        self._heat.step()

    def act(self, history: History) -> Tensor:
        """The middle of the policy's distribution: how it is deployed."""
        raw: Tensor = self.networks["actor"](history)
        return raw.chunk(2, -1)[0].tanh()

    def policy(self) -> HistoryPolicy:
        """What it has learned."""
        return HistoryPolicy(self.task.spec.design, self.act, self.task.spec.horizon)
