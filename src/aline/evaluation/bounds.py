"""Bounds on the information that an experiment gathered: sPCE from below, sNMC from above.

Both compare the likelihood of an episode's data under its true parameters with that under L other
draws from the prior (Foster et al., 2021). The draws are streamed, so memory does not grow with L.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from aline.episodes import Context
from aline.errors import InputError
from aline.evaluation.estimates import Estimate, mean
from aline.evaluation.simulated import log_prior
from aline.model import Joint
from aline.spaces import Parameters
from aline.tasks import Task
from aline.tasks.task import Named

_AT_ONCE = 2**16  # likelihood values a call: what stays in the cache
_EPISODES = 256  # episodes a call, each compared with _CHUNK draws
_CHUNK = _AT_ONCE // _EPISODES
_PILOT = 4 * _CHUNK  # draws that are compared on every observation, to see which count most
_DEFENSIVE = 0.1  # the share of the prior in an adaptive proposal
_FEW = 0.1  # the share of draws that is better followed one by one

Progress = Callable[[int, int], None]
"""Told how many of how many contrastive draws are done."""


@dataclass(frozen=True)
class Bounds:
    """Lower and upper bound on the expected information gain, in nats.

    >>> bounds = Bounds(Estimate(3.2, 0.1, 100), Estimate(3.4, 0.1, 100), contrastive=1000)
    >>> round(bounds.cap, 2)
    6.91
    """

    lower: Estimate  # sPCE, or ACE with a proposal
    upper: Estimate  # sNMC, or VNMC with a proposal
    contrastive: int  # L
    adaptive: bool = False  # whether the draws came from a proposal, not from the prior

    @property
    def cap(self) -> float:
        """What the lower bound cannot exceed, however much was learned."""
        return math.inf if self.adaptive else math.log(self.contrastive + 1)

    @property
    def note(self) -> str | None:
        """A warning when the lower bound is near its cap, where it says little."""
        if self.lower.value < self.cap - 1:
            return None
        return (
            f"sPCE {self.lower.value:.2f} is within a nat of its cap log(L + 1) = {self.cap:.2f}: "
            "take more contrastive draws, or trust the upper bound only"
        )


def information_bounds(
    task: Task,
    context: Context,
    theta: Tensor,
    contrastive: int,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> Bounds:
    """sPCE and sNMC of played episodes; theta [batch, parameter] on the network's scale.

    All episodes share the contrastive draws. The intervals are over episodes.

    >>> from aline.episodes import RandomPolicy, goal_of, play
    >>> from aline.tasks import get
    >>> task, generator = get("linear", horizon=2), torch.Generator().manual_seed(0)
    >>> world, goal = task.draw(20, generator), goal_of(task.spec, "slope").repeat(20)
    >>> policy = RandomPolicy(task.spec.design)
    >>> context = play(policy, world, goal, steps=5, generator=generator)
    >>> bounds = information_bounds(task, context, world.theta, 1000, generator)
    >>> 0 < bounds.lower.value < bounds.upper.value
    True
    """
    lower, upper = episode_bounds(task, context, theta, contrastive, generator, progress)
    return Bounds(mean(lower), mean(upper), contrastive)


def episode_bounds(
    task: Task,
    context: Context,
    theta: Tensor,
    contrastive: int,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> tuple[Tensor, Tensor]:
    """The terms of sPCE and sNMC of each episode, [batch] each.

    >>> from aline.episodes import RandomPolicy, goal_of, play
    >>> from aline.tasks import get
    >>> task, generator = get("linear", horizon=2), torch.Generator().manual_seed(0)
    >>> world, goal = task.draw(20, generator), goal_of(task.spec, "slope").repeat(20)
    >>> policy = RandomPolicy(task.spec.design)
    >>> context = play(policy, world, goal, steps=5, generator=generator)
    >>> lower, upper = episode_bounds(task, context, world.theta, 1000, generator)
    >>> lower.shape, upper.shape
    (torch.Size([20]), torch.Size([20]))
    """
    _check(task, context, contrastive)
    each = task.log_prob(theta, context.designs, context.outcomes)
    draws = contrastive_draws(task.spec.parameters, contrastive, generator)
    blocks = _blocks(task, context, each, next(draws), contrastive)
    done = min(_PILOT, contrastive)
    for chunk in draws:
        for block in blocks:
            block.add(chunk)
        done += _size(chunk)
        if progress is not None:
            progress(done, contrastive)
    at_truth = each.double().sum(1)
    evidence = torch.cat([block.finish() for block in blocks])
    with_truth = torch.logaddexp(evidence, at_truth)
    lower = at_truth - with_truth + math.log(contrastive + 1)
    return lower, at_truth - evidence + math.log(contrastive)


def adaptive_bounds(
    task: Task,
    context: Context,
    theta: Tensor,
    posteriors: Iterable[Joint],
    contrastive: int,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> Bounds:
    """The same bounds with draws from q (Foster et al., 2020: ACE from below, VNMC from above).

    Where q is near the posterior, thousands of draws do what takes millions from the prior, and
    nothing caps the lower bound. `posteriors` are q after each whole episode. A tenth of the draws
    comes from the prior, so that no weight can explode where q has missed something.

    >>> import aline
    >>> from aline.episodes import RandomPolicy, goal_of, play
    >>> from aline.tasks import get
    >>> task, generator = get("linear", horizon=2), torch.Generator().manual_seed(0)
    >>> network = aline.train(task, rounds=1, progress=False).network
    >>> world, goal = task.draw(1, generator), goal_of(task.spec, "slope")
    >>> context = play(RandomPolicy(task.spec.design), world, goal, steps=5, generator=generator)
    >>> with torch.no_grad():
    ...     q = [network.joint(network.encode(context))]
    >>> adaptive_bounds(task, context, world.theta, q, 100, generator).cap
    inf
    """
    _check(task, context, contrastive)
    at_truth = task.log_prob(theta, context.designs, context.outcomes).double().sum(1)
    parts, own = [], at_truth.clone()
    for episode, q in enumerate(posteriors):
        rows = slice(episode, episode + 1)
        seen = Context(context.designs[rows], context.outcomes[rows])
        with torch.no_grad():
            own[rows] += _log_weight(theta[rows], q)
            parts.append(_adaptive_evidence(task, seen, q, contrastive, generator))
        if progress is not None:
            progress(episode + 1, len(theta))
    evidence = torch.cat(parts)
    lower = at_truth - torch.logaddexp(evidence, own) + math.log(contrastive + 1)
    upper = at_truth - evidence + math.log(contrastive)
    return Bounds(mean(lower), mean(upper), contrastive, adaptive=True)


def _adaptive_evidence(
    task: Task, seen: Context, q: Joint, count: int, generator: torch.Generator
) -> Tensor:
    """Log of the sum of weighted likelihoods over draws from q, for one episode, [1]."""
    chunk = max(1, _AT_ONCE // seen.length)
    total = torch.full((1,), -torch.inf, dtype=torch.float64)
    for start in range(0, count, chunk):
        size = min(chunk, count - start)
        from_q = q.sample(size, generator)[0, 0]
        from_prior = task.spec.parameters.sample(size, generator)
        is_prior = torch.rand(size, 1, generator=generator) < _DEFENSIVE
        theta = torch.where(is_prior, from_prior, from_q)
        log_likelihood = task.log_prob(theta, seen.designs, seen.outcomes).double().sum(1)
        total = torch.logaddexp(total, (log_likelihood + _log_weight(theta, q)).logsumexp(0))
    return total


def _log_weight(theta: Tensor, q: Joint) -> Tensor:
    """Log of prior over proposal, [draw]."""
    prior = log_prior(theta).double().sum(-1)
    proposal = q.log_prob(theta[None, None])[0, 0].double()
    mixed = torch.logaddexp(proposal + math.log(1 - _DEFENSIVE), prior + math.log(_DEFENSIVE))
    return prior - mixed


def contrastive_draws(
    parameters: Parameters, count: int, generator: torch.Generator
) -> Iterator[Named]:
    """Prior draws in the user's units, [chunk, 1] each; the first chunk is the larger pilot."""
    sizes = [min(_PILOT, count)]
    rest = count - sizes[0]
    sizes += [_CHUNK] * (rest // _CHUNK) + [rest % _CHUNK] * (rest % _CHUNK > 0)
    for size in sizes:
        yield parameters.to_user(parameters.sample(size, generator)[:, None])


def _blocks(
    task: Task, context: Context, at_truth: Tensor, pilot: Named, contrastive: int
) -> list[_Block]:
    """The episodes in blocks; at_truth [batch, step] is the log likelihood of the true theta."""
    columns = task.spec.design.name_columns(context.designs)
    outcomes = context.outcomes
    blocks = []
    for start in range(0, len(outcomes), _EPISODES):
        rows = slice(start, start + _EPISODES)
        design = {name: column[rows] for name, column in columns.items()}
        blocks.append(_Block(task, design, outcomes[rows], at_truth[rows], pilot, contrastive))
    return blocks


@dataclass
class _Pairs:
    """Draws, each paired with an episode for which it may still count."""

    theta: Named  # [pair, 1] each, [pair, 1, n] for a vector
    episode: Tensor  # [pair]
    potential: Tensor  # [pair], the most that their log likelihood can still be

    def __getitem__(self, chosen: Tensor) -> _Pairs:
        theta = {name: value[chosen] for name, value in self.theta.items()}
        return _Pairs(theta, self.episode[chosen], self.potential[chosen])


class _Block:
    """Some episodes, and the running sum of their likelihoods over the draws.

    Most draws are hopeless after one or two observations. Where the task tells how large a log
    likelihood can be at most (`log_peak`), each draw carries an upper bound, `potential`, that
    becomes exact observation by observation, the most telling ones first; a draw leaves once it
    cannot add to the sum any more. What is left out changes no bound by more than 1e-5 nats.

    Float32 within a chunk keeps what counts: a draw whose log likelihood is so large that its
    rounding shows is far below the best one. Across chunks the sum is in float64.
    """

    def __init__(
        self,
        task: Task,
        design: Named,
        outcome: Tensor,
        at_truth: Tensor,
        pilot: Named,
        contrastive: int,
    ):
        # Designs in the user's units, outcomes [episode, step, *event] on the network's scale.
        self._task, self._design, self._outcome = task, design, outcome
        self._steps = outcome.shape[1]
        self._margin = math.log(contrastive) + 12.0
        steps = map(self._observation, range(self._steps))
        each = torch.stack([self._log_likelihood(pilot, *seen) for seen in steps], -1)
        total = each.sum(-1)
        self._evidence = total.logsumexp(0).double()
        self._kept: list[_Pairs] = []
        self._kept_count = 0
        self._dense = self._steps  # how many observations every draw is compared on
        if task.log_peak is not None:
            gain = at_truth - (each.logsumexp(0) - math.log(len(each)))
            order = gain.argsort(1, descending=True)
            self._design = {name: column.gather(1, order) for name, column in design.items()}
            self._outcome = outcome[torch.arange(len(outcome))[:, None], order]
            self._dense = self._choose_dense(pilot, each.gather(2, order.expand_as(each)), at_truth)

    @property
    def _prunes(self) -> bool:
        return self._dense < self._steps

    def _choose_dense(self, pilot: Named, each: Tensor, at_truth: Tensor) -> int:
        """After how many observations few enough draws are left to follow them one by one."""
        potential = self._log_peak(pilot, self._design, self._outcome)
        floor = torch.maximum(self._evidence, at_truth.sum(1).double()) - self._margin
        for step in range(self._steps // 2):
            peak = self._log_peak(pilot, *self._seen(slice(step, step + 1)))
            potential = potential + each[..., step] - peak
            if float((potential > floor).float().mean()) < _FEW:
                return step + 1
        return self._steps  # too late to save anything

    def add(self, draws: Named) -> None:
        """Take draws [chunk, 1] in."""
        if not self._prunes:
            total = torch.zeros(())
            for step in range(self._steps):
                total = total + self._log_likelihood(draws, *self._observation(step))
            self._count(total.logsumexp(0))
            return
        potential = self._log_peak(draws, *self._seen(slice(self._dense, None)))
        for step in range(self._dense):
            potential = potential + self._log_likelihood(draws, *self._observation(step))
        draw, episode = (potential > self._floor).nonzero(as_tuple=True)
        theta = {name: value[draw] for name, value in draws.items()}
        self._kept.append(_Pairs(theta, episode, potential[draw, episode]))
        self._kept_count += len(draw)
        if self._kept_count > _AT_ONCE:
            self._follow()

    def finish(self) -> Tensor:
        """The log of the sum, [episode]."""
        if self._kept:
            self._follow()
        return self._evidence

    @property
    def _floor(self) -> Tensor:
        """What a draw must be able to reach to count, [episode]."""
        return (self._evidence - self._margin).float()

    def _follow(self) -> None:
        """Compare the draws that were kept on the other observations, and add them up."""
        names = self._kept[0].theta
        pairs = _Pairs(
            {name: torch.cat([pairs.theta[name] for pairs in self._kept]) for name in names},
            torch.cat([pairs.episode for pairs in self._kept]),
            torch.cat([pairs.potential for pairs in self._kept]),
        )
        self._kept, self._kept_count = [], 0
        floor = self._floor
        assert self._task.log_peak is not None
        for step in range(self._dense, self._steps):
            alive = pairs.potential > floor[pairs.episode]
            if int(alive.sum()) < 0.7 * len(alive):
                pairs = pairs[alive]
            seen = self._observation(step, pairs.episode)
            exact = self._log_likelihood(pairs.theta, *seen)[:, 0]
            peak = self._task.log_peak(pairs.theta, seen[0], self._user(seen[1]))
            pairs.potential = pairs.potential + exact - peak
        self._count(_log_sums(pairs.potential, pairs.episode, len(self._outcome)))

    def _count(self, log_sum: Tensor) -> None:
        self._evidence = torch.logaddexp(self._evidence, log_sum.double())

    def _log_likelihood(self, theta: Named, design: Named, outcome: Tensor) -> Tensor:
        assert self._task.log_likelihood is not None
        return self._task.log_likelihood(theta, design, self._user(outcome))

    def _user(self, outcome: Tensor) -> Any:
        return self._task.spec.outcome.to_user(outcome)

    def _log_peak(self, draws: Named, design: Named, outcome: Tensor) -> Tensor:
        """The most that the log likelihood of steps [episode, step] can be: [chunk, episode]."""
        assert self._task.log_peak is not None
        apart = {name: value[:, None] for name, value in draws.items()}
        design = {name: column[None] for name, column in design.items()}
        return self._task.log_peak(apart, design, self._user(outcome[None]))

    def _seen(self, steps: slice) -> tuple[Named, Tensor]:
        """Some steps of every episode, [episode, step]."""
        columns = {name: column[:, steps] for name, column in self._design.items()}
        return columns, self._outcome[:, steps]

    def _observation(self, step: int, episode: Tensor | None = None) -> tuple[Named, Tensor]:
        """One observation of every episode, [1, episode], or of some episodes, [pair, 1]."""
        columns = {name: column[:, step] for name, column in self._design.items()}
        outcome = self._outcome[:, step]
        if episode is None:
            return {name: column[None] for name, column in columns.items()}, outcome[None]
        picked = {name: column[episode][:, None] for name, column in columns.items()}
        return picked, outcome[episode][:, None]


def _log_sums(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """Log of the sum of exponentials of each group, [group]; -inf for an empty one."""
    top = torch.full((groups,), -torch.inf).scatter_reduce(0, group, values, "amax")
    shares = (values - top[group]).exp().double()
    return top + torch.zeros(groups, dtype=torch.float64).index_add(0, group, shares).log()


def _size(draws: Named) -> int:
    return len(next(iter(draws.values())))


def _check(task: Task, context: Context, contrastive: int) -> None:
    if task.log_likelihood is None:
        raise InputError(
            f"sPCE and sNMC need a log_likelihood, task {task.spec.name} has none: "
            "give one to Task(...)"
        )
    if context.length == 0 or context.mask is not None:
        raise InputError("bounds need at least one observation an episode and no padding")
    if contrastive < 1:
        raise InputError(f"contrastive must be at least 1, got {contrastive}")
