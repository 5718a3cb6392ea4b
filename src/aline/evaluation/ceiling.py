"""How well guess and lapse rates can be known after some trials, by any choice of stimuli.

Far below threshold an observer says yes with probability `low`, far above with 1 - `miss`. Anywhere
between, a trial is one at the lower end with probability 1 - F and one at the upper end with F, and
F depends on threshold and slope, not on the rates. Whoever may ask at both clean ends can therefore
imitate every experiment: draw a threshold and a slope, and at each of its trials toss for the end.
So no policy learns more about the rates than the best one of two coins, and that one is found by
dynamic programming over how often each coin was tossed and fell on yes.

What is bounded is the posterior RMSE of `observers.posterior_rmse`: the mean over both rates of
r = sqrt((t - m)^2 + v), with t the truth of a rate and m and v the mean and variance of the belief
about it. Its expectation under the belief itself is no concave function of the belief, so that less
to know might make it smaller. Therefore let whoever reports m and v of a rate pay

    r + PRICE ((t - m)^2 - v) / sqrt(v).

An exact posterior that reports its own pays r on average. The least that can be paid on average is
concave (a least of averages), so here more to know never hurts, and what the best player of the
coins pays, who may report what pays best, bounds the posterior RMSE of every exact posterior. (One
that is surer than the data allow is not bounded: it errs no more, and this measure of error rewards
its narrowness.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from aline.errors import InputError
from aline.tasks.lattice import gauss_legendre
from aline.tasks.psychometric import Psychometric

RATES = ("guess", "lapse")
PRICE = 0.395  # any is right; at this one honest reports of normal beliefs pay best
_NODES = 24  # a rate; 17 make the moments exact for uniform priors and 30 trials
_STEPS = tuple(0.2 / 2**i for i in range(7))  # of the search for a report, in deviations
_AT_ONCE = 1024  # beliefs

Cost = Callable[["Coins", Tensor], Tensor]
"""What beliefs [belief, node] cost in the end, [belief]."""


@dataclass(frozen=True)
class Coins:
    """Two coins that the rates decide about, on nodes of the rates' prior."""

    rates: Tensor  # [rate, value], in the user's units; a node is a pair of values
    weight: Tensor  # [node], the prior's
    yes: Tensor  # [node, coin], how likely a yes is

    @classmethod
    def of(cls, task: Psychometric, nodes: int = _NODES) -> Coins:
        """The two ends of a task whose guess and lapse rate are both unknown."""
        names, scales = task.spec.parameters.names, task.spec.parameters.scales
        if not set(RATES) <= set(names):
            raise InputError(f"a ceiling needs guess and lapse unknown, got {', '.join(names)}")
        x, weight = gauss_legendre(nodes)
        z = torch.special.ndtri((x + 1) / 2)
        rates = torch.stack([scales[names.index(name)].to_user(z) for name in RATES])
        low, miss = task.form(*torch.cartesian_prod(*rates).T)
        return cls(
            rates, torch.outer(weight, weight).flatten() / 4, torch.stack([low, 1 - miss], 1)
        )

    def beliefs(self, tosses: Tensor) -> Tensor:
        """After yes and no of the first coin, yes and no of the second, [belief, 4]."""
        logs = torch.stack([self.yes, 1 - self.yes], 2).flatten(1).log()  # [node, 4]
        return (tosses.double() @ logs.T + self.weight.log()).softmax(1)

    def marginals(self, belief: Tensor) -> Tensor:
        """What beliefs [belief, node] say of each rate, [belief, rate, value]."""
        both = belief.unflatten(1, (self.rates.shape[1],) * 2)
        return torch.stack([both.sum(2), both.sum(1)], 1)


def expected_rmse(coins: Coins, belief: Tensor) -> Tensor:
    """What an exact posterior has, on average over the truths that it holds possible."""
    marginal = coins.marginals(belief)
    mean, variance = _moments(coins, marginal)
    return (marginal * _distance(_square(coins, mean), variance)).sum(2).mean(1)


def payment(coins: Coins, belief: Tensor) -> Tensor:
    """The least to pay on average, for any report: a search that halves its steps."""
    marginal = coins.marginals(belief)
    mean, variance = _moments(coins, marginal)
    at, least = mean.new_zeros(*mean.shape, 2), torch.full_like(mean, torch.inf)
    for step in _STEPS:
        start = at
        for move in product((-step, 0.0, step), repeat=2):
            tried = start + torch.tensor(move)
            shift, widening = tried.unbind(2)
            report = mean + variance.sqrt() * shift, variance * widening.exp()
            paid = (marginal * _paid(coins, *report)).sum(2)
            at = torch.where((paid < least)[..., None], tried, at)
            least = torch.minimum(paid, least)
    return least.mean(1)


def best_of_coins(coins: Coins, trials: int, cost: Cost) -> float:
    """The expected cost in the end under the best policy, for so many tosses of either coin."""
    ends = coins.beliefs(_states(trials)).split(_AT_ONCE)
    value = torch.cat([cost(coins, belief) for belief in ends])
    for trial in reversed(range(trials)):
        later = value.new_zeros((trial + 2,) * 3)
        later[_first_three(_states(trial + 1))] = value
        states = _states(trial)
        outcomes = [later[_first_three(states + one)] for one in torch.eye(4, dtype=torch.long)]
        yes, no = torch.stack(outcomes, 1).view(-1, 2, 2).unbind(2)  # [state, coin]
        likely = coins.beliefs(states) @ coins.yes
        value = (likely * yes + (1 - likely) * no).amin(1)
    return float(value)


def _states(trials: int) -> Tensor:
    """Every [state, 4] of yes and no of the first coin, yes and no of the second."""
    three = torch.cartesian_prod(*[torch.arange(trials + 1)] * 3)
    rest = trials - three.sum(1)
    return torch.cat([three, rest[:, None]], 1)[rest >= 0]


def _first_three(states: Tensor) -> tuple[Tensor, ...]:
    """An index; the fourth count is what is left."""
    return states[:, :3].unbind(1)


def _moments(coins: Coins, marginal: Tensor) -> tuple[Tensor, Tensor]:
    """Means and variances, [belief, rate]."""
    mean = (marginal * coins.rates).sum(2)
    return mean, (marginal * _square(coins, mean)).sum(2)


def _square(coins: Coins, mean: Tensor) -> Tensor:
    """Of the distance between a mean and every truth, [belief, rate, value]."""
    return (coins.rates - mean[..., None]).square()


def _distance(square: Tensor, variance: Tensor) -> Tensor:
    """Between truths and beliefs: r in the text above."""
    return (square + variance[..., None]).sqrt()


def _paid(coins: Coins, mean: Tensor, variance: Tensor) -> Tensor:
    """For a report, by truth, [belief, rate, value]."""
    square = _square(coins, mean)
    price = PRICE * (square - variance[..., None]) / variance.sqrt()[..., None]
    return _distance(square, variance) + price
