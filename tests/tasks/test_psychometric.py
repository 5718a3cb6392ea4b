import math

import pytest
import torch
from small import seeded
from torch.distributions import Uniform

from aline.errors import InputError
from aline.tasks import Psychometric, get
from aline.tasks.psychometric import AXES, FORMS, LINKS, PRESETS, psychometric


def given(**values: float) -> dict[str, torch.Tensor]:
    return {name: torch.tensor([[value]]) for name, value in values.items()}


def test_probability_is_the_papers() -> None:
    theta = given(threshold=0.5, slope=0.8, guess=0.3, lapse=0.1)
    stimuli = {"stimulus": torch.tensor([[-5.0, 0.5, 5.0]])}
    at_threshold = 0.03 + 0.9 * (1 - math.exp(-1))
    expected = [0.03, at_threshold, 0.93]
    found = psychometric().probability(theta, stimuli)[0]
    assert found.tolist() == pytest.approx(expected, abs=1e-5)


def test_far_from_threshold_nothing_overflows() -> None:
    task = get("psychometric")
    theta = task.spec.parameters.to_network(
        {"threshold": -3.0, "slope": 0.1, "guess": 0.1, "lapse": 0.0}
    )[None]
    log_prob = task.log_prob(theta, torch.tensor([[[1.0], [-1.0]]]), torch.tensor([[-1.0, 1.0]]))
    assert log_prob.isfinite().all()
    assert bool((log_prob < -10).all())


# What F is one slope above the threshold.
ONE_ABOVE = {
    "gumbel": 1 - math.exp(-10.0),
    "weibull": 1 - math.exp(-10.0),
    "logistic": 1 / (1 + math.exp(-1.0)),
    "normal": 0.8413447,
}


@pytest.mark.parametrize("link", LINKS)
def test_a_link_rises_from_one_asymptote_to_the_other(link: str) -> None:
    axis = "contrast" if link == "weibull" else "plain"
    task = Psychometric(link, guess=0.2, lapse=0.05, axis=axis, slope=Uniform(0.01, 0.5))
    low, high = AXES[axis].range
    theta = given(threshold=0.1, slope=0.25)
    x = torch.linspace(low, high, 50)[None]
    curve = task.probability(theta, {"stimulus": x})[0]
    assert bool((curve.diff() > -1e-6).all())
    assert float(curve.min()) >= 0.2 - 1e-6
    assert float(curve[-1]) == pytest.approx(0.95, abs=1e-2)
    one = 0.1 * 10**0.25 if link == "weibull" else 0.35
    at = task.probability(theta, {"stimulus": torch.tensor([[one]])})
    assert at.item() == pytest.approx(0.2 + 0.75 * ONE_ABOVE[link], abs=1e-5)


def test_the_two_forms_are_the_same_function_of_other_rates() -> None:
    """FACTS: in the textbook's form gamma = guess * lapse and lambda = lapse * (1 - guess)."""
    guess, lapse = torch.tensor(0.3), torch.tensor(0.4)
    gamma, missed = FORMS["mixture"](guess, lapse)
    assert FORMS["asymptotes"](gamma, missed) == (gamma, missed)
    assert float(gamma + missed) == pytest.approx(0.4)
    mixture = Psychometric("gumbel", guess=0.3, lapse=0.4, form="mixture")
    textbook = Psychometric("gumbel", guess=float(gamma), lapse=float(missed))
    theta, x = given(threshold=0.2, slope=1.1), {"stimulus": torch.linspace(-5, 5, 9)[None]}
    a, b = (task.probability(theta, x) for task in (mixture, textbook))
    assert torch.allclose(a, b, atol=1e-6)


def test_a_known_rate_is_no_parameter() -> None:
    task = Psychometric("logistic", guess=0.5, lapse=Uniform(0.0, 0.1))
    assert task.spec.parameters.names == ("threshold", "slope", "lapse")
    assert [names for names, _ in task.spec.targets] == [("threshold", "slope"), ("lapse",)]
    both = Psychometric("normal", guess=0.5, lapse=0.02)
    assert [names for names, _ in both.spec.targets] == [("threshold", "slope")]


def test_priors_follow_the_axis_as_the_papers_do() -> None:
    own, papers = Psychometric(axis=(-5.0, 5.0)).spec, psychometric().spec
    for name in ("threshold", "slope"):
        assert own.parameters.to_json()[name] == papers.parameters.to_json()[name]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"link": "probit"}, "link must be one of gumbel, weibull, logistic, normal"),
        ({"axis": "decibel"}, "axis must be one of"),
        ({"form": "usual"}, "form must be one of mixture, asymptotes"),
        ({"guess": 1.5}, r"a known guess rate must lie in \[0, 1\), got 1.5"),
        ({"link": "weibull"}, "takes positive stimuli"),
    ],
)
def test_a_mistake_names_the_remedy(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Psychometric(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_spans_its_curve(name: str) -> None:
    """Over the axis, most observers go from near their lower to near their upper asymptote."""
    task = PRESETS[name]()
    theta = task.spec.parameters.to_user(task.draw(400, seeded(0)).theta[:, None])
    low, high = AXES_OF[name]
    ends = task.probability(theta, {"stimulus": torch.tensor([[low, high]])})
    lowest, missed = task._asymptotes(theta)
    rise = (ends[:, 1:] - ends[:, :1]) / (1 - lowest - missed)
    assert float(rise.median()) > 0.9


AXES_OF = {
    name: (float(make().spec.design.low), float(make().spec.design.high))
    for name, make in PRESETS.items()
}
