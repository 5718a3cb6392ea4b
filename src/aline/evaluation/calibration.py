"""Does q mean what it says: ranks, coverage at all levels, and the joint posterior.

If truths come from the prior and q is right, then a truth is as likely in any part of q as in any
other: its rank is uniform (simulation-based calibration, Talts et al. 2018), every interval holds
it as often as it says, and so does every ball around a random point (TARP, Lemos et al. 2023),
which tests all parameters together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from scipy import stats
from torch import Tensor

from aline.engine import BatchEngine
from aline.episodes import Context, goal_of, play
from aline.evaluation.estimates import Estimate, proportion
from aline.evaluation.simulated import Simulated
from aline.model import Mixture, Model, Network
from aline.policies import LearnedPolicy
from aline.tasks import PREDICTIONS, Spec, Task

BINS = 20
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
JUDGED = (0.5, 0.9, 0.95)  # levels that a verdict is about
POINTS = 0.02  # of coverage that may be missing
SURE = 0.99
DRAWS = 256  # of the joint posterior, among which a truth finds its rank
_AT_ONCE = 50


@dataclass(frozen=True)
class Calibration:
    """After whole experiments with one goal."""

    target: str
    step: int
    ranks: dict[str, Tensor]  # of each parameter's truth in its posterior, [episode] in [0, 1]
    joint: Tensor | None = None  # of all truths together (TARP), [episode]
    is_joint: bool = False  # whether q knows how parameters depend on each other

    @property
    def n(self) -> int:
        """How many experiments."""
        return len(next(iter(self.ranks.values())))

    def first(self, count: int) -> Calibration:
        """Of the first so many experiments."""
        ranks = {name: rank[:count] for name, rank in self.ranks.items()}
        return replace(self, ranks=ranks, joint=None if self.joint is None else self.joint[:count])

    def band(self) -> tuple[int, int]:
        """The counts between which all bins of all parameters lie in 99 %, if q is right."""
        tail = (1 - SURE) / (2 * BINS * max(len(self.ranks), 1))
        counts = stats.binom(self.n, 1 / BINS)
        return int(counts.ppf(tail)), int(counts.ppf(1 - tail))

    def histograms(self) -> dict[str, list[int]]:
        """The ranks' counts in equal bins."""
        return {
            name: torch.histc(rank.double(), BINS, 0, 1).long().tolist()
            for name, rank in self.ranks.items()
        }

    def coverage(self) -> dict[str, list[float]]:
        """How often central intervals of `LEVELS` hold the truth."""
        return {
            name: [float(((rank - 0.5).abs() <= level / 2).double().mean()) for level in LEVELS]
            for name, rank in self.ranks.items()
        }

    def joint_p(self) -> float:
        """How likely joint ranks are at least as uneven as these, if q is right."""
        assert self.joint is not None
        return float(stats.kstest(self.joint.double().numpy(), "uniform").pvalue)

    def measured(self) -> Iterator[tuple[str, int, Estimate]]:
        """Metric, step and value: coverage at the judged levels, and bins outside their band."""
        low, high = self.band()
        for name, counts in self.histograms().items():
            outside = sum(not low <= count <= high for count in counts)
            yield f"ranks_outside:{name}", self.step, Estimate(float(outside), 0.0, self.n)
            for level in JUDGED:
                covered = (self.ranks[name] - 0.5).abs() <= level / 2
                yield f"coverage_{level:g}:{name}", self.step, proportion(covered)
        if self.joint is not None:
            yield "tarp_p", self.step, Estimate(self.joint_p(), 0.0, self.n)

    def sentences(self) -> list[str]:
        """The verdict, a line a test."""
        joint = [] if self.joint is None else [self._of_joint()]
        return [self._of_ranks(), self._of_coverage(), *joint]

    def _of_ranks(self) -> str:
        low, high = self.band()
        outside = [
            name
            for name, counts in self.histograms().items()
            if min(counts) < low or max(counts) > high
        ]
        found = f"outside for {', '.join(outside)}" if outside else "inside for every parameter"
        return f"Ranks (SBC): {found}, of a 99 % band for {self.n} experiments."

    def _of_coverage(self) -> str:
        worst, name, level = max(
            (abs(covered - level), name, level)
            for name, values in self.coverage().items()
            for covered, level in zip(values, LEVELS, strict=True)
            if level in JUDGED
        )
        noise = 1.96 * (level * (1 - level) / self.n) ** 0.5
        if worst <= POINTS:
            verdict = "within 2 points"
        elif worst <= POINTS + noise:
            verdict = f"within 2 points up to noise; {needed(level)} experiments would say"
        else:
            verdict = "more than 2 points"
        return (
            f"Coverage at 50, 90 and 95 %: off by at most {100 * worst:.1f} ± {100 * noise:.1f} "
            f"points ({name} at {100 * level:g} %): {verdict}."
        )

    def _of_joint(self) -> str:
        p = self.joint_p()
        about = "" if self.is_joint else ", which takes them as independent"
        verdict = "no sign that it is wrong" if p > 1 - SURE else "it is not calibrated"
        return f"All parameters together (TARP){about}: p = {p:.2g}, {verdict}."

    def to_json(self) -> dict[str, Any]:
        """Plain data for a report."""
        low, high = self.band()
        return {
            "target": self.target,
            "step": self.step,
            "n": self.n,
            "ranks": self.histograms(),
            "band": [low, high],
            "levels": list(LEVELS),
            "coverage": self.coverage(),
            "joint": self._joint_json(),
            "verdict": self.sentences(),
        }

    def _joint_json(self) -> dict[str, Any] | None:
        if self.joint is None:
            return None
        ranks = torch.histc(self.joint.double(), BINS, 0, 1).long().tolist()
        return {"ranks": ranks, "p": self.joint_p(), "is_joint": self.is_joint}


