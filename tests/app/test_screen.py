import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aline.app.demo import Demo, run_demo
from aline.app.record import PriorBelief
from aline.app.scales import Seen, on_scale
from aline.app.screen import DemoScreen, TrialTable, interval_bar, summary
from aline.app.subject import Subject, open_subject
from aline.tasks import Task, get


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
    seen = Seen(5.0, 1.0, (2.5, 7.5))
    assert interval_bar(seen, PriorBelief(3.0, (0.0, 10.0)), 9) == "··━━●━━··"


def test_the_bar_stays_on_its_line_when_the_posterior_leaves_the_priors_interval() -> None:
    seen = Seen(12.0, 1.0, (11.0, 13.0))
    assert interval_bar(seen, PriorBelief(3.0, (0.0, 10.0)), 9) == "········●"


def test_the_summary_compares_every_parameter_with_the_truth(demos: dict[str, Demo]) -> None:
    demo = demos["psychometric"]
    lines = summary(demo, demo.last)
    assert lines[0].split("  ")[-1] == "truth is"
    assert [line.split()[0] for line in lines[2:4]] == ["→", "→"]
    for line, name in zip(lines[2:], ("threshold", "slope", "guess", "lapse"), strict=True):
        assert name in line
        assert line.endswith("inside") == demo.holds_truth(name)


def test_the_likelihoods_posterior_comes_before_a_rough_one(
    demos: dict[str, Demo], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aline.app.record.ROUGH", 1.1)
    lines = shown(replace(demos["location"]), 100)
    first, second = [i for i, line in enumerate(lines) if line.endswith("truth is")]
    assert "experiment.refined()" in lines[first - 1]
    assert "only rough here" in lines[second - 1]


def test_a_demo_of_functions_shows_the_function_its_prediction_and_the_error(
    save: Callable[[Task, Path], Path], tmp_path: Path
) -> None:
    for name in ("gp1d", "gp2d"):
        folder = save(get(name, horizon=2), tmp_path / name)
        demo = run_demo(open_subject(str(folder)))
        lines = shown(demo, 110)
        header = next(i for i, line in enumerate(lines) if "→ function" in line)
        assert lines[header].split()[-6:] == ["→", "function", "prediction", "error", "its", "sd"]
        for line in lines[header + 2 : header + 11]:
            truth, predicted, error = map(float, line.split()[-4:-1])
            assert error == pytest.approx(predicted - truth, abs=0.02)  # of rounded numbers
        assert "RMSE of f" in "".join(lines)
        assert not [line for line in lines if line.startswith("→")]  # no parameter was aimed at
        assert any(re.match(r"The error of predictions .* went from", line) for line in lines)


def test_what_was_aimed_at_is_marked_and_nothing_else(subjects: dict[str, Subject]) -> None:
    demo = run_demo(subjects["linear"], target=["slope"], trials=1)
    assert [line[:5] for line in summary(demo, demo.last)[2:]] == ["→ slo", "  int"]


def test_a_prior_over_orders_of_magnitude_is_shown_by_its_logarithm(
    save: Callable[[Task, Path], Path], tmp_path: Path
) -> None:
    folder = save(get("ces", horizon=1), tmp_path / "ces")
    demo = run_demo(open_subject(str(folder)), target=["u"])
    demo = replace(demo)
    lines = shown(demo, 110)
    assert any(line.startswith("→ log10 u ") for line in lines)
    assert any(
        line.startswith("The 95 % interval of log10 u went from 5.09 wide") for line in lines
    )
    assert [on_scale(name, prior).is_log for name, prior in demo.prior.items()] == [
        *[False] * 4,
        True,
    ]


def test_how_long_a_trial_took_has_a_line_of_its_own(demos: dict[str, Demo]) -> None:
    for demo in demos.values():
        said = [line for line in shown(demo, 80) if " ms a trial" in line]
        assert len(said) == 1
        assert re.fullmatch(r"Choosing a design and updating .* took [\d.]+ ms a trial\.", said[0])
