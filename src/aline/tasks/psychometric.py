"""Psychometric functions: how often an observer says yes, or is right, by stimulus.

P(yes | x) = low + (1 - low - miss) F((x - threshold) / slope)

One family: a link F, a stimulus axis, and a form that says what the guess and lapse rates make of
the asymptotes. The paper's four-parameter function (appendix C.3.1) is a member of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch import distributions as td
from torch.distributions import Uniform

from aline.errors import InputError
from aline.spaces import Binary, Box, Design
from aline.tasks.task import Named, Task

Pair = tuple[Tensor, Tensor]
Part = TypeVar("Part")
Rate = float | td.Distribution
"""A rate that is known, or the prior of one that is not."""


def _gumbel(z: Tensor) -> Pair:
    # 10^z overflows far above threshold, where F is 1 to machine precision anyway.
    strength = torch.pow(10.0, z.clamp(max=3.0))
    return -torch.expm1(-strength), torch.exp(-strength)


@dataclass(frozen=True)
class Link:
    """F and 1 - F of z, both without losing digits; `position` is where a stimulus lies in z."""

    both: Callable[[Tensor], Pair]
    position: Callable[[Tensor], Tensor] = lambda x: x


LINKS = {
    "gumbel": Link(_gumbel),  # 1 - exp(-10^z): a Weibull over log10 stimuli; the paper's
    "weibull": Link(_gumbel, torch.log10),  # 1 - exp(-(x / threshold)^(1 / slope)), x > 0
    "logistic": Link(lambda z: (torch.sigmoid(z), torch.sigmoid(-z))),
    "normal": Link(lambda z: (torch.special.ndtr(z), torch.special.ndtr(-z))),
}

# How often an observer says yes far below threshold, and no far above it, from (guess, lapse).
FORMS: dict[str, Callable[[Tensor, Tensor], Pair]] = {
    # With probability `lapse` the stimulus is missed and a yes is guessed with probability `guess`.
    "mixture": lambda guess, lapse: (guess * lapse, (1 - guess) * lapse),
    # The textbook's: the lower asymptote is `guess`, the upper 1 - `lapse`.
    "asymptotes": lambda guess, lapse: (guess, lapse),
}


@dataclass(frozen=True)
class Axis:
    """A stimulus axis that labs use: its range and its unit."""

    range: tuple[float, float]
    unit: str = ""


AXES = {
    "plain": Axis((-5.0, 5.0)),
    "signed": Axis((-1.0, 1.0), "signed strength"),  # left and right, or less and more
    "log-contrast": Axis((-3.0, 0.0), "log10 contrast"),
    "contrast": Axis((0.01, 1.0), "contrast"),  # with the Weibull link, which takes its logarithm
}


class Psychometric(Task):
    """A psychometric function as a task.

    `link` is one of LINKS, `axis` a name of AXES or a (low, high) of your own, `form` one of FORMS.
    `guess` and `lapse` are numbers where they are known (0.5 in a two-alternative forced choice),
    else priors. Priors of `threshold` and `slope` follow the axis as the paper's do: the middle
    three fifths of it, and from a hundredth to a fifth of it. The slope is the width of the
    transition: small is steep.

    >>> from torch.distributions import Uniform
    >>> Psychometric(link="logistic", guess=0.5, lapse=Uniform(0.0, 0.1)).spec.parameters.names
    ('threshold', 'slope', 'lapse')
    """

    def __init__(
        self,
        link: str = "logistic",
        guess: Rate = 0.0,
        lapse: Rate = 0.0,
        *,
        axis: str | tuple[float, float] = "plain",
        threshold: td.Distribution | None = None,
        slope: td.Distribution | None = None,
        form: str = "asymptotes",
        horizon: int = 30,
        start: int = 0,
        name: str = "psychometric-own",
        config: Mapping[str, float] | None = None,
        targets: Mapping[tuple[str, ...], float] | None = None,
        model: Mapping[str, Any] | None = None,
    ):
        self.link, self.form = _named("link", LINKS, link), _named("form", FORMS, form)
        where = _named("axis", AXES, axis) if isinstance(axis, str) else Axis(axis)
        rates = {"guess": guess, "lapse": lapse}
        free = {n: rate for n, rate in rates.items() if isinstance(rate, td.Distribution)}
        self.known = {
            n: _rate(n, rate) for n, rate in rates.items() if not isinstance(rate, td.Distribution)
        }
        design = Box(stimulus=where.range)
        self._check_positions(link, design)
        usual = {("threshold", "slope"): 1.0} | ({tuple(free): 1.0} if free else {})
        super().__init__(
            name=name,
            parameters={
                "threshold": threshold or self._threshold(design),
                "slope": slope or self._slope(design),
                **free,
            },
            design=design,
            outcome=Binary(),
            simulate=self._simulate,
            log_likelihood=self._log_likelihood,
            horizon=horizon,
            targets=targets or usual,
            # The rates are learned more slowly: of what 30 trials tell about them the second half
            # brings 0.37, about threshold and slope 0.24 (docs/notes/goals.md, "Goals in turn").
            turns={("threshold", "slope"): 2, tuple(free): 3} if free and not targets else None,
            resolution=0.015,  # the steepest functions rise within a fiftieth of the axis
            start=start,
            # The policy has little left to compute: one layer learns from the teacher as two do.
            model={"policy_layers": 1, **(model or {})},
            # Without the noise of single truths a batch bears more updates.
            training={"updates": 10, "policy_updates": 5, "greedy_share": 0.8},
            config=config,
            units=dict.fromkeys(("stimulus", "threshold"), where.unit) if where.unit else None,
        )

    def probability(self, theta: Named, design: Named) -> Tensor:
        """P(yes | stimulus), in the user's units.

        >>> task = Psychometric(link="logistic", guess=0.5)
        >>> theta = {"threshold": torch.tensor(0.0), "slope": torch.tensor(1.0)}
        >>> task.probability(theta, {"stimulus": torch.tensor([-50.0, 0.0, 50.0])})
        tensor([0.5000, 0.7500, 1.0000])
        """
        low, miss = self._asymptotes(theta)
        return low + (1 - low - miss) * self._detected(theta, design)[0]

    def _detected(self, theta: Named, design: Named) -> Pair:
        """F and 1 - F."""
        position = self.link.position
        distance = position(design["stimulus"]) - position(theta["threshold"])
        return self.link.both(distance / theta["slope"])

    def _asymptotes(self, theta: Named) -> Pair:
        rates = {**self.known, **theta}
        return self.form(rates["guess"], rates["lapse"])

    def _simulate(self, theta: Named, design: Named, generator: torch.Generator) -> Tensor:
        probability = self.probability(theta, design)
        return torch.rand(probability.shape, generator=generator) < probability

    def _log_likelihood(self, theta: Named, design: Named, outcome: Tensor) -> Tensor:
        # The response's probability at both ends before they are mixed: a "no" then loses no
        # digits to 1 - p, and on a grid all but the mixture is computed on small axes.
        yes, (low, miss) = outcome > 0.5, self._asymptotes(theta)
        end = torch.where(yes, low, miss)
        seen = torch.where(yes, *self._detected(theta, design))
        return (end + (1 - low - miss) * seen).clamp_min(1e-7).log()

    def _threshold(self, design: Design) -> td.Distribution:
        low, high = float(design.low), float(design.high)
        return Uniform(low + 0.2 * (high - low), high - 0.2 * (high - low))

    def _slope(self, design: Design) -> td.Distribution:
        span = float(self.link.position(design.high) - self.link.position(design.low))
        return Uniform(0.01 * span, 0.2 * span)

    def _check_positions(self, link: str, design: Design) -> None:
        if not bool(self.link.position(design.low).isfinite()):
            raise InputError(
                f"the {link} link takes positive stimuli, got a range from {float(design.low):g}: "
                'use axis="contrast", or the gumbel link over their logarithm'
            )


def _named(kind: str, known: Mapping[str, Part], name: str) -> Part:
    if name not in known:
        raise InputError(f"{kind} must be one of {', '.join(known)}, got {name!r}")
    return known[name]


def _rate(name: str, value: float) -> Tensor:
    if not 0 <= value < 1:
        raise InputError(f"a known {name} rate must lie in [0, 1), got {value!r}")
    return torch.tensor(float(value))


def psychometric(horizon: int = 30) -> Psychometric:
    """Threshold, slope, guess rate and lapse rate of a yes/no observer."""
    return Psychometric(
        "gumbel",
        guess=Uniform(0.1, 0.9),
        lapse=Uniform(0.0, 0.5),
        threshold=Uniform(-3.0, 3.0),
        slope=Uniform(0.1, 2.0),
        form="mixture",
        horizon=horizon,
        start=1,
        name="psychometric",
        config={"horizon": horizon},
    )


def two_alternatives(horizon: int = 40) -> Psychometric:
    """Two-alternative forced choice: a Weibull function of log contrast, half right by chance."""
    return Psychometric(
        "gumbel",
        guess=0.5,
        lapse=Uniform(0.0, 0.1),
        axis="log-contrast",
        horizon=horizon,
        name="psychometric-2afc",
        config={"horizon": horizon},
    )


def contrast(horizon: int = 40) -> Psychometric:
    """Yes/no detection: a Weibull function of contrast itself."""
    return Psychometric(
        "weibull",
        guess=Uniform(0.0, 0.3),
        lapse=Uniform(0.0, 0.1),
        axis="contrast",
        horizon=horizon,
        name="psychometric-weibull",
        config={"horizon": horizon},
    )


def logistic(horizon: int = 40) -> Psychometric:
    """Yes/no detection with a logistic function, false alarms and lapses unknown."""
    return Psychometric(
        "logistic",
        guess=Uniform(0.0, 0.3),
        lapse=Uniform(0.0, 0.1),
        horizon=horizon,
        name="psychometric-logistic",
        config={"horizon": horizon},
    )


def signed(horizon: int = 40) -> Psychometric:
    """Left or right: a cumulative normal of a signed stimulus; the threshold is the bias."""
    return Psychometric(
        "normal",
        guess=0.5,  # who lapses says left as often as right
        lapse=Uniform(0.0, 0.2),
        axis="signed",
        form="mixture",
        horizon=horizon,
        name="psychometric-signed",
        config={"horizon": horizon},
    )


def detection(horizon: int = 64, low: float = 0.0, high: float = 1.0) -> Psychometric:
    """A Weibull function of a stimulus on a logarithmic axis, for any number of alternatives.

    Stimuli lie between `low` and `high`, in dB or another logarithmic unit, which threshold and
    slope share. The guess rate is 1 / n of a choice among n, said when an experiment begins
    (`known={"guess": 0.5}`), or unknown, as with yes and no. At the threshold the observer detects
    63 % of what can be detected: 82 % right of two alternatives with no lapses. The slope is the
    width of the transition: 10^((x - threshold) / slope) is the exponent, so QUEST+'s and
    mQUESTPlus's beta, of dB, is 20 / slope.
    """
    every, span = ("threshold", "slope", "guess", "lapse"), high - low
    return Psychometric(
        "gumbel",
        guess=Uniform(0.0, 0.6),
        lapse=Uniform(0.0, 0.1),
        axis=(low, high),
        threshold=Uniform(low, high),
        slope=Uniform(0.02 * span, 0.4 * span),
        horizon=horizon,
        name="detection",
        config={"horizon": horizon, "low": low, "high": high},
        targets={("threshold",): 1.0, ("threshold", "slope"): 1.0, every: 1.0, every[2:]: 0.5},
        model={"priors": True},
    )


PRESETS: dict[str, Callable[..., Psychometric]] = {
    "psychometric": psychometric,
    "detection": detection,
    "psychometric-2afc": two_alternatives,
    "psychometric-weibull": contrast,
    "psychometric-logistic": logistic,
    "psychometric-signed": signed,
}
