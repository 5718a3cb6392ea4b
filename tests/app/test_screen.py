from dataclasses import replace
from typing import Any

import pytest

from aline.app.demo import Demo, PriorBelief, Step
from aline.app.screen import DemoScreen, TrialTable, interval_bar, summary


class Lines(list[str]):
    """Stands in for the terminal."""

    def __call__(self, text: str = "", **style: Any) -> None:
        self.extend(text.split("\n"))


def shown(demo: Demo, width: int) -> Lines:
    lines = Lines()
    screen = DemoScreen(demo.spec, demo.target, lines, width)
    for step in demo.steps:
        screen.show(step)
    screen.close(demo)
    return lines


@pytest.mark.parametrize("width", [80, 90, 100, 110])
@pytest.mark.parametrize("name", ["psychometric", "location", "two sources", "linear"])
def test_no_line_is_wider_than_the_terminal(demos: dict[str, Demo], name: str, width: int) -> None:
    assert max(map(len, shown(demos[name], width))) <= width


def test_columns_line_up(demos: dict[str, Demo]) -> None:
    demo = demos["psychometric"]
    table = TrialTable(demo.spec, demo.target, 100)
    lines = [table.line(step) for step in demo.steps]
    assert len({len(line) for line in lines}) == 1
    brackets = {tuple(i for i, c in enumerate(line) if c in "[]") for line in lines}
    assert len(brackets) == 1
    header = table.header()[0]
    assert header.split() == ["trial", "stimulus", "response", "threshold", "slope"]


def test_a_line_says_what_was_asked_answered_and_believed(demos: dict[str, Demo]) -> None:
    demo = demos["psychometric"]
    step = demo.steps[2]
    line = TrialTable(demo.spec, demo.target, 80).line(step)
    low, high = step.interval["threshold"]
    expected = [f"{step.design['stimulus']:.2f}", "yes" if step.outcome else "no"]
    assert line.split()[:3] == ["2", *expected]
    assert f"{step.mean['threshold']:.2f} [{low:.2f}," in line
    assert f"{high:.2f}]" in line


def test_the_interval_is_a_bar_within_the_priors() -> None:
    step = Step(1, {}, 1.0, {"a": 5.0}, {"a": 1.0}, {"a": (2.5, 7.5)}, 0.0)
    assert interval_bar(step, "a", PriorBelief(3.0, (0.0, 10.0)), 9) == "··━━●━━··"


def test_the_bar_stays_on_its_line_when_the_posterior_leaves_the_priors_interval() -> None:
    step = Step(1, {}, 1.0, {"a": 12.0}, {"a": 1.0}, {"a": (11.0, 13.0)}, 0.0)
    assert interval_bar(step, "a", PriorBelief(3.0, (0.0, 10.0)), 9) == "········●"


def test_the_summary_compares_every_parameter_with_the_truth(demos: dict[str, Demo]) -> None:
    demo = demos["psychometric"]
    lines = summary(demo, demo.last)
    assert lines[0].split("  ")[-1] == "truth is"
    assert [line.split()[0] for line in lines[2:4]] == ["→", "→"]
    for line, name in zip(lines[2:], ("threshold", "slope", "guess", "lapse"), strict=True):
        assert name in line
        assert line.endswith("inside") == demo.holds_truth(name)


def test_a_rough_posterior_is_followed_by_the_likelihoods(
    demos: dict[str, Demo], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aline.app.demo.ROUGH", 1.1)
    lines = shown(replace(demos["location"]), 100)
    first, second = [i for i, line in enumerate(lines) if line.endswith("truth is")]
    assert any("experiment.refined()" in line for line in lines[first:second])
