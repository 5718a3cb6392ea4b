"""What is known before an experiment: values of parameters, and priors other than the task's.

A journal keeps it as plain data, name -> {"known": value}, a prior as cards have it, or the moments
of an earlier posterior on the network's scale. The network takes a normal for each parameter on its
scale. Where a prior is not one there, it takes the normal with the same mean and spread, and draws
of its posterior are weighed by the prior over that normal (experiment/drawn_posterior.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch import distributions as td

from aline.errors import InputError, nearest
from aline.experiment.posterior import Posterior
from aline.model import Model
from aline.model.prior import KNOWN, own_prior
from aline.spaces import Categorical, Parameters
from aline.spaces.outcomes import Mixture
from aline.spaces.priors import Prior, log_volume

GRID = 2001  # quantiles that stand for a prior
OUTSIDE = 1e-3  # share of a prior's mass that may lie beyond the task's
NARROWEST, WIDEST = 0.009, 1.05  # spreads that the network was trained with, but for rounding
FARTHEST = 2.7  # the same of means
BENT = 0.1  # standard deviations that a prior's quantiles may differ from the normal's
RAREST = 1e-3  # the least probability of a value
HALF = 0.5  # the spread of a prior of two values, any of which has the same cells
ROUGH = 0.02  # by which the probabilities of values may be missed
DRAWS = 4096  # of an earlier posterior

Knowledge = Mapping[str, Mapping[str, Any]]


def plain_knowledge(
    model: Model,
    known: Mapping[str, float | str] | None,
    prior: Mapping[str, Any] | Posterior | None,
) -> dict[str, dict[str, Any]]:
    """What a user says is known, checked, as a journal keeps it."""
    if not known and prior is None:
        return {}
    if not model.network.config.priors:
        raise InputError(
            f"this model of {model.spec.name} was trained with the task's own priors alone: train "
            'one that takes others, train(task, model={"priors": True}) or aline train --priors'
        )
    parameters = model.spec.parameters
    found = {name: _plain_known(parameters, name, v) for name, v in _named("known", known)}
    if isinstance(prior, Posterior):
        earlier = _of_posterior(parameters, prior)
        return {**{n: one for n, one in earlier.items() if n not in found}, **found}
    for name, one in _named("prior", prior):
        if name in found:
            raise InputError(f"{name} has a prior and is known: give one of them")
        found[name] = _plain_prior(parameters, name, one)
    return found


def _named(what: str, given: Any) -> list[tuple[str, Any]]:
    if given is not None and not isinstance(given, Mapping):
        example = '{"guess": 0.5}' if what == "known" else '{"slope": Uniform(0.2, 0.8)}'
        raise InputError(f"{what} maps names to what is known, {example}, got {given!r}")
    return list((given or {}).items())


def _column(parameters: Parameters, name: str) -> int:
    columns = parameters.index(name)  # says so if the name is unknown
    if name not in parameters.priors or parameters.priors[name].size:
        scalars = [n for n, prior in parameters.priors.items() if not prior.size]
        raise InputError(
            f"what is known can be said of single numbers ({', '.join(scalars) or 'none here'}), "
            f"got {name!r}: " + nearest(name, scalars)
        )
    return columns[0]


def _plain_known(parameters: Parameters, name: str, value: Any) -> dict[str, Any]:
    _column(parameters, name)
    if parameters.values_of(name):
        parameters.place({name: value})  # says so if there is no such value
        return {"known": value}
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InputError(f"a known value is a number, got {value!r} for {name}")
    parameters.coordinate(name, torch.tensor(float(value)))  # says so if it cannot be
    return {"known": float(value)}


def _plain_prior(parameters: Parameters, name: str, prior: Any) -> dict[str, Any]:
    _column(parameters, name)
    if values := parameters.values_of(name):
        given = prior
        if isinstance(prior, Categorical):
            given = dict(zip(prior.labels, prior.shares, strict=True))
        if not isinstance(given, Mapping) or set(given) != set(values):
            raise InputError(
                f"the prior of {name} has a probability for each of {', '.join(values)}, such as "
                f"{{{values[0]!r}: 0.8, ...}}, got {prior!r}"
            )
        return Prior.of(name, Categorical(values, [given[value] for value in values])).to_json()
    if not isinstance(prior, td.Distribution):
        raise InputError(
            f"a prior is a torch distribution, such as Normal(-1.0, 0.4), got {prior!r} for {name}"
        )
    plain = Prior.of(name, prior)
    if plain.size:
        raise InputError(f"{name} is one number, and its prior is one of {plain.size}")
    quantiles = _quantiles(plain)
    low, high = parameters.scales[_column(parameters, name)].support
    outside = 1 - float(((quantiles >= low) & (quantiles <= high)).float().mean())  # of NaN, too
    if outside > OUTSIDE:
        raise InputError(
            f"the prior of {name} has {outside:.1%} of its mass outside [{low:g}, {high:g}], where "
            f"the model knows nothing: use one inside, such as Uniform({low:g}, {high:g})"
        )
    if not all(map(math.isfinite, plain.arguments.values())):  # a journal could not keep them
        raise InputError(
            f"the numbers of a prior must be finite as float32 (at most 3.4e38), got "
            f"{plain.arguments} for {name}: choose less extreme ones"
        )
    return plain.to_json()


def _of_posterior(parameters: Parameters, earlier: Posterior) -> dict[str, dict[str, Any]]:
    """The moments of an earlier posterior, of parameters that both have."""
    draws = earlier.sample(DRAWS, torch.Generator())
    found = {}
    for name, prior in parameters.priors.items():
        if values := parameters.values_of(name):
            if name in draws and set(earlier[name].probabilities) == set(values):
                likely = {v: max(p, RAREST) for v, p in earlier.probabilities(name).items()}
                whole = sum(likely.values())
                found[name] = _plain_prior(
                    parameters, name, {value: p / whole for value, p in likely.items()}
                )
        elif name in draws and not prior.size:
            if prior.given:  # what is known of it where it exists
                draws[name] = earlier[name].sample((DRAWS,))
            z = parameters.coordinate(name, draws[name])
            std = min(max(float(z.std()), NARROWEST), WIDEST)
            found[name] = {"mean": float(z.mean()), "std": std}
    if not found:
        raise InputError(
            f"the earlier posterior is about {', '.join(earlier.names)}, and this model about "
            f"{', '.join(parameters.labels)}: they have no parameter in common"
        )
    return found


def known_names(knowledge: Knowledge) -> list[str]:
    """The parameters whose values are known."""
    return [name for name, one in knowledge.items() if "known" in one]


def check_unknown(knowledge: Knowledge, target: list[Any]) -> None:
    """A goal must not contain what is known."""
    for name in known_names(knowledge):
        if name in target:
            raise InputError(f"{name} is known, so there is nothing to learn of it: leave it out")


def unknown_names(parameters: Parameters, knowledge: Knowledge) -> list[str] | None:
    """The default goal: all parameters that are not known; None if none is known."""
    known = known_names(knowledge)
    if not known:
        return None
    left = [name for name in parameters.priors if name not in known]
    if not left:
        raise InputError("every parameter is known: leave out one to learn something of")
    return left


def network_prior(parameters: Parameters, knowledge: Knowledge) -> Tensor | None:
    """Means and standard deviations [1, parameter, 2] on the network's scale."""
    if not knowledge:
        return None
    found = own_prior(1, len(parameters)).clone()
    for name, one in knowledge.items():
        found[0, _column(parameters, name)] = torch.tensor(_moments(parameters, name, one))
    return found


