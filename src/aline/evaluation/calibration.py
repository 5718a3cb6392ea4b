"""Does q mean what it says: ranks, coverage at all levels, and the joint posterior.

If truths come from the prior and q is right, then a truth is as likely in any part of q as in any
other: its rank is uniform (simulation-based calibration, Talts et al. 2018), every interval holds
it as often as it says, and so does every ball around a random point (TARP, Lemos et al. 2023),
which tests all parameters together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from scipy import stats
from torch import Tensor

from aline.episodes import Context
from aline.evaluation.simulated import Simulated
from aline.model import Network

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
    joint: Tensor  # of all truths together (TARP), [episode]
    is_joint: bool  # whether q knows how parameters depend on each other

    @property
    def n(self) -> int:
        """How many experiments."""
        return len(self.joint)

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
        return float(stats.kstest(self.joint.double().numpy(), "uniform").pvalue)

    def sentences(self) -> list[str]:
        """The verdict, a line a test."""
        return [self._of_ranks(), self._of_coverage(), self._of_joint()]

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
        joint = torch.histc(self.joint.double(), BINS, 0, 1).long().tolist()
        return {
            "target": self.target,
            "step": self.step,
            "n": self.n,
            "ranks": self.histograms(),
            "band": [low, high],
            "levels": list(LEVELS),
            "coverage": self.coverage(),
            "joint": {"ranks": joint, "p": self.joint_p(), "is_joint": self.is_joint},
            "verdict": self.sentences(),
        }


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
