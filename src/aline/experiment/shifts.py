"""Bets that all numbers are shifted from some trial on, where the likelihood is known.

A model explains a steady shift away, as far as it can: a source that seems brighter seems nearer.
By its own predictions there is then little to see. So here the posterior is fitted again, to
outcomes that are shifted back, and a bet pays the density of an outcome under that over its density
under the model. Multiplied over trials that is the ratio of two marginal likelihoods, the best test
that there is (Neyman and Pearson) of a shift of this size from this trial on.

The network's posterior only proposes: its draws are weighed by the likelihood of the past.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from aline.engine import Engine
from aline.episodes import Context
from aline.tasks import Task

SIZES = (3.0, -3.0)  # standard deviations of the noise
DRAWS = 256  # of each posterior
PAIRS = 64  # simulated outcomes of one truth, two by two, to know the noise by
_NEVER = -700.0


def can_shift(task: Task) -> bool:
    """Whether outcomes are plain numbers of which the parameters alone give the likelihood."""
    is_plain = task.spec.outcome.is_linear and not task.spec.outcome.event_shape
    return is_plain and task.log_likelihood is not None and task.latent is None


def payoffs_of_shifts(
    task: Task,
    engine: Engine,
    past: Context,
    design: Tensor,
    value: Tensor,
    starts: Sequence[int],
) -> Tensor:
    """What bets on each of `SIZES` from each start on pay for an outcome, [batch, start, size].

    Designs [batch, design] and values [batch] on the network's scale. With a prior of the
    experiment's own, nothing is bet.
    """
    if past.prior is not None:
        return torch.ones(len(design), len(starts), len(SIZES), dtype=torch.float64)
    generator = torch.Generator().manual_seed(past.length)
    spread = _noise(task, engine, past, design, generator)
    shifts = _shifts(spread, starts)  # [batch, 1 + start * size, context + 1]
    outcomes = torch.cat([past.outcomes, value[:, None].to(past.outcomes.dtype)], 1)[:, None]
    density = _log_predictive(task, engine, past.designs, design, outcomes - shifts, generator)
    ratio = (density[:, 1:] - density[:, :1]).exp()
    paid: Tensor = ratio.unflatten(1, (len(starts), len(SIZES)))
    return paid


def _noise(
    task: Task, engine: Engine, past: Context, design: Tensor, generator: torch.Generator
) -> Tensor:
    """The standard deviation of outcomes given the parameters at all designs, [batch, n + 1]."""
    data = engine.read(past)
    theta = _draws(engine, data, PAIRS, generator)[0]
    designs = torch.cat([past.designs, design[:, None]], 1).repeat_interleave(PAIRS, 0)
    world = task.worlds(theta.flatten(0, 1), generator)
    first, second = (world.answer(designs, generator) for _ in range(2))
    apart = (first - second).square().unflatten(0, (len(design), PAIRS))
    spread: Tensor = (apart.mean(1) / 2).sqrt()
    return spread


def _shifts(spread: Tensor, starts: Sequence[int]) -> Tensor:
    """None, then of each start and size."""
    steps = torch.arange(spread.shape[1])
    sizes = torch.tensor([(start, size) for start in starts for size in SIZES])
    begun = steps >= sizes[:, :1]
    each = spread[:, None] * (begun * sizes[:, 1:])
    return torch.cat([torch.zeros_like(each[:, :1]), each], 1)


def _log_predictive(
    task: Task,
    engine: Engine,
    designs: Tensor,
    design: Tensor,
    outcomes: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """Of the last of outcomes [batch, many, n + 1] given those before, [batch, many]."""
    batch, many = outcomes.shape[:2]
    before = Context(designs.repeat_interleave(many, 0), outcomes[..., :-1].flatten(0, 1))
    theta, q = _draws(engine, engine.read(before), DRAWS, generator)
    everywhere = torch.cat([designs, design[:, None]], 1).repeat_interleave(many, 0)
    fits = task.log_prob(theta, everywhere[:, None], outcomes.flatten(0, 1)[:, None]).double()
    prior = -0.5 * theta.square().sum(-1) - 0.5 * theta.shape[-1] * math.log(2 * math.pi)
    weight = (prior - q + fits[..., :-1].sum(-1)).nan_to_num(-math.inf, -math.inf, -math.inf)
    last = fits[..., -1].nan_to_num(-math.inf, -math.inf, -math.inf)
    density = (weight + last).logsumexp(-1) - weight.logsumexp(-1)
    found: Tensor = density.nan_to_num(_NEVER).clamp_min(_NEVER).unflatten(0, (batch, many))
    return found


def _draws(
    engine: Engine, data: object, count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Of each posterior, [batch, draw, parameter], with their log densities [batch, draw]."""
    if engine.network.conditional is not None:
        joint = engine.joint(data)
        theta = joint.sample(count, generator)
        return theta[:, 0], joint.log_prob(theta)[:, 0].double()
    marginals = engine.posterior(data)
    theta = marginals.sample(count, generator).transpose(0, 1)
    return theta, marginals.unsqueeze(1).log_prob(theta).sum(-1).double()
