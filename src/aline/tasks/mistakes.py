"""Mistakes that newcomers make in a simulator, told before a training is spent on them.

What cannot be right is an InputError. What can be meant is a TaskWarning. Answers are compared with
the same random numbers, so that only what is looked at differs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from aline.errors import InputError, TaskWarning
from aline.tasks.task import SimulatedWorld, Task

WORLDS, DESIGNS = 128, 16  # that a simulator is tried on
FLAT = 0.02  # of the noise: a design that changes answers by less is not told from another
MOST_FLAT = 0.8  # of the worlds may be so everywhere

MANY = 64  # outcomes that are visited
UNSURE = 0.05  # by which their probabilities may miss one: likelihoods are often cut at a floor

NUMPY = (
    "rng = numpy.random.default_rng(int(torch.randint(2**31, (), generator=generator))) for numpy"
)
TORCH = "torch.randn(shape, generator=generator)"


def check(task: Task) -> None:
    """Try a task's simulator; errors are raised, and doubts are warnings."""
    generator = torch.Generator()
    world = task.draw(3, generator)
    _simulate(world, task.spec.design.sample(3, 5, generator), generator)
    for doubt in (*doubts(task), *likelihood_doubts(task)):
        warnings.warn(f"task {task.spec.name}: {doubt}", TaskWarning, stacklevel=4)


def _simulate(world: SimulatedWorld, designs: Tensor, generator: torch.Generator) -> Any:
    """Outcomes, or what the user's own code stumbled over."""
    try:
        return world.simulate(designs, generator)
    except (AttributeError, TypeError, InputError) as error:
        # A task in a file names the place itself, and what went wrong there is the cause.
        hint = _about_numpy(error.__cause__ if isinstance(error, InputError) else error)
        if hint is None:
            raise
        raise InputError(
            f"simulate takes torch tensors and a torch.Generator ({error}): {hint}"
        ) from error


def _about_numpy(error: BaseException | None) -> str | None:
    """What to write instead, if the error is of numpy and torch that met."""
    message = str(error) if isinstance(error, AttributeError | TypeError) else ""
    if "Generator" in message:
        return f"draw with {TORCH}, or make {NUMPY}"
    if "Tensor" in message or "numpy" in message:
        return "use torch's functions (torch.exp for numpy.exp), or begin with theta[name].numpy()"
    return None


def doubts(task: Task) -> Iterator[str]:
    """What is most likely a mistake: the rule, what was found, and what to do."""
    world = task.draw(WORLDS, _seeded(0))
    here, there = task.spec.design.sample(WORLDS, 2 * DESIGNS, _seeded(1)).chunk(2, dim=1)
    answers = _answers(world, here, 2)
    if not torch.equal(answers, _answers(world, here, 2)):
        yield (
            "the same generator must give the same answers, and simulate gave others the second "
            f"time: draw with {TORCH}, or {NUMPY}"
        )
        return  # comparisons need the same random numbers
    noise = _size(answers - _answers(world, here, 3))
    signal = _size(answers - _answers(world, there, 2))
    if not bool(noise.any()) and task.latent is None:  # whose draws may be all the noise there is
        yield (
            "answers should be noisy, and simulate gave the same ones with another generator: "
            f"draw its noise with {TORCH}, unless what you measure has none"
        )
    if not bool(signal.any()):
        yield (
            "answers should depend on the design, and simulate gave the same ones at other "
            f"designs: use design[{task.spec.design.names[0]!r}]"
        )
        return
    flat = float((signal <= FLAT * noise).float().mean())
    if flat > MOST_FLAT:
        yield (
            "designs should tell values of the parameters apart, and for "
            f"{flat:.0%} of the prior's draws the answers are the same at every design: narrow "
            "the priors to what the design can tell, or widen the design"
        )


def likelihood_doubts(task: Task) -> Iterator[str]:
    """Whether all outcomes together are certain, where they can be visited."""
    every = task.spec.outcome.enumerate()
    if task.log_likelihood is None or task.latent is not None or every is None or len(every) > MANY:
        return
    theta = task.draw(WORLDS, _seeded(0)).theta
    designs = task.spec.design.sample(WORLDS, DESIGNS, _seeded(1))
    outcomes = every.view(len(every), 1, 1, *every.shape[1:])
    log_prob = task.log_prob(theta, designs, outcomes.expand(-1, WORLDS, DESIGNS, *every.shape[1:]))
    if bool(log_prob.isnan().any()):
        raise InputError("log_likelihood returned NaN for possible outcomes: check its domain")
    total = log_prob.double().exp().sum(0)
    worst = float(total.flatten()[(total - 1).abs().nan_to_num(torch.inf).argmax()])
    if not abs(worst - 1) < UNSURE:
        yield (
            "the probabilities of all outcomes must sum to one, and those of log_likelihood sum to "
            f"{worst:.3g}: return the logarithm of each outcome's probability, as simulate draws it"
        )


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _answers(world: SimulatedWorld, designs: Tensor, seed: int) -> Tensor:
    """Outcomes [world, number] in the user's units."""
    outcomes = world.simulate(designs, _seeded(seed))
    parts = list(outcomes.values()) if isinstance(outcomes, dict) else [outcomes]
    return torch.cat([part.detach().double() for part in parts], 1)


def _size(difference: Tensor) -> Tensor:
    """The root mean square [world] of differences [world, number]."""
    return difference.square().mean(1).sqrt()
