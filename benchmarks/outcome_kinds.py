"""A task of every kind of outcome, small and with its likelihood, for contracts and benches."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Normal, Uniform

from aline.spaces import Binary, Box, Categorical, Count, Ordinal, Outcome, Outcomes, Real
from aline.tasks import Task

COLOURS = ("red", "green", "blue")
CUTS = torch.tensor([-1.5, -0.5, 0.5, 1.5])


def _latent(theta: Any, design: Any) -> Tensor:
    return theta["slope"] * (design["x"] - theta["shift"])


def _line(theta: Any, design: Any, generator: torch.Generator) -> Tensor:
    mean = _latent(theta, design)
    return mean + 0.5 * torch.randn(mean.shape, generator=generator)


def _line_density(theta: Any, design: Any, outcome: Tensor) -> Tensor:
    return Normal(_latent(theta, design), 0.5).log_prob(outcome)


def _cut(theta: Any, design: Any, generator: torch.Generator) -> Tensor:
    return _line(theta, design, generator).clamp(-1.0, 2.0)


def _yes(theta: Any, design: Any, generator: torch.Generator) -> Tensor:
    p = _latent(theta, design).sigmoid()
    return torch.rand(p.shape, generator=generator) < p


def _yes_mass(theta: Any, design: Any, outcome: Tensor) -> Tensor:
    return torch.nn.functional.logsigmoid((2 * outcome - 1) * _latent(theta, design))


def _colour_logits(theta: Any, design: Any) -> Tensor:
    latent = _latent(theta, design)
    return torch.stack([torch.zeros_like(latent), latent, -latent - 0.5], -1)


def _colour(theta: Any, design: Any, generator: torch.Generator) -> Tensor:
    return drawn(_colour_logits(theta, design), generator)


def _colour_mass(theta: Any, design: Any, outcome: Tensor) -> Tensor:
    return mass(_colour_logits(theta, design), outcome)


def _rating_logits(theta: Any, design: Any) -> Tensor:
    below = torch.special.ndtr(CUTS - _latent(theta, design)[..., None])
    return (
        torch.nn.functional.pad(below, (1, 0))
        .diff(dim=-1, append=torch.ones_like(below[..., :1]))
        .clamp_min(1e-9)
        .log()
    )


def _rating(theta: Any, design: Any, generator: torch.Generator) -> Tensor:
    return drawn(_rating_logits(theta, design), generator) + 1


def _rating_mass(theta: Any, design: Any, outcome: Tensor) -> Tensor:
    return mass(_rating_logits(theta, design), outcome - 1)


def _rate(theta: Any, design: Any) -> Tensor:
    return (1 + _latent(theta, design).clamp(-4, 2)).exp()


def _count(theta: Any, design: Any, generator: torch.Generator) -> Tensor:
    return torch.poisson(_rate(theta, design), generator=generator)


def _count_mass(theta: Any, design: Any, outcome: Tensor) -> Tensor:
    rate = _rate(theta, design)
    return outcome * rate.log() - rate - (outcome + 1).lgamma()


def _few(theta: Any, design: Any, generator: torch.Generator) -> Tensor:
    return _count(theta, design, generator).clamp(max=6)


def _few_mass(theta: Any, design: Any, outcome: Tensor) -> Tensor:
    rate = _rate(theta, design)
    below = torch.stack([_count_mass(theta, design, torch.full_like(rate, k)) for k in range(6)])
    rest = torch.log1p(-below.logsumexp(0).exp().clamp(max=1 - 1e-6))
    return torch.where(outcome > 5.5, rest, _count_mass(theta, design, outcome))


def _choice_and_time(theta: Any, design: Any, generator: torch.Generator) -> Any:
    latent = _latent(theta, design)
    choice = torch.rand(latent.shape, generator=generator) < latent.sigmoid()
    noise = 0.2 * torch.randn(latent.shape, generator=generator)
    return {"choice": choice, "rt": _log_time(latent, choice.float()) + noise}


def _log_time(latent: Tensor, choice: Tensor) -> Tensor:
    """Quicker where the answer is clear, and for a yes."""
    return 0.5 - 0.3 * latent.abs() - 0.5 * choice


def _choice_and_time_density(theta: Any, design: Any, outcome: Any) -> Tensor:
    latent = _latent(theta, design)
    time = Normal(_log_time(latent, outcome["choice"]), 0.2).log_prob(outcome["rt"])
    return _yes_mass(theta, design, outcome["choice"]) + time


def _colour_and_rating(theta: Any, design: Any, generator: torch.Generator) -> Any:
    return {
        "colour": _colour(theta, design, generator),
        "sure": _rating(theta, design, generator),
        "clicks": _count(theta, design, generator),
    }


def _colour_and_rating_mass(theta: Any, design: Any, outcome: Any) -> Tensor:
    return (
        _colour_mass(theta, design, outcome["colour"])
        + _rating_mass(theta, design, outcome["sure"])
        + _count_mass(theta, design, outcome["clicks"])
    )


def drawn(logits: Tensor, generator: torch.Generator) -> Tensor:
    """Places [...] with logits [..., n]."""
    flat = logits.softmax(-1).reshape(-1, logits.shape[-1])
    return torch.multinomial(flat, 1, generator=generator).reshape(logits.shape[:-1]).float()


def mass(logits: Tensor, place: Tensor) -> Tensor:
    """Log probability of places [...] that broadcast with logits [..., n]."""
    place, _ = torch.broadcast_tensors(place, logits[..., 0])
    every = logits.log_softmax(-1).expand(*place.shape, -1)
    return every.gather(-1, place.round().long()[..., None])[..., 0]


@dataclass(frozen=True, eq=False)
class Kind:
    """An outcome, a simulator of it, and values that a person may and may not give."""

    outcome: Outcome
    simulate: Callable[..., Any]
    log_likelihood: Callable[..., Tensor] | None
    good: tuple[Any, ...]
    bad: tuple[Any, ...]

    def task(self, **changes: Any) -> Task:
        settings: dict[str, Any] = {
            "name": "own",
            "parameters": {"slope": Uniform(0.3, 2.0), "shift": Uniform(-1.5, 1.5)},
            "design": Box(x=(-3.0, 3.0)),
            "outcome": self.outcome,
            "simulate": self.simulate,
            "log_likelihood": self.log_likelihood,
            "horizon": 5,
        }
        return Task(**settings | changes)


KINDS = {
    "real": Kind(Real(), _line, _line_density, (0.5, 1, -2.25), ("much", float("nan"), None)),
    "censored": Kind(
        Real(limits=(-1.0, 2.0)), _cut, None, (-1.0, 0.5, 2.0), (2.5, -1.2, float("inf"))
    ),
    "binary": Kind(Binary(), _yes, _yes_mass, (True, 0, 1.0), (0.5, 2, "yes", None)),
    "categorical": Kind(
        Categorical(COLOURS), _colour, _colour_mass, ("red", "blue", 1), ("pink", 3, 0.5, True)
    ),
    "ordinal": Kind(Ordinal(5), _rating, _rating_mass, (1, 5.0, 3), (0, 6, 2.5, "1", True)),
    "labelled ordinal": Kind(
        Ordinal(["never", "rarely", "often", "mostly", "always"]),
        _rating,
        _rating_mass,
        ("never", "always", 2),
        ("sometimes", 0, 6, 1.5),
    ),
    "count": Kind(Count(), _count, _count_mass, (0, 7, 3.0), (-1, 2.5, "many", True)),
    "few": Kind(Count(maximum=6), _few, _few_mass, (0, 6, 3.0), (7, 0.5, None)),
    "choice and time": Kind(
        Outcomes(choice=Binary(), rt=Real()),
        _choice_and_time,
        _choice_and_time_density,
        ({"choice": True, "rt": 0.4}, {"rt": -1, "choice": 0}),
        (1, {"choice": True}, {"choice": 1, "rt": "quick"}, {"choice": 1, "rt": 1, "why": 2}),
    ),
    "independent": Kind(
        Outcomes(colour=Categorical(COLOURS), sure=Ordinal(6), clicks=Count()),
        _colour_and_rating,
        None,
        ({"colour": "red", "sure": 6, "clicks": 3},),
        ({"colour": "red", "sure": 7, "clicks": 3}, {"colour": "red", "sure": 1}),
    ),
    "dependent": Kind(
        Outcomes(colour=Categorical(COLOURS), sure=Ordinal(5), clicks=Count()),
        _colour_and_rating,
        _colour_and_rating_mass,
        ({"colour": "red", "sure": 5, "clicks": 3},),
        ({"colour": "red", "sure": 5, "clicks": 3.5},),
    ),
}