def _moments(parameters: Parameters, name: str, one: Mapping[str, Any]) -> tuple[float, float]:
    if isinstance(one.get("known"), str):
        _, place = parameters.place({name: one["known"]})
        return float(parameters.coordinate(name, torch.tensor(place))), KNOWN
    if one.get("family") == "Categorical":
        return _cut_normal(parameters, name, one["probs"])
    if "known" in one:
        z = parameters.coordinate(name, torch.tensor(one["known"]))
        return float(z.clamp(-3.0, 3.0)), KNOWN  # a rate of 0 lies infinitely far
    if "family" not in one:
        return one["mean"], one["std"]
    z = _on_network_scale(parameters, name, one)
    return float(z.mean()), min(max(float(z.std()), NARROWEST), WIDEST)


def _cut_normal(parameters: Parameters, name: str, probs: list[float]) -> tuple[float, float]:
    """Mean and spread of the normal whose cells hold these probabilities, or come near to them."""
    own = torch.tensor(parameters.priors[name].arguments["probs"], dtype=torch.float64)
    cuts, wanted = (
        torch.special.ndtri(share.cumsum(0)[:-1].clamp(RAREST, 1 - RAREST))
        for share in (own, torch.tensor(probs, dtype=torch.float64))
    )
    if len(cuts) == 1:  # any spread will do
        return float(cuts[0] - HALF * wanted[0]), HALF
    slope = ((cuts - cuts.mean()) * (wanted - wanted.mean())).sum() / cuts.var() / (len(cuts) - 1)
    std = min(max(float(1 / slope), NARROWEST), WIDEST)
    return float((cuts - std * wanted).mean()), std


