"""VPCE (Foster et al., 2020): a variational posterior, then the design of the largest myopic PCE.

Nothing is learned beforehand: every trial fits a Gaussian to the posterior on the network's scale
and climbs the prior contrastive bound with that Gaussian in the place of the prior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from aline.baselines.history import check_likelihood, from_linear
from aline.episodes import Context, Goal, Offer
from aline.errors import InputError
from aline.policies import nearest
from aline.tasks import Task, is_differentiable
from aline.tasks.task import SimulatedWorld


@dataclass(frozen=True)
class VpceConfig:
    """The paper's settings (appendix C.2.2, its table).

    >>> VpceConfig(fit_steps=100).fit_steps
    100
    """

    fit_steps: int = 1000
    fit_rate: float = 1e-3
    design_steps: int = 2500
    design_rate: float = 1e-3
    contrastive: int = 500
    outer: int = 500  # draws for the expectation
    fit_draws: int = 16


VPCE_PRESETS = {"location": VpceConfig(), "ces": VpceConfig(contrastive=10, outer=10)}


class VpcePolicy:
    """VPCE as a policy on the episode loop.

    >>> from aline.episodes import goal_of, play
    >>> from aline.tasks import get
    >>> small = VpceConfig(fit_steps=2, design_steps=2, contrastive=5, outer=5, fit_draws=2)
    >>> task, generator = get("location"), torch.Generator().manual_seed(0)
    >>> policy, goal = VpcePolicy(task, small), goal_of(task.spec, ["source_x", "source_y"])
    >>> play(policy, task.draw(1, generator), goal, steps=2, generator=generator).length
    2
    """

    def __init__(self, task: Task, config: VpceConfig | None = None):
        check_likelihood(task, "VPCE")
        if not is_differentiable(task):
            raise InputError(
                f"VPCE differentiates outcomes with respect to designs, task {task.spec.name} does "
                "not allow it"
            )
        self.task, self.config = task, config or VPCE_PRESETS.get(task.spec.name, VpceConfig())

    def begin(self, goal: Goal) -> Context:
        """Nothing measured yet; VPCE always aims at all parameters."""
        return Context.empty(len(goal.parameters), len(self.task.spec.design))

    def observe(self, state: Context, design: Tensor, outcome: Tensor) -> Context:
        """Take in one more observation."""
        return state.append(design, outcome)

    def choose(self, state: Context, offer: Offer | None, generator: torch.Generator) -> Tensor:
        """The next design [batch, design]."""
        with torch.enable_grad():
            mean, std = self.fit(state, generator)
            point = self._climb(mean, std, generator)
        space = self.task.spec.design
        if offer is None and space.points is not None:
            offer = Offer(space.to_network(space.points).expand(len(point), -1, -1))
        return point if offer is None else nearest(offer, point)

    def fit(self, state: Context, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation [batch, parameter] of the best Gaussian (by its ELBO)."""
        shape = (len(state.outcomes), len(self.task.spec.parameters))
        if state.length == 0:
            return torch.zeros(shape), torch.ones(shape)
        mean, log_std = (torch.zeros(shape, requires_grad=True) for _ in range(2))
        optimiser = torch.optim.Adam([mean, log_std], lr=self.config.fit_rate)
        for _ in range(self.config.fit_steps):
            noise = torch.randn(self.config.fit_draws, *shape, generator=generator)
            theta = mean + log_std.exp() * noise
            fit = self.task.log_prob(theta, state.designs, state.outcomes).sum(-1)
            elbo = fit - 0.5 * (theta**2).sum(-1) + log_std.sum(-1)
            _ascend(optimiser, elbo.mean(0).sum())
        return mean.detach(), log_std.detach().exp()

    def _climb(self, mean: Tensor, std: Tensor, generator: torch.Generator) -> Tensor:
        space, config = self.task.spec.design, self.config
        start = torch.rand(len(mean), len(space), generator=generator) * 2 - 1
        free = start.atanh().requires_grad_()
        optimiser = torch.optim.Adam([free], lr=config.design_rate)
        for _ in range(config.design_steps):
            _ascend(
                optimiser, self._pce(from_linear(space, free.tanh()), mean, std, generator).sum()
            )
        return from_linear(space, free.detach().tanh())

    def _pce(self, x: Tensor, mean: Tensor, std: Tensor, generator: torch.Generator) -> Tensor:
        """The bound on the information of one trial at x [batch, design], [batch]."""
        config, batch = self.config, len(x)
        draws = config.outer + config.contrastive
        noise = torch.randn(batch, draws, mean.shape[-1], generator=generator)
        theta = mean[:, None] + std[:, None] * noise
        truth, others = theta.split([config.outer, config.contrastive], 1)
        designs = x[:, None].expand(batch, config.outer, -1)
        world = SimulatedWorld(self.task, truth.reshape(batch * config.outer, -1))
        flat = designs.reshape(batch * config.outer, 1, -1)
        outcomes = world.answer(flat, generator).view(batch, config.outer)
        own = self.task.log_prob(world.theta, flat, outcomes.view(-1, 1)).view(batch, config.outer)
        # [contrastive, batch, outer]: every outcome under every other draw of its episode. They
        # share a design, so that what it predicts for a draw is computed once.
        each = self.task.log_prob(others.transpose(0, 1), x[:, None], outcomes)
        evidence = torch.logaddexp(own, each.logsumexp(0)) - math.log(config.contrastive + 1)
        return (own - evidence).mean(1)


def _ascend(optimiser: torch.optim.Optimizer, objective: Tensor) -> None:
    optimiser.zero_grad(set_to_none=True)
    (-objective).backward()
    optimiser.step()
