"""What a demonstration and a report say, in sentences."""

from __future__ import annotations

from aline.app.demo import FUNCTION_POINTS, Demo
from aline.app.record import Record
from aline.app.scales import on_scale
from aline.app.tables import number
from aline.tasks import Spec
from aline.tasks.psychometric import PRESETS

REFINED = (
    "The network's posterior is only rough here. By the task's own likelihood "
    "(experiment.refined())"
)
REFINED_FIRST = "By the task's own likelihood (experiment.refined())"
ROUGH_ONE = "By the network alone (experiment.posterior()), which is only rough here"

_SCENES = {
    "psychometric": (
        "An observer looks at stimuli of different strength and says yes or no. How likely a yes "
        "is depends on four hidden numbers: the threshold, the slope, the guess rate and the "
        "lapse rate."
    ),
    "location": (
        "Something in a field emits a signal that is weaker the farther away it is measured, and "
        "every reading is noisy. Its position is hidden."
    ),
    "ces": (
        "A person rates one basket of three goods against another. Hidden are how well goods stand "
        "in for each other (rho), how much each counts (alpha), and how strongly the person "
        "answers (u); the outcome is the logit of the rating."
    ),
}

_METHODS = {
    "learned": (
        "Before each trial a small neural network looked at all answers so far and picked the "
        "measurement that should teach it most about {}; after each answer it updated its belief "
        "at once."
    ),
    "fixed": (
        "The measurements were a fixed schedule, made to teach most about the parameters; after "
        "each answer a small neural network updated its belief about {}."
    ),
}

_NOUNS = dict.fromkeys(PRESETS, "observer")


def scene(spec: Spec) -> str:
    """What is hidden and what can be done about it, in plain words."""
    names = ", ".join(spec.parameters.labels) or "no parameters"
    designs = " and ".join(spec.design.names)
    general = f"Hidden: {names}. Every trial sets {designs} and gets {spec.outcome.words()} back."
    return _SCENES.get(spec.name, general)


def kicker(demo: Record) -> str:
    """What the page is about, above its heading."""
    if isinstance(demo, Demo):
        return f"aline demo · {demo.spec.name} · seed {demo.seed}"
    return f"aline · {demo.spec.name} · {demo.experiment.name}"


def heading(demo: Record) -> str:
    """The result in one line."""
    count, planned = demo.last.number, demo.experiment.horizon
    trials = "1 trial" if count == 1 else f"{count} trials"
    so_far = "" if demo.experiment.finished else f" of {planned} so far"
    return f"{trials}{so_far} to learn {_listed(demo.target)}"


def explanation(demo: Record) -> list[str]:
    """What happened, for someone who never heard of adaptive experiments."""
    method = _METHODS[demo.experiment.policy].format(_listed(demo.target))
    if demo.world is not None:
        method += f" {_played_by(demo.spec)} simulated, so the truth is known and can be compared."
    told = [result(demo)] if demo.spec.parameters.labels or demo.last.error is not None else []
    return [scene(demo.spec), method, *told]


def ordinal(number: int) -> str:
    """2nd, 3rd, 4th."""
    ends = {1: "st", 2: "nd", 3: "rd"}
    teens = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teens else ends.get(number % 10, 'th')}"


def result(demo: Record) -> str:
    """How far what was aimed at was narrowed: the first parameter, or the error of predictions."""
    first, last = demo.steps[0].error, demo.last.error
    if first is not None and last is not None and not demo.aimed:
        return (
            f"The error of predictions (RMSE over {FUNCTION_POINTS} designs) went from "
            f"{number(first, first)} to {number(last, first)}."
        )
    name, end = demo.shown[0], demo.refined or demo.last
    if shares := end.probabilities.get(name):
        label, p = max(shares.items(), key=lambda one: one[1])
        return f"The likeliest {name} is {label}, with probability {p:.3g}."
    scale = on_scale(name, demo.prior[name])
    low, high = scale.prior.interval
    a, b = scale.belief(end).interval
    narrowed = (
        f"The 95 % interval of {scale.label} went from {number(high - low, high - low)} wide to "
        f"{number(b - a, high - low)}"
    )
    if not demo.truth:
        return f"{narrowed}."
    held = sum(demo.holds_truth(label, end) for label in demo.shown)
    return f"{narrowed}; {held} of {len(demo.shown)} intervals aimed at hold the truth."


def title(spec: Spec) -> str:
    """What a demo is about to do."""
    return f"{spec.name}: an adaptive experiment on a simulated {_NOUNS.get(spec.name, 'world')}"


def _played_by(spec: Spec) -> str:
    return f"The {_NOUNS[spec.name]} was" if spec.name in _NOUNS else "The answers were"


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