def _taken_as(parameters: Parameters, name: str, one: Mapping[str, Any]) -> list[float]:
    """The probabilities that the network takes in the place of those wanted."""
    mean, std = torch.tensor(_cut_normal(parameters, name, one["probs"]))
    zero = torch.zeros(len(parameters), 1)
    belief = parameters.cut(Mixture(zero, zero + mean, zero + std))
    return belief.probabilities()[_column(parameters, name), : len(one["probs"])].tolist()


def _on_network_scale(parameters: Parameters, name: str, one: Mapping[str, Any]) -> Tensor:
    """Quantiles of a prior."""
    low, high = parameters.scales[_column(parameters, name)].support
    return parameters.coordinate(name, _quantiles(Prior.from_json(one)).clamp(low, high))


def _levels() -> Tensor:
    """Standard normal quantiles at even shares."""
    z: Tensor = torch.special.ndtri((torch.arange(GRID).double() + 0.5) / GRID)
    return z


def _quantiles(prior: Prior) -> Tensor:
    (scale,) = prior.scales()
    return scale.to_user(_levels()).float()


def shape_correction(
    parameters: Parameters, knowledge: Knowledge
) -> Callable[[Tensor], Tensor] | None:
    """Log density of priors over the normals that the network takes for them.

    Of draws [n, parameter] on the network's scale; -inf where a prior has no mass. None where all
    priors are normal there, or nearly so.
    """
    bent = {n: one for n, one in knowledge.items() if _is_bent(parameters, n, one)}

    def of_draws(z: Tensor) -> Tensor:
        return torch.stack([_log_ratio(parameters, *item, z) for item in bent.items()]).sum(0)

    return of_draws if bent else None


def _log_ratio(parameters: Parameters, name: str, one: Mapping[str, Any], z: Tensor) -> Tensor:
    column = _column(parameters, name)
    z, scale = z[..., column].double(), parameters.scales[column]
    (prior,) = Prior.from_json(one).scales()
    value = scale.to_user(z)
    low, high = prior.support
    is_possible = (value >= low) & (value <= high)
    inside = torch.where(is_possible, value, prior.to_user(torch.zeros_like(z)))
    mean, std = _moments(parameters, name, one)
    normal = -0.5 * ((z - mean) / std).square() - math.log(std * math.sqrt(2 * math.pi))
    exact = prior.log_prior(inside) + log_volume(scale, z)
    return torch.where(is_possible, exact - normal, -torch.inf)


def knowledge_warnings(parameters: Parameters, knowledge: Knowledge) -> Iterator[str]:
    """What of it the network was not trained for, in words."""
    for name, one in knowledge.items():
        if "known" in one:
            continue
        if one.get("family") == "Categorical":
            taken = _taken_as(parameters, name, one)
            if max(abs(a - b) for a, b in zip(taken, one["probs"], strict=True)) > ROUGH:
                as_words = ", ".join(f"{p:.2f}" for p in taken)
                yield f"The prior of {name} is taken as {as_words}, the nearest that can be had."
            continue
        if abs(_moments(parameters, name, one)[0]) > FARTHEST:
            yield (
                f"The prior of {name} lies at the edge of what the model was trained for: its "
                "posterior there is a guess."
            )


def _is_bent(parameters: Parameters, name: str, one: Mapping[str, Any]) -> bool:
    """Whether a prior is clearly no normal on the network's scale."""
    if one.get("family") in (None, "Categorical"):
        return False
    mean, std = _moments(parameters, name, one)
    away = (_on_network_scale(parameters, name, one) - mean) / std - _levels()
    return bool(away[GRID // 40 : -GRID // 40].abs().max() > BENT)
