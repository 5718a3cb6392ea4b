"""Protocols that the field compares on, and what was reached on them.

Figures are the mean over experiments, in nats: `spce` from below and `snmc` from above at the
protocol's number L of contrastive draws, `j` of a posterior of one's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from aline.app.bench.bed import PUBLISHED as PAPER

Figures = Mapping[str, Mapping[str, float]]
"""By method, then by metric."""


@dataclass(frozen=True)
class Published:
    """How experiments are run and measured on one task, and what others reached there."""

    title: str
    contrastive: int  # L
    reached: Figures = field(default_factory=dict)
    methods: tuple[str, ...] = ("aline-box", "random")  # `aline` chooses from a pool
    pool: Literal["fixed", "fresh"] | None = None  # one an episode without repeats, or one a trial
    start: int = 0  # random designs that come first
    has_grid: bool = False  # whether a grid gives the exact posterior
    note: str = ""  # what a reader of these figures must know


def _paper(task: str) -> Figures:
    """The paper's table 2."""
    return {method: {"spce": nats} for (one, method), (nats, *_) in PAPER.items() if one == task}


PROTOCOLS: Mapping[str, Published] = {
    "pharmacokinetics": Published(
        "Pharmacokinetics (iDAD), T = 5",
        10**5,
        {"dad": {"spce": 3.23}},
        has_grid=True,
        note="DAD's figure is not confirmed. Fixed times 0.3, 0.6, 1.5, 10 and 20 h reach "
        "3.07 ± 0.13",
    ),
    "discounting": Published(
        "Hyperbolic discounting (DAD), T = 20",
        5000,
        {
            "dad": {"spce": 5.02, "snmc": 5.12},
            "badapted": {"spce": 4.45, "snmc": 4.54},
            "frye": {"spce": 3.50},
            "fixed": {"spce": 2.52},
            "kirby": {"spce": 1.86},
        },
        has_grid=True,
        note="others may ask any delay above 0; here it is 1 to 10,000 days",
    ),
    "two_sources": Published(
        "Two sources, N(0, I), designs in [-4, 4]² (DAD, RL-BOED), T = 30",
        10**6,
        {
            "rl-boed": {"spce": 11.73, "snmc": 12.36},
            "dad": {"spce": 10.93, "snmc": 12.38},
            "fixed": {"spce": 8.84},
            "variational": {"spce": 8.78},
            "random-normal": {"spce": 8.30},
        },
        methods=("aline-box", "random", "random-normal"),
        note="all but RL-BOED's are at L = 5e5, and their designs are not bounded. Random designs "
        "depend on their law: RL-BOED's own reach 1.62; DAD's is taken to be N(0, I)",
    ),
    "two_sources_pool": Published(
        "Two sources in the unit square, fresh pools of 2000 (POLAR), T = 30",
        10**6,
        {
            "polar": {"spce": 13.5, "snmc": 20.0},
            "aline": {"spce": 13.5, "snmc": 18.5},
            "rl-boed": {"spce": 11.8, "snmc": 12.3},
            "dad": {"spce": 10.4, "snmc": 10.7},
            "random": {"spce": 8.2},
        },
        methods=("aline", "random"),
        pool="fresh",
        note="13.5 is nearly the cap of sPCE, 13.8: the adaptive pair tells more",
    ),
    "death": Published(
        "Death process (DAD), T = 4",
        10**5,
        {"dad": {"spce": 2.113}, "variational": {"spce": 2.076}, "fixed": {"spce": 2.023}},
        has_grid=True,
        note="L of the published figures is not known. Others may ask any time above 0; here it "
        "is at most 10",
    ),
    "prey": Published(
        "Prey, T = 10",
        10**6,
        {
            "smc": {"spce": 4.52},
            "rl-boed": {"spce": 4.46},
            "vpce": {"spce": 4.40},
            "random": {"spce": 3.92},
        },
        methods=("aline", "random"),
        has_grid=True,
    ),
    "sir": Published(
        "SIR epidemic, no likelihood (iDAD), T = 5",
        10**5,
        {"idad": {"j": 3.9}},
        note="iDAD's figure is not confirmed, and of another kind of bound. J of random designs "
        "is that of the q which was trained along with the policy, so it may be too low",
    ),
    "ces_plain": Published(
        "CES without hints, T = 10",
        10**7,
        _paper("ces"),
        methods=("aline", "aline-box", "random"),
        pool="fixed",
        start=1,
        note="POLAR reports, with pools of 20,000: POLAR 14.32 / 20.99, RL-BOED 14.19 / 33.3, "
        "ALINE 13.43 / 18.13, DAD 12.87 / 16.44, random 9.18",
    ),
    "location_plain": Published(
        "Location finding without hints, T = 30",
        10**6,
        _paper("location"),
        methods=("aline", "aline-box", "random"),
        pool="fixed",
        start=1,
        has_grid=True,
    ),
    "psychometric_plain": Published(
        "Psychometric function without hints, T = 30",
        10**5,
        start=1,
        has_grid=True,
        note="nobody published nats here; `aline bench psychometric` compares errors",
    ),
}
