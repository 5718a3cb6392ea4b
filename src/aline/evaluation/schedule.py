"""The best fixed schedule that a short search finds: what a plan without adapting can reach.

Designs are spread evenly, then chosen one after the other, then exchanged one by one (the
coordinate exchange of Meyer and Nachtsheim, 1995). All that are compared meet the same truths and
the same luck, and every pass over the schedule meets fresh ones. A pass counts only if the schedule
is better on others again: the best of many by the same luck is partly the luckiest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from aline.baselines.particles import CLOSE, ROUGH, ParticlePolicy
from aline.episodes import Context, goal_of
from aline.episodes.play import SAME
from aline.evaluation.information import gains
from aline.evaluation.simulated import Protocol as Simulated
from aline.evaluation.simulated import play_protocol
from aline.model import Network
from aline.policies import FixedPolicy
from aline.policies.information import WORST
from aline.spaces import Design
from aline.tasks import Task
from aline.training.possible_truths import has_parameter_likelihood

TRUTHS, OTHERS = 256, 319  # experiments of a pass, and truths to distinguish each one's from
WIDTHS = (0.3, 0.1, 0.03, 0.01)  # of half of these about the truth; the rest are the prior's
TRUTHS_OF_Q = 64
FIRST, AGAIN = 24, 12  # designs tried for a step, at first and in each pass
PASSES = 8
EXACT = 48  # truths whose exact posteriors say what to ask next
JUDGED = 250  # experiments that say whether a pass was worth it

Measure = Callable[[Tensor, Context, int], Tensor]
"""Nats [batch] gained in episodes, from truths, data, and a seed for its own draws."""


class Trials(Protocol):
    """Simulated experiments that answer whatever a schedule asks at a step."""

    def columns(self, step: int, designs: Tensor) -> list[Any]:
        """What each of designs [n, design] gives at a step."""
        ...

    def information(self, kept: list[Any], tried: list[Any]) -> Tensor:
        """Nats [n] of a schedule with these columns and one of those tried."""
        ...


@dataclass(frozen=True)
class LikelihoodTrials:
    """Judged by the likelihood: how well the data distinguish a truth from others.

    The others lie about the truth on all scales from the prior's down, weighed by the prior over
    what they are drawn with: hundreds then do for what would take millions of the prior's. The
    evidence is right on average, so schedules are ranked as by sPCE, without its cap.
    """

    task: Task
    theta: Tensor  # [truth, 1 + other, parameter], the truth first
    log_weight: Tensor  # [truth, 1 + other]
    seed: int

    @classmethod
    def draw(cls, task: Task, generator: torch.Generator) -> LikelihoodTrials:
        """Fresh truths with fresh luck."""
        truth = task.spec.parameters.sample(TRUTHS, generator)
        shape = (TRUTHS, OTHERS, truth.shape[-1])
        number = torch.arange(OTHERS)[:, None]
        width = torch.tensor(WIDTHS)[number % len(WIDTHS)]
        noise = torch.randn(shape, generator=generator)
        others = torch.where(number < OTHERS // 2, noise, truth[:, None] + width * noise)
        theta = torch.cat([truth[:, None], others], 1)
        seed = int(torch.randint(2**31, (), generator=generator))
        return cls(task, theta, -_log_drawn_over_prior(theta, truth), seed)

    def columns(self, step: int, designs: Tensor) -> list[Tensor]:
        """Log likelihoods [truth, 1 + other] of what each design gives."""
        found = []
        for design in designs:
            asked = design.expand(len(self.theta), 1, -1)
            outcome = _answers(self.task, self.theta[:, 0], asked, self.seed + step)
            each = self.task.log_prob(self.theta, asked[:, None], outcome[:, None])[..., 0]
            found.append(each.float().nan_to_num(nan=WORST, neginf=WORST))
        return found

    def information(self, kept: list[Tensor], tried: list[Tensor]) -> Tensor:
        """The mean of log likelihood less log evidence."""
        before = torch.stack(kept).sum(0) if kept else torch.zeros(())
        values = []
        for column in tried:
            total = before + column
            evidence = (total + self.log_weight).logsumexp(1) - math.log(total.shape[1])
            values.append((total[:, 0] - evidence).mean())
        return torch.stack(values)


def _log_drawn_over_prior(theta: Tensor, truth: Tensor) -> Tensor:
    """Log density [truth, n] that the others are drawn with, over the prior's."""
    prior = -0.5 * theta.square().sum(-1)
    near = []
    for width in WIDTHS:
        apart = (theta - truth[:, None]) / width
        near.append(-0.5 * apart.square().sum(-1) - theta.shape[-1] * math.log(width))
    about = torch.stack(near).logsumexp(0) - math.log(len(near))
    return torch.logaddexp(prior, about) - math.log(2) - prior


