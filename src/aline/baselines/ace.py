"""ACE: the same network without a policy, asked by uncertainty or at random (appendix C.1.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from aline.baselines.uncertainty import UncertaintyPolicy
from aline.episodes import Offer, RandomPolicy
from aline.model import Model
from aline.policies import Memory
from aline.tasks import Task
from aline.training import TrainingConfig, train


@dataclass(frozen=True)
class AcePolicy(UncertaintyPolicy):
    """Uncertainty sampling (us) or random sampling (rs), with the network's beliefs either way.

    >>> import aline
    >>> from aline.engine import engine_for
    >>> AcePolicy(engine_for(aline.load("gp1d")), acquisition="rs").acquisition
    'rs'
    """

    acquisition: Literal["us", "rs"] = "us"

    def choose(self, memory: Memory, offer: Offer | None, generator: torch.Generator) -> Tensor:
        """The next design [batch, design]."""
        if self.acquisition == "us":
            return super().choose(memory, offer, generator)
        random = RandomPolicy(self.engine.network.spec.design)
        return random.choose(len(memory.goal.parameters), offer, generator)


def train_ace(task: Task, budget: str = "30min", **options: Any) -> Model:
    """A model whose posterior is trained on random designs throughout, and which has no policy.

    `options` are those of `train`.

    >>> from aline.tasks import get
    >>> train_ace(get("linear", horizon=2), rounds=1, progress=False).spec.name
    'linear'
    """
    config = options.pop("config", None) or TrainingConfig(**task.training)
    config = replace(config, warmup=1.0, policy_updates=0)
    return train(task, budget, config=config, verdict=False, **options)
