"""How well a training did, in a table and in words: the learned policy beside others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from aline.evaluation.estimates import Estimate
from aline.spaces.axes import Value

LEARNED, RANDOM, FIXED, GREEDY = "learned", "random", "fixed", "greedy"
NAMES = {
    LEARNED: "the learned policy",
    RANDOM: "random designs",
    FIXED: "the best fixed schedule",
    GREEDY: "exact greedy play",
}
ABOVE, POSTERIOR = "above", "posterior"  # of our own data: bounded from above, and as q has it
NOTHING = "No policy learns anything here"
SMALL = 0.02  # nats: a difference that nobody would train longer for
NEAR = 0.97  # of what greedy play gains is as good as it
WIDE = 0.1  # nats a parameter that a posterior may miss before a warning
BLUNT = 0.1  # nats, or this share of what is gained: a wider interval says nothing
BUDGETS = {
    "5min": 300,
    "15min": 900,
    "30min": 1800,
    "1h": 3600,
    "2h": 7200,
    "4h": 14400,
    "8h": 28800,
}


@dataclass(frozen=True)
class Verdict:
    """What policies gain about all parameters, in nats, on the same simulated experiments."""

    gained: Mapping[str, Estimate]  # by policy; the learned one first
    ours_minus: Mapping[str, Estimate]  # the paired difference to each of the others
    over_random: Mapping[str, Estimate]  # that of each of the others to random designs
    contrastive: int | None  # draws of sPCE; None where q judges
    schedule: Mapping[str, list[Value]]  # the best fixed one, in the user's units
    seconds: float  # that the measurement took
    trained: float  # seconds of training
    # What the model's own posterior makes of the learned policy's data, and how far that is from
    # what the data say; None where it is what judges, or an earlier version measured.
    parameters: int = 1
    posterior: Estimate | None = None
    missed: Estimate | None = None
    failed: str | None = None  # why there is none
    # By policy, ABOVE and POSTERIOR, and number of trials; empty unless asked for.
    by_step: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)

    @property
    def is_near_cap(self) -> bool:
        """Whether sPCE says little, as it cannot exceed log(L + 1)."""
        if self.contrastive is None:
            return False
        return max(one.value for one in self.gained.values()) > math.log(self.contrastive + 1) - 1

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if self.learned_nothing:
            best = max(0.0, *(one.value for one in self.gained.values()))
            who = "The model has learned nothing yet" if self.contrastive is None else NOTHING
            return f"{who}: at most {best:.2f} nats are gained."
        if self.is_all_the_same:
            return (
                "The choice of designs makes no difference here: every policy gains about "
                f"{self.gained[LEARNED].value:.2f} nats."
            )
        if not _is_above(self.ours_minus[RANDOM]):
            return (
                f"The learned policy gains {self._nats(LEARNED)}, random designs "
                f"{self._number(RANDOM)}: it has not learned to choose yet."
            )
        worse = self._clearly_better()
        if worse is not None:
            return (
                f"The learned policy gains {self._nats(LEARNED)}, {NAMES[worse]} "
                f"{self._number(worse)}: ours is worse by {_apart(self.ours_minus[worse])}."
            )
        if not _is_above(self.ours_minus[FIXED]):
            return (
                f"The learned policy gains {self._nats(LEARNED)}, level with the best fixed "
                f"schedule ({self._number(FIXED)}); random designs gain {self._number(RANDOM)}."
            )
        share = self.share_of_greedy
        greedy = "" if share is None else f", and {share:.2f} of what exact greedy play does"
        return (
            f"The learned policy gains {self._nats(LEARNED)}: {_apart(self.ours_minus[FIXED])} "
            f"more than the best fixed schedule, {_apart(self.ours_minus[RANDOM])} more than "
            f"random designs{greedy}."
        )

    @property
    def remedy(self) -> str | None:
        """What to do where ours is not clearly the best."""
        if self.learned_nothing:
            if self.contrastive is None:
                return f"Train longer ({self._longer}); and does simulate use its parameters?"
            return "Does simulate use its parameters, and is its noise as small as it should be?"
        if self.is_all_the_same:
            return "Does simulate use its design? If so, any design will do."
        if all(map(_is_above, self._planned)) and self._clearly_better() is None:
            return None
        if self._clearly_better() is None and self.is_near_greedy:
            return (
                "Exact greedy play gains no more, within what was measured: adapting pays little "
                'here, and the fixed schedule is as good (policy="fixed").'
            )
        is_below_fixed = not _is_above(self.ours_minus[FIXED])
        if is_below_fixed and _is_above(self.over_random[FIXED]):
            return f'Train longer ({self._longer}), or use the fixed schedule (policy="fixed").'
        return f"Train longer ({self._longer})."

    @property
    def about_posterior(self) -> str | None:
        """Whether the model's own posterior has learned what the data say, in words."""
        if self.posterior is None or self.missed is None:
            return None
        if self.is_posterior_wide:
            return (
                f"Its own posterior is not sharp yet: it holds {self.posterior.value:.2f} of the "
                f"{self._nats(LEARNED)}. Train longer ({self._longer}); until then use "
                "experiment.refined()."
            )
        return f"Its own posterior holds {self.posterior.value:.2f} of these nats."

    @property
    def is_posterior_wide(self) -> bool:
        """Whether the posterior clearly misses more than it may."""
        if self.missed is None:
            return False
        return self.missed.value - self.missed.ci95 > WIDE * self.parameters

    @property
    def _planned(self) -> tuple[Estimate, Estimate]:
        """How far ours is above what needs no adapting."""
        return self.ours_minus[RANDOM], self.ours_minus[FIXED]

    @property
    def learned_nothing(self) -> bool:
        """Whether even the best policy gains nothing."""
        return all(one.value - one.ci95 < SMALL for one in self.gained.values())

    @property
    def is_all_the_same(self) -> bool:
        """Whether it makes no difference what is asked, measured well enough to say so."""
        if self.is_near_cap:
            return False
        apart = [*self.over_random.values(), self.ours_minus[RANDOM]]
        blunt = max(BLUNT, BLUNT * self.gained[RANDOM].value)
        return all(_is_level(one) and one.ci95 < blunt for one in apart)

    def _clearly_better(self) -> str | None:
        """The policy that ours is furthest behind, if it clearly is."""
        behind = {name: d.value for name, d in self.ours_minus.items() if _is_below(d)}
        if self.share_of_greedy is not None and self.share_of_greedy >= NEAR:
            behind.pop(GREEDY, None)
        return min(behind, key=lambda name: behind[name]) if behind else None

    @property
    def share_of_greedy(self) -> float | None:
        """Ours over what exact greedy play gains, on the experiments that both have played."""
        if GREEDY not in self.gained:
            return None
        greedy = self.gained[GREEDY].value
        return (greedy + self.ours_minus[GREEDY].value) / greedy

    @property
    def is_near_greedy(self) -> bool:
        """Whether more training would hardly find better designs."""
        is_chosen = _is_above(self.ours_minus[RANDOM])
        return is_chosen and self.share_of_greedy is not None and self.share_of_greedy >= NEAR

    def _nats(self, name: str) -> str:
        return f"{self.gained[name].value:.2f} nats"

    def _number(self, name: str) -> str:
        return f"{self.gained[name].value:.2f}"

    @property
    def _longer(self) -> str:
        return f"--budget {longer(self.trained)}"

    @property
    def notes(self) -> list[str]:
        """What a reader of the numbers must know."""
        if self.contrastive is None:
            return [
                "Measured by the model's own posterior, as the task has no log_likelihood: what "
                "the posterior has not learned is not counted."
            ]
        cap = f"log(L + 1) = {math.log(self.contrastive + 1):.1f}"
        lines = [f"Measured by sPCE with L = {self.contrastive:,} draws; it cannot exceed {cap}."]
        if self.is_near_cap:
            lines.append("It is near that, so that differences may be larger than they look.")
        return lines

    def lines(self) -> list[str]:
        """The table, the sentence and the remedy, as text."""
        if self.failed is not None:
            return [f"The verdict could not be measured: {self.failed}"]
        count = self.gained[LEARNED].n
        lines = [f"{'nats gained about all parameters':<34}{'gained':>14}{'ours is better by':>20}"]
        for name, one in self.gained.items():
            apart = "" if name == LEARNED else _signed(self.ours_minus[name])
            lines.append(f"  {NAMES[name]:<32}{_plain(one):>14}{apart:>20}")
        words = (self.sentence, self.remedy, self.about_posterior)
        lines += ["", *(one for one in words if one is not None)]
        return [*lines, f"{count} simulated experiments. {' '.join(self.notes)}"]

    def to_json(self) -> dict[str, Any]:
        """Plain data for a card."""
        if self.failed is not None:
            return {"failed": self.failed}
        return {
            "sentence": self.sentence,
            "remedy": self.remedy,
            "measure": "q" if self.contrastive is None else "sPCE",
            "contrastive": self.contrastive,
            "gained": _plain_estimates(self.gained),
            "ours_minus": _plain_estimates(self.ours_minus),
            "over_random": _plain_estimates(self.over_random),
            "schedule": dict(self.schedule),
            "seconds": round(self.seconds, 1),
            "trained": round(self.trained, 1),
            "parameters": self.parameters,
            **_plain_estimates(self._of_posterior),
            **({"by_step": self._plain_steps} if self.by_step else {}),
        }

    @property
    def _plain_steps(self) -> dict[str, Any]:
        return {name: _plain_estimates(found) for name, found in self.by_step.items()}

    @property
    def _of_posterior(self) -> dict[str, Estimate]:
        """What was measured of the posterior, by name."""
        both = {"posterior": self.posterior, "missed": self.missed}
        return {name: one for name, one in both.items() if one is not None}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Verdict:
        """Read what `to_json` wrote."""
        if "failed" in plain:
            return cls.of_failure(plain["failed"])
        gained, ours_minus, over_random = (
            {name: Estimate(**one) for name, one in plain[part].items()}
            for part in ("gained", "ours_minus", "over_random")
        )
        rest = {part: plain[part] for part in ("contrastive", "schedule", "seconds", "trained")}
        own, missed = (
            Estimate(**plain[part]) if part in plain else None for part in ("posterior", "missed")
        )
        return cls(
            gained,
            ours_minus,
            over_random,
            **rest,
            parameters=plain.get("parameters", 1),
            posterior=own,
            missed=missed,
        )

    @classmethod
    def of_failure(cls, why: str) -> Verdict:
        """There is none."""
        return cls({}, {}, {}, None, {}, 0.0, 0.0, failed=why)


def _plain_estimates(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    return {
        name: {key: round(value, 4) for key, value in asdict(one).items()}
        for name, one in estimates.items()
    }


def _is_above(one: Estimate) -> bool:
    return one.value > one.ci95 and one.value > SMALL


def _is_below(one: Estimate) -> bool:
    return -one.value > one.ci95 and -one.value > SMALL


def _is_level(one: Estimate) -> bool:
    return not _is_above(one) and not _is_below(one)


def _plain(one: Estimate) -> str:
    return f"{one.value:.2f} ± {one.ci95:.2f}"


def _apart(one: Estimate) -> str:
    return f"{abs(one.value):.2f} ± {one.ci95:.2f}"


def _signed(one: Estimate) -> str:
    return f"{one.value:+.2f} ± {one.ci95:.2f}"


def longer(seconds: float) -> str:
    """A budget of about twice as long or more, in round numbers."""
    return next((name for name, long in BUDGETS.items() if long >= 1.9 * seconds), "24h")
