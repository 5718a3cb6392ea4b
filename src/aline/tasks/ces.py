"""Constant elasticity of substitution: a person rates one basket of goods against another.

Appendix C.2.1, with the details in which public codes differ: rho has a floor of 0.01, goods are
taken as at least 0.01, and the outcome is kept as eta, clipped where the rating y = sigmoid(eta)
is, because a rating in float32 loses eta where it matters. Densities are those of eta.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Dirichlet, LogNormal, Uniform

from aline.spaces import Box, Real
from aline.tasks.task import Named, Task

GOODS, MOST, LEAST = 3, 100.0, 0.01
TAU = 0.005
LIMIT = math.log(2.0**22 - 1)  # |eta| where the rating is 2^-22 from 0 or 1
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_FAR = -8.0
_SERIES_THERE = -32.0 - math.log(8.0) + (-1 + (2.5 - 37 / 3 / 64) / 64) / 64
_FIRST = tuple(f"first_{k + 1}" for k in range(GOODS))
_SECOND = tuple(f"second_{k + 1}" for k in range(GOODS))


def utility(theta: Named, basket: list[Tensor]) -> Tensor:
    """U(z) = (sum_k alpha_k z_k^rho)^(1/rho), of goods z_k that broadcast with the parameters.

    Relative to the last good, whose term then is zero because the alphas sum to one, and as
    log U = log z_K + log1p(sum_k alpha_k expm1(rho log(z_k / z_K))) / rho: it loses no digits for
    small rho.
    """
    rho, alpha = theta["rho"], theta["alpha"]
    *others, last = [good.clamp_min(LEAST).log() for good in basket]
    total = torch.zeros(())
    for k, good in enumerate(others):
        total = torch.addcmul(total, alpha[..., k], torch.expm1(rho * (good - last)))
    return (torch.log1p(total) * rho.reciprocal() + last).exp()


def _preference(theta: Named, design: Named) -> tuple[Tensor, Tensor]:
    """U(z) - U(z'), and the noise's standard deviation; both still to be multiplied by u."""
    first, second = [design[n] for n in _FIRST], [design[n] for n in _SECOND]
    apart = sum(((a - b) ** 2 for a, b in zip(first, second, strict=True)), torch.zeros(()))
    # The root of exactly nothing has no gradient.
    noise = TAU * (1 + (apart + 1e-12).sqrt())
    return utility(theta, first) - utility(theta, second), noise


def _simulate(theta: Named, design: Named, generator: torch.Generator) -> Tensor:
    preference, noise = _preference(theta, design)
    luck = torch.randn(preference.shape, generator=generator)
    return (theta["u"] * (preference + noise * luck)).clamp(-LIMIT, LIMIT)


def _log_likelihood(theta: Named, design: Named, outcome: Tensor) -> Tensor:
    preference, noise = _preference(theta, design)
    z = (outcome * theta["u"].reciprocal() - preference) * noise.reciprocal()
    log_density = -0.5 * z * z - (theta["u"].log() + (noise.log() + _LOG_SQRT_2PI))
    clipped = _is_clipped(outcome)
    if not bool(clipped.any()):
        return log_density
    # Beyond a limit lies a tail of the normal distribution.
    clipped = clipped.expand_as(z)
    return log_density.masked_scatter(clipped, log_tail((-outcome.sign() * z)[clipped]))


def log_tail(x: Tensor) -> Tensor:
    """Log of the standard normal distribution function, as `torch.special.log_ndtr`.

    But several times faster, which is what the bounds spend their time on: erfc where it does not
    underflow, its asymptotic series below.
    """
    near, far = x.clamp_min(_FAR), x.clamp_max(_FAR)
    square = far * far
    r = square.reciprocal()
    series = -0.5 * square - (-far).log() + r * (-1 + r * (2.5 - r * (37 / 3)))
    # One of the two terms is constant on either side; both are -53.23 where they meet.
    return (0.5 * torch.erfc(near * -math.sqrt(0.5))).log() + (series - _SERIES_THERE)


def _log_peak(theta: Named, design: Named, outcome: Tensor) -> Tensor:
    """A clipped outcome has a probability, at most 1; others the density at their noise's mode."""
    pairs = zip(_FIRST, _SECOND, strict=True)
    apart = sum(((design[a] - design[b]) ** 2 for a, b in pairs), torch.zeros(()))
    log_noise = (TAU * (1 + (apart + 1e-12).sqrt())).log() + _LOG_SQRT_2PI
    seen = (~_is_clipped(outcome)).to(log_noise.dtype)
    return -(seen * log_noise).sum(-1) - seen.sum(-1) * theta["u"][..., 0].log()


def _is_clipped(outcome: Tensor) -> Tensor:
    return outcome.abs() > LIMIT - 1e-4


def _explore(theta: Named, count: int, generator: torch.Generator) -> Named:
    """Pairs near indifference, at the scale of u: |u (U(z) - U(z'))| below the limit.

    Two goods of the second basket are drawn at a random distance from the first basket's, the
    third is solved for. Of several such pairs the first that exists is taken.
    """
    exact = {name: value.double() for name, value in theta.items()}
    batch, tries = len(theta["rho"]), 16
    shape = (batch, count, tries)
    first = MOST * torch.rand(batch, count, 1, GOODS, generator=generator).expand(*shape, GOODS)
    spread = torch.pow(10.0, 2.8 * torch.rand(shape, generator=generator) - 1)
    second = first + spread[..., None] * torch.randn(*shape, GOODS, generator=generator)
    second = second.clamp(LEAST, MOST)
    solved = torch.randint(GOODS, shape, generator=generator)
    share = torch.pow(10.0, -2.0 * torch.rand(shape, generator=generator))
    sign = torch.randint(2, shape, generator=generator) * 2.0 - 1.0
    third = _indifferent(exact, first.double(), second.double(), solved, sign * share)
    exists = (third > LEAST) & (third < MOST)
    third = torch.where(exists, third, second.double().gather(-1, solved[..., None])[..., 0])
    second = second.scatter(-1, solved[..., None], third.float()[..., None])
    pick = exists.float().argmax(-1)[..., None, None].expand(batch, count, 1, GOODS)
    baskets = first.gather(2, pick)[:, :, 0], second.gather(2, pick)[:, :, 0]
    return dict(zip(_FIRST + _SECOND, torch.cat(baskets, -1).unbind(-1), strict=True))


def _indifferent(
    theta: Named, first: Tensor, second: Tensor, solved: Tensor, share: Tensor
) -> Tensor:
    """The amount of one good in the second basket with which u (U - U') is a share of the limit.

    NaN or out of bounds where there is none. Baskets are [batch, count, try, good].
    """
    rho, alpha, u = theta["rho"][..., None], theta["alpha"][..., None, :], theta["u"][..., None]
    aimed = {"rho": rho, "alpha": alpha}
    difference = (share * LIMIT / u).clamp(-0.5 * MOST, 0.5 * MOST)
    wanted = utility(aimed, list(first.unbind(-1))) - difference
    others = torch.ones_like(second).scatter(-1, solved[..., None], 0.0)
    # alpha_k expm1(rho log z_k) is what each good adds to expm1(rho log U).
    total = torch.expm1(rho * wanted.clamp_min(1e-300).log())
    given = (others * alpha * torch.expm1(rho[..., None] * second.log())).sum(-1)
    weight = alpha.expand_as(second).gather(-1, solved[..., None])[..., 0]
    good = (torch.log1p(((total - given) / weight).clamp_min(-1.0)) / rho).exp()
    return torch.where(wanted > 0, good, torch.nan)


def ces(horizon: int = 10) -> Task:
    """Tastes from ratings of baskets: rho, the goods' weights alpha, and the scale u of ratings.

    The outcome is the logit of the rating, cut off at ±15.2.
    """
    bounds = dict.fromkeys(_FIRST + _SECOND, (0.0, MOST))
    relative = dict(zip(_SECOND, _FIRST, strict=True))
    return Task(
        name="ces",
        parameters={
            "rho": Uniform(LEAST, 1.0),
            "alpha": Dirichlet(torch.ones(GOODS)),
            "u": LogNormal(1.0, 3.0),
        },
        design=Box(**bounds).compared(relative, linear_within=0.1),
        outcome=Real(loc=0.0, scale=6.0, linear_within=1e-3, limits=(-LIMIT, LIMIT)),
        simulate=_simulate,
        log_likelihood=_log_likelihood,
        log_peak=_log_peak,
        explore=_explore,
        horizon=horizon,
        targets={("rho", "alpha", "u"): 1.0},
        start=1,
        resolution=0.03,
        # Two baskets must balance to a thousandth: designs are judged by the likelihood.
        model={"policy": "informed", "policy_layers": 1, "width": 64, "heads": 8},
        # The data soon rule out every other draw from the prior, so none could stand in for the
        # truth. Playing costs more than learning here, so that a batch is learned from for longer.
        training={
            "possible_truths": 0,
            "batch": 128,
            "updates": 20,
            "policy_updates": 1,
            "candidates": 12,
            "greedy_share": 0.0,
        },
        budget="3h",
        config={"horizon": horizon},
    )