@dataclass(frozen=True)
class PosteriorTrials:
    """Judged by the network's posterior, where there is no likelihood."""

    task: Task
    network: Network
    theta: Tensor  # [truth, parameter]
    seed: int

    @classmethod
    def draw(cls, task: Task, network: Network, generator: torch.Generator) -> PosteriorTrials:
        """Fresh truths with fresh luck."""
        theta = task.draw(TRUTHS_OF_Q, generator).theta
        return cls(task, network, theta, int(torch.randint(2**31, (), generator=generator)))

    def columns(self, step: int, designs: Tensor) -> list[Context]:
        """One observation of each truth."""
        found = []
        for design in designs:
            asked = design.expand(len(self.theta), 1, -1)
            found.append(Context(asked, _answers(self.task, self.theta, asked, self.seed + step)))
        return found

    def information(self, kept: list[Context], tried: list[Context]) -> Tensor:
        """J: the mean of log q less log prior of the truth."""
        whole = [_side_by_side([*kept, column]) for column in tried]
        designs = torch.cat([one.designs for one in whole])
        outcomes = torch.cat([one.outcomes for one in whole])
        theta = self.theta.repeat(len(tried), 1)
        gained = gains(self.network, theta, Context(designs, outcomes))
        return gained.view(len(tried), -1).mean(1)


def _side_by_side(columns: list[Context]) -> Context:
    return Context(
        torch.cat([one.designs for one in columns], 1),
        torch.cat([one.outcomes for one in columns], 1),
    )


def _answers(task: Task, theta: Tensor, designs: Tensor, seed: int) -> Tensor:
    """Outcomes [truth, 1, *event] with the luck of a seed: the same for whatever is asked."""
    luck = torch.Generator().manual_seed(seed)
    return task.worlds(theta, luck).answer(designs, luck)


def trials_for(task: Task, network: Network) -> Callable[[torch.Generator], Trials]:
    """How a task's schedules are judged: makes fresh simulated experiments."""
    if has_parameter_likelihood(task):
        return lambda generator: LikelihoodTrials.draw(task, generator)
    return lambda generator: PosteriorTrials.draw(task, network, generator)


@torch.no_grad()
def find_schedule(
    task: Task,
    network: Network,
    measure: Measure,
    generator: torch.Generator,
    is_over: Callable[[], bool] = lambda: False,
    passes: int = PASSES,
) -> Tensor:
    """Designs [step, design] on the network's scale; stops early when time `is_over`.

    `measure` says how much episodes gained: a change is kept if they gained more by it.
    """
    draw = trials_for(task, network)
    schedule = _spread(task.spec.design, task.spec.horizon, generator)
    for number in range(-1, passes):
        if is_over():
            break
        if number < 0:
            other = _one_after_the_other(task, draw, schedule, generator, is_over)
        else:
            width = 0.3 / 2**number
            other = _exchanged(
                task.spec.design, schedule, draw(generator), width, generator, is_over
            )
        if _is_better(task, other, schedule, measure, generator):
            schedule = other
    return schedule


def _spread(space: Design, count: int, generator: torch.Generator) -> Tensor:
    """Designs [count, design] evenly over a box, or any of a pool."""
    if space.points is not None:
        return space.sample(1, count, generator)[0]
    seed = int(torch.randint(2**31, (), generator=generator))
    even = space.spread_evenly(count, seed=seed)
    return torch.cat([even, space.sample(1, count - len(even), generator)[0]])