def needed(level: float) -> int:
    """How many experiments measure coverage at a level to two points."""
    return round(1.96**2 * level * (1 - level) / POINTS**2)


def calibration_of(
    network: Network, played: Simulated, target: Sequence[str], seed: int
) -> Calibration:
    """Of simulated experiments, after their last trial."""
    names = network.spec.parameters.names
    ranks = dict(zip(names, played.rank[:, -1].unbind(-1), strict=True))
    generator = torch.Generator().manual_seed(seed)
    joint = _joint_ranks(network, played, generator)
    is_joint = network.conditional is not None
    return Calibration(",".join(target), played.lengths[-1], ranks, joint, is_joint)


def can_check_predictions(spec: Spec, task: Task) -> bool:
    """Whether predictions are a goal, of numbers that a simulator gives anywhere."""
    is_goal = any(PREDICTIONS in names for names, _ in spec.targets)
    is_number = spec.outcome.is_linear and not spec.outcome.event_shape
    return is_goal and is_number and not task.draw(1, torch.Generator()).is_recorded


def calibration_of_predictions(model: Model, task: Task, episodes: int, seed: int) -> Calibration:
    """Of outcomes anywhere, one an experiment, after experiments whose goal is predictions."""
    sizes = [min(_AT_ONCE, episodes - first) for first in range(0, episodes, _AT_ONCE)]
    ranks = [_predicted_ranks(model, task, size, seed, i) for i, size in enumerate(sizes)]
    return Calibration(PREDICTIONS, task.spec.horizon, {PREDICTIONS: torch.cat(ranks)})


@torch.no_grad()
def _predicted_ranks(model: Model, task: Task, size: int, seed: int, number: int) -> Tensor:
    """Where outcomes at random designs lie in what the model predicts there, [episode]."""
    seeds = (3 * (seed * 1_000_003 + number) + i for i in range(3))
    worlds, luck, choices = (torch.Generator().manual_seed(one) for one in seeds)
    world, engine = task.draw(size, worlds), BatchEngine(model.network)
    goal, steps = goal_of(task.spec, [PREDICTIONS]).repeat(size), task.spec.horizon
    policy = LearnedPolicy(engine, task=task)
    context = play(policy, world, goal, steps=steps, generator=choices, luck=luck)
    point = task.spec.design.sample(size, 1, worlds)
    belief = cast(Mixture, engine.predictive(engine.read(context), point))
    return belief.cdf(world.answer(point, luck))[:, 0]


@torch.no_grad()
def _joint_ranks(network: Network, played: Simulated, generator: torch.Generator) -> Tensor:
    """The share of draws that lie nearer to a random point than the truth does, [episode]."""
    found = []
    for first in range(0, len(played.theta), _AT_ONCE):
        rows = slice(first, first + _AT_ONCE)
        draws = _draws(network, played, rows, generator)  # [episode, draw, parameter]
        point = torch.randn(len(draws), 1, draws.shape[-1], generator=generator)
        nearer = (draws - point).norm(dim=-1) < (played.theta[rows, None] - point).norm(dim=-1)
        # Among so many draws a rank is one of a few numbers: spread evenly between them.
        luck = torch.rand(len(draws), generator=generator)
        found.append((nearer.sum(1) + luck) / (DRAWS + 1))
    return torch.cat(found)


def _draws(network: Network, played: Simulated, rows: slice, generator: torch.Generator) -> Tensor:
    if network.conditional is None:
        last = played.posterior[rows, -1]
        return last.sample(DRAWS, generator).transpose(0, 1)
    context = Context(played.context.designs[rows], played.context.outcomes[rows])
    return network.joint(network.encode(context)).sample(DRAWS, generator)[:, 0]
