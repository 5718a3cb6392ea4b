"""Deep adaptive design (Foster et al., 2021): a policy by gradient ascent on sPCE."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from aline.baselines.history import (
    History,
    HistoryPolicy,
    SetNet,
    annealed,
    check_likelihood,
    check_one_number,
    log_likelihoods,
    roll,
)
from aline.errors import InputError
from aline.model import initial_weights
from aline.tasks import Task, is_differentiable


@dataclass(frozen=True)
class DadConfig:
    """The paper's settings (appendix C.2.2); it leaves the number of episodes a step open.

    >>> DadConfig(batch=20).batch
    20
    """

    contrastive: int = 10_000
    batch: int = 50
    hidden: int = 128
    code: int = 16
    learning_rate: float = 5e-5
    betas: tuple[float, float] = (0.8, 0.998)
    decay: float = 0.98  # of the learning rate, every `decay_rounds`
    decay_rounds: int = 1000
    anneals: bool = False  # the learning rate ends at 0 with the budget, whatever `decay` is


DAD_PRESETS = {"location": DadConfig(), "ces": DadConfig()}
# For minutes on a core: rounds that are 20 times cheaper, and larger steps.
DAD_SHORT = {"contrastive": 500, "learning_rate": 1e-3, "anneals": True}


class Dad:
    """Deep adaptive design in training.

    >>> from aline.baselines import learn
    >>> from aline.tasks import get
    >>> learner = Dad(get("location", horizon=3), DadConfig(contrastive=10, batch=4))
    >>> seconds = learn(learner, rounds=1)
    >>> learner.policy().horizon
    3
    """

    def __init__(self, task: Task, config: DadConfig | None = None, seed: int = 0):
        check_likelihood(task, "DAD")
        check_one_number(task, "DAD")
        if not is_differentiable(task):
            raise InputError(
                f"DAD differentiates outcomes with respect to designs, task {task.spec.name} does "
                "not allow it: use rl-boed or vsoed"
            )
        self.task, self.config = task, config or DAD_PRESETS.get(task.spec.name, DadConfig())
        design = len(task.spec.design)
        with initial_weights(seed):
            net = SetNet(design, [self.config.hidden], self.config.code, [design])
        self.networks = nn.ModuleDict({"policy": net})
        self._optimiser = torch.optim.Adam(
            net.parameters(), lr=self.config.learning_rate, betas=self.config.betas
        )
        self._rounds = 0

    def round(self, generator: torch.Generator, progress: float) -> None:
        """A gradient step."""
        config = self.config
        decay = config.decay ** (self._rounds // config.decay_rounds)
        rate = config.learning_rate * (annealed(progress) if config.anneals else decay)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.zero_grad(set_to_none=True)
        loss = -self.objective(generator)
        loss.backward()
        self._optimiser.step()
        self._rounds += 1

    def objective(self, generator: torch.Generator) -> Tensor:
        """sPCE without its constant, by the gradient of every outcome and design."""
        task = self.task
        rolled = roll(task, lambda history, step: self.act(history), self.config.batch, generator)
        draws = task.spec.parameters.sample(self.config.contrastive, generator)
        truth, others = torch.zeros(self.config.batch), torch.zeros(())
        for step, x in enumerate(rolled.x):
            y = rolled.history.outcomes[:, step]
            truth = truth + task.log_prob(rolled.world.theta, x[:, None], y[:, None])[:, 0]
            others = others + log_likelihoods(task, draws, x, y)
        return (truth - torch.cat([truth[None], others]).logsumexp(0)).mean()

    def act(self, history: History) -> Tensor:
        """The design that the network emits."""
        emitted: Tensor = self.networks["policy"](history)
        return emitted.tanh()

    def policy(self) -> HistoryPolicy:
        """What it has learned."""
        return HistoryPolicy(self.task.spec.design, self.act, self.task.spec.horizon)
