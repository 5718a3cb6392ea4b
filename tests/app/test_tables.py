import math

import pytest

from aline.app.tables import aligned, decimals, duration, number
from aline.spaces import Binary, Real


@pytest.mark.parametrize(
    ("span", "expected"), [(6.0, 2), (1.9, 2), (1.0, 3), (0.5, 3), (0.01, 5), (4000.0, 0)]
)
def test_decimals_show_about_a_thousandth_of_a_span(span: float, expected: int) -> None:
    assert decimals(span) == expected


@pytest.mark.parametrize("span", [0.0, -1.0, math.inf, math.nan])
def test_decimals_of_no_real_span(span: float) -> None:
    assert decimals(span) == 3


def test_zero_has_no_sign() -> None:
    assert number(-0.0001, 6.0) == "0.00"
    assert number(-0.1, 6.0) == "-0.10"


def test_outcomes_in_words() -> None:
    assert Binary().text(1.0) == "yes"
    assert Binary().text(0.0) == "no"
    assert Real(0.0, 2.0).text(1.2345) == "1.23"


@pytest.mark.parametrize(
    ("seconds", "text"), [(12.3, "12 s"), (300, "5 min"), (7200, "2.0 h"), (89, "89 s")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_columns_line_up() -> None:
    lines = aligned(["", "value"], [["a", "1.0"], ["long name", "-12.25"]])
    assert lines == [
        "            value",
        "─────────  ──────",
        "a             1.0",
        "long name  -12.25",
    ]