def _is_better(
    task: Task, other: Tensor, schedule: Tensor, measure: Measure, generator: torch.Generator
) -> bool:
    """Whether another schedule is more informative, on experiments that neither was made for."""
    seed = int(torch.randint(2**31, (), generator=generator))
    names, protocol = list(task.spec.parameters.priors), Simulated(JUDGED, len(schedule), seed=seed)
    gains = [
        measure(*play_protocol(FixedPolicy(one), task, names, protocol), seed)
        for one in (other, schedule)
    ]
    gained = (gains[0] - gains[1]).double()
    return float(gained.mean()) > float(gained.std()) / math.sqrt(JUDGED)


def _one_after_the_other(
    task: Task,
    draw: Callable[[torch.Generator], Trials],
    schedule: Tensor,
    generator: torch.Generator,
    is_over: Callable[[], bool],
) -> Tensor:
    """Each design the best one after those before it; as they were once time is over."""
    if has_parameter_likelihood(task):
        return _by_particles(task, schedule, generator, is_over)
    kept: list[Any] = []
    schedule, trials = schedule.clone(), draw(generator)
    for step in range(len(schedule)):
        if is_over():
            break
        tried = _unused(task.spec.design, schedule, step, FIRST, generator)
        columns = trials.columns(step, tried)
        best = int(trials.information(kept, columns).argmax())
        schedule[step] = tried[best]
        kept.append(columns[best])
    return schedule


def _by_particles(
    task: Task, schedule: Tensor, generator: torch.Generator, is_over: Callable[[], bool]
) -> Tensor:
    """Each design the most informative one on average over exact posteriors of many truths."""
    schedule, policy, world = schedule.clone(), ParticlePolicy(task), task.draw(EXACT, generator)
    state = policy.begin(goal_of(task.spec, task.spec.parameters.priors).repeat(EXACT))
    for step in range(len(schedule)):
        if is_over():
            break
        tried = _unused(task.spec.design, schedule, step, 2 * FIRST, generator)
        tried = tried.expand(EXACT, -1, -1)
        truths = state.draw(CLOSE.truths, generator)
        best = policy.information(truths, tried, ROUGH, generator).mean(0).argmax()
        schedule[step] = tried[0, best]
        design = tried[:, best]
        outcome = world.answer(design[:, None], generator)[:, 0]
        state = policy.observe(state, design, outcome)
    return schedule


def _exchanged(
    space: Design,
    schedule: Tensor,
    trials: Trials,
    width: float,
    generator: torch.Generator,
    is_over: Callable[[], bool],
) -> Tensor:
    """Each design in turn replaced by the best of some others, if that is better."""
    schedule = schedule.clone()
    columns = [trials.columns(step, x[None])[0] for step, x in enumerate(schedule)]
    for step in torch.randperm(len(schedule), generator=generator).tolist():
        if is_over():
            break
        tried = _others(space, schedule, step, width, generator)
        given = [columns[step], *trials.columns(step, tried[1:])]
        kept = columns[:step] + columns[step + 1 :]
        best = int(trials.information(kept, given).argmax())
        schedule[step], columns[step] = tried[best], given[best]
    return schedule


def _others(
    space: Design, schedule: Tensor, step: int, width: float, generator: torch.Generator
) -> Tensor:
    """The design of a step, then some near it, some of other steps and some from anywhere."""
    own = schedule[step : step + 1]
    if not space.repeats:
        return _unused(space, schedule, step, AGAIN, generator)
    anywhere = space.sample(1, AGAIN // 3, generator)[0]
    rows = torch.randint(len(schedule), (AGAIN // 4,), generator=generator)
    if space.points is not None:
        return torch.cat([own, schedule[rows], space.sample(1, AGAIN, generator)[0]])
    near = own + width * torch.randn(AGAIN // 2, len(space), generator=generator)
    return torch.cat([own, space.possible(near, own), schedule[rows], anywhere])


def _unused(
    space: Design, schedule: Tensor, step: int, count: int, generator: torch.Generator
) -> Tensor:
    """Designs from anywhere; where each is used once, the step's own and those of no other step."""
    drawn = space.sample(1, count, generator)[0]
    if space.repeats:
        return drawn
    others = torch.cat([schedule[:step], schedule[step + 1 :]])
    is_used = torch.cdist(drawn, others, p=torch.inf).amin(1) <= SAME if len(others) else None
    return torch.cat([schedule[step : step + 1], drawn if is_used is None else drawn[~is_used]])
