"""What a training says while it runs."""

from itertools import pairwise

import pytest

from aline.training.metrics import FEWEST_ROUNDS, Lines, Metrics

ROW = {"loss": 1.0, "policy": None, "J": 0.5, "episodes": 16.0}
LINE = {"seconds": 0.5, "loss": 1.25, "J": 0.5, "episodes_per_second": 320.0}


def test_without_a_terminal_the_first_round_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = Metrics(None)
    with metrics.shown(True, "decay"):
        for round_ in range(1, 5):
            metrics.add(**ROW)
            metrics.write(round_, 0.1 * round_, 0.1 * round_)
    (line,) = capsys.readouterr().err.splitlines()  # at most one each few seconds
    assert line == "training decay   10%  loss 1.000  J 0.50 nats  160 episodes/s  1 s left"


def test_without_a_terminal_there_is_a_line_every_ten_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("aline.training.metrics.time.monotonic", lambda: now)
    lines, said = Lines("decay", is_timed=False), []
    for round_ in range(1, 301):
        now += 0.7
        lines.show(LINE, round_ / 300)
        said += [now] * len(capsys.readouterr().err.splitlines())
    assert max(later - earlier for earlier, later in pairwise(said)) < 10
    assert len(said) < 300 / 5


def test_the_bar_moves_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    metrics, shown = Metrics(None), []
    with metrics.shown(True, "decay"):
        for round_ in range(1, 6):
            metrics.add(**ROW)
            metrics.write(round_, 0.1 * round_, round_ / 5)
            (bar,) = metrics._bar.tasks  # type: ignore[union-attr]
            shown.append((round(bar.percentage), bar.fields["status"]))
    assert [share for share, _ in shown] == [20, 40, 60, 80, 100]
    assert all(status.startswith("loss 1.000  J 0.50 nats") for _, status in shown)


def test_the_last_round_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines("decay", is_timed=False)
    lines.show(LINE, 0.5)
    lines.show(LINE, 1.0)
    assert [text[:20] for text in capsys.readouterr().err.splitlines()] == [
        "training decay   50%",
        "training decay  100%",
    ]


def test_nothing_is_said_where_none_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = Metrics(None)
    with metrics.shown(False, "decay"):
        metrics.add(**ROW)
        metrics.write(1, 0.1, 0.1)
    assert capsys.readouterr() == ("", "")


def first_round(share: float, is_timed: bool = True) -> Lines:
    """A first round of a second, which is so much of the budget."""
    lines = Lines("decay", is_timed, quiet=True)
    lines.began -= 1.0
    lines.show({**LINE, "seconds": 1.0}, share)
    return lines


def test_a_budget_too_small_to_warm_up_is_said_at_the_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first_round(0.05)
    said = capsys.readouterr().err
    assert said.startswith("A round takes 1.0 s, so only about ")
    assert "fit into 20 s, too few to learn anything: give it 2 min or more (--budget)" in said
    first_round(0.5 / FEWEST_ROUNDS)
    first_round(0.05, is_timed=False)  # rounds are what was asked for
    assert capsys.readouterr().err == ""


def half_a_training(gain: float | None, quiet: bool = True) -> None:
    lines = Lines("decay", is_timed=False, quiet=quiet)
    for round_ in range(1, 2 * FEWEST_ROUNDS + 1):
        lines.show({**LINE, "J": gain}, round_ / (2 * FEWEST_ROUNDS))


def test_a_training_that_tells_nothing_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    half_a_training(0.004)
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"J is still 0.00 nats after {FEWEST_ROUNDS} rounds, half of the")
    assert "Check that simulate uses theta and the design" in said
    half_a_training(0.3)
    half_a_training(None)
    assert capsys.readouterr().err == ""
