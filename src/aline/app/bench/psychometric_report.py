"""What the psychometric benchmark found, as tables, and the bars that it meets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from aline.app.bench.bench import Result, Row

TS, GL = "threshold,slope", "guess,lapse"
ALL = f"{TS},{GL}"
METHODS = ("aline", "psi-marginal", "questplus", "random", "greedy")
NAMES = {
    "aline": "aline",
    "psi-marginal": "psi-marginal",
    "questplus": "QUEST+",
    "random": "random stimuli",
    "greedy": "exact greedy optimum",
}


class Found:
    """The rows of a result by what they measure."""

    def __init__(self, result: Result):
        self.rows: list[Row] = list(result["rows"])

    def one(
        self, metric: str, target: str, method: str = "aline", step: int | None = None
    ) -> Row | None:
        """The only such row, if there is one."""
        for row in self.rows:
            is_it = (row["metric"], row["target"], row["method"], row["step"])
            if is_it == (metric, target, method, step):
                return row
        return None

    def series(self, metric: str, target: str, method: str = "aline") -> list[Row]:
        """Such rows by step."""
        rows = [
            row
            for row in self.rows
            if (row["metric"], row["target"], row["method"]) == (metric, target, method)
            and row["step"] is not None
        ]
        return sorted(rows, key=lambda row: row["step"])

    def last(self, metric: str, target: str, method: str = "aline") -> Row | None:
        """That of the last trial."""
        rows = self.series(metric, target, method)
        return rows[-1] if rows else None

    def has(self, metric: str) -> bool:
        """Whether it was measured at all."""
        return any(row["metric"] == metric for row in self.rows)


def markdown(result: Result) -> str:
    """Tables of what was measured, and each bar with whether it is met."""
    found = Found(result)
    parts = [_errors, _ceiling, _novel, _optimum, _switch, _times, _endless, _long, _bars]
    sections = ["\n".join(lines) for part in parts if (lines := list(part(found)))]
    notes = ["\n".join(f"- {note}" for note in result["notes"])] if result["notes"] else []
    head = f"`{result['command']}`, commit {result['commit']}, {result['machine']}"
    return "\n\n".join(["# Psychometric experiments", head, *sections, *notes]) + "\n"


def _value(row: Row | None, digits: int = 3) -> str:
    if row is None:
        return ""
    spread = f" ± {row['ci95']:.{digits}f}" if row["ci95"] else ""
    return f"{row['value']:.{digits}f}{spread}"


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    titles = list(header)
    yield f"| {' | '.join(titles)} |"
    yield "|" + "---|" * len(titles)
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _errors(found: Found) -> Iterator[str]:
    methods = [method for method in METHODS if found.last("exact_rmse", TS, method)]
    if not methods:
        return
    n = max(row["n"] for row in found.rows if row["metric"] == "posterior_rmse")
    yield f"Posterior RMSE after the last trial, {n} paired observers (mean ± 95 % interval): of"
    yield "each parameter the root of the mean square distance between posterior and truth, then"
    yield "the mean over the two, as in the paper's figure 4. In brackets, of the exact posterior"
    yield "of the same trials:"
    yield ""
    rows = [[NAMES[m], *(c for t in (TS, GL) for c in _error_cells(found, t, m))] for m in methods]
    refined = [_value(found.last("posterior_rmse", t, "aline-refined")) for t in (TS, GL)]
    if any(refined):
        cells = [cell for value in refined for cell in (value, "")]
        rows.insert(1, ["aline, its posterior refined by the likelihood", *cells])
    ours_less = "ours less theirs, paired"
    yield from _table(["", "threshold and slope", ours_less, "guess and lapse", ours_less], rows)


def _error_cells(found: Found, target: str, method: str) -> tuple[str, str]:
    """A method's errors, and how far ours are from them."""
    own, exact = (found.last(m, target, method) for m in ("posterior_rmse", "exact_rmse"))
    less = found.last(f"posterior_rmse_minus_{method}", target)
    return f"{_value(own)} ({_value(exact)})", _value(less, 4)


def _ceiling(found: Found) -> Iterator[str]:
    least = found.last("posterior_rmse", GL, "best-possible")
    ends = found.last("posterior_rmse", GL, "best-of-two-ends")
    if least is None or ends is None:
        return
    yield "Whatever the stimuli, an exact posterior of guess and lapse has at least"
    yield f"{_value(least, 4)} after {least['step']} trials (`evaluation/ceiling.py` proves it);"
    yield "trials at both ends of the axis, as if threshold and slope were in no doubt, would give"
    yield f"{_value(ends, 4)}."


def _novel(found: Found) -> Iterator[str]:
    if not found.has(f"posterior_rmse:{TS}"):
        return
    yield "All four parameters as the goal, which the model was never trained on:"
    yield ""
    rows = []
    for method in METHODS:
        pairs = [found.last(f"posterior_rmse:{pair}", ALL, method) for pair in (TS, GL)]
        where = [
            found.one(metric, ALL, method) for metric in ("share_near_threshold", "share_extreme")
        ]
        if any(pairs):
            rows.append([NAMES[method], *(map(_value, pairs)), *(_value(w, 2) for w in where)])
    titles = ["", "threshold and slope", "guess and lapse", "stimuli near the threshold", "extreme"]
    yield from _table(titles, rows)


def _optimum(found: Found) -> Iterator[str]:
    if not found.has("information_share"):
        return
    yield "Information expected of our stimulus over that of the best one (exact, one step):"
    yield ""
    steps = (2, 5, 10, 20, 30)
    rows = []
    for target in (TS, GL):
        each = {row["step"]: row for row in found.series("information_share", target)}
        cells = [_value(each.get(step), 2) for step in steps]
        whole = found.one("information_share", target)
        rows.append([target.replace(",", " and "), _value(whole), *cells])
    yield from _table(["", "all trials", *(f"trial {step}" for step in steps)], rows)


def _switch(found: Found) -> Iterator[str]:
    series = found.series("share_extreme:switched", GL)
    if not series:
        return
    steady = {row["step"]: row for row in found.series("share_extreme:steady", GL)}
    yield "Share of extreme stimuli when the goal changes from threshold and slope to guess and"
    yield "lapse after trial 15, and when it is guess and lapse from the start:"
    yield ""
    shown = [row for row in series if row["step"] in (14, 15, 16, 17, 18, 20, 25, 30)]
    yield from _table(
        ["trial", *(str(row["step"]) for row in shown)],
        [
            ["changed", *(_value(row, 2) for row in shown)],
            ["from the start", *(_value(steady[row["step"]], 2) for row in shown)],
        ],
    )


def _times(found: Found) -> Iterator[str]:
    if not found.has("seconds_per_step"):
        return
    yield "Milliseconds on one thread, to choose a stimulus and for a whole trial. The grid methods"
    yield "are ours, which need no posteriors to score a stimulus; as published, they compute the"
    yield "posterior and its entropy for every stimulus and answer. Same grid, same stimuli."
    yield ""
    rows = []
    for row in found.rows:
        if row["metric"] == "seconds_per_step":
            key = row["target"], row["method"]
            trial, ratio = found.one("seconds_per_trial", *key), found.one("ratio", *key)
            assert trial is not None
            assert ratio is not None
            times = (f"{1000 * r['value']:.2f}" for r in (row, trial))
            rows.append([row["method"], *times, f"{ratio['value']:.1f}"])
    yield from _table(["", "stimulus", "trial", "times ours (stimulus)"], rows)


def _endless(found: Found) -> Iterator[str]:
    series = found.series("longest_pause", TS)
    if not series:
        return
    step = series[-1]["step"]

    def value(metric: str) -> float:
        row = found.last(metric, TS)
        assert row is not None
        return float(row["value"])

    yield (
        f"{step} trials in a row: longest pause {1000 * value('longest_pause'):.1f} ms, median "
        f"{1000 * value('median_pause_first_100'):.1f} ms in the first hundred and "
        f"{1000 * value('median_pause_last_100'):.1f} ms in the last, "
        f"{value('memory_growth_mb'):.1f} MB more memory from a tenth of them on, drift "
        f"{value('drift'):.1e} prior standard deviations."
    )


def _long(found: Found) -> Iterator[str]:
    if not found.has("long_rmse"):
        return
    yield "What q loses in experiments longer than it was trained for (30 trials):"
    yield ""
    lengths = [row["step"] for row in found.series("long_rmse", TS)]
    rows = [["posterior RMSE", *(_value(row) for row in found.series("long_rmse", TS))]]
    kinds = (("long_coverage", "90 % coverage", 2), ("long_gap", "gap to exact, nats", 2))
    for metric, words, digits in kinds:
        for name in ("threshold", "slope", "guess", "lapse"):
            each = found.series(f"{metric}:{name}", TS)
            if each:
                cells = [_value(row, digits) for row in each]
                rows.append([f"{words}, {name}", *cells, *[""] * (len(lengths) - len(cells))])
    yield from _table(["trials", *map(str, lengths)], rows)


# The bars.

Judged = tuple[str, bool | str]
"""What was measured, and whether the bar is met, or in words how it stands."""
Bar = tuple[str, Callable[[Found], Judged | None]]
BELOW, LEVEL, ABOVE = "met: below", "level: the interval of the difference holds 0", "**not met**"


def _at_most(
    metric: str, target: str, limit: float, method: str = "aline"
) -> Callable[[Found], Judged | None]:
    def check(found: Found) -> Judged | None:
        row = found.last(metric, target, method)
        return None if row is None else (_value(row), row["value"] <= limit)

    return check


def _rates_at_most(limit: float) -> Callable[[Found], Judged | None]:
    def check(found: Found) -> Judged | None:
        row, least = (found.last("posterior_rmse", GL, m) for m in ("aline", "best-possible"))
        if row is None:
            return None
        possible = f"; no exact posterior can have less than {_value(least)}" if least else ""
        return f"{_value(row)}{possible}", row["value"] <= limit

    return check


def _against(target: str, other: str, pair: str | None = None) -> Callable[[Found], Judged | None]:
    """Whether our errors are below another method's, observer by observer."""
    end = f":{pair}" if pair else ""

    def check(found: Found) -> Judged | None:
        ours, theirs = (found.last(f"posterior_rmse{end}", target, m) for m in ("aline", other))
        less = found.last(f"posterior_rmse_minus_{other}{end}", target)
        if ours is None or theirs is None or less is None:
            return None
        values = f"{_value(ours)} against {_value(theirs)}"
        return f"{values}; paired difference {_value(less, 4)}", paired_verdict(less)

    return check


def paired_verdict(less: Row) -> str:
    """What a paired difference of errors says, ours less theirs: below, level or above."""
    if abs(less["value"]) <= less["ci95"]:
        return LEVEL
    return BELOW if less["value"] < 0 else ABOVE


def _between(pair: str) -> Callable[[Found], Judged | None]:
    def check(found: Found) -> Judged | None:
        own, novel = found.last("posterior_rmse", pair), found.last(f"posterior_rmse:{pair}", ALL)
        random = found.last(f"posterior_rmse:{pair}", ALL, "random")
        less = found.last(f"posterior_rmse_minus_random:{pair}", ALL)
        if own is None or novel is None or random is None or less is None:
            return None
        values = [row["value"] for row in (own, novel, random)]
        order = "own {:.3f}, all four {:.3f}, random {:.3f}".format(*values)
        paired = f"less random, observer by observer, {_value(less, 4)}"
        return f"{order}; {paired}", values == sorted(values)

    return check


def _visits(found: Found) -> Judged | None:
    near, extreme = (found.one(metric, ALL) for metric in ("share_near_threshold", "share_extreme"))
    if near is None or extreme is None:
        return None
    met = min(near["value"], extreme["value"]) >= 0.1
    return f"{_value(near, 2)} near the threshold, {_value(extreme, 2)} extreme", met


def _moves(found: Found) -> Judged | None:
    switched = {row["step"]: row for row in found.series("share_extreme:switched", GL)}
    steady = {row["step"]: row for row in found.series("share_extreme:steady", GL)}
    if 17 not in switched:
        return None
    before, after, usual = switched[15], switched[17], steady[17]
    met = after["value"] - after["ci95"] > before["value"] + before["ci95"]
    met = met and after["value"] >= 0.8 * usual["value"]
    shares = (f"{row['value']:.2f}" for row in (before, after, usual))
    return "{} at trial 15, {} at 17, usual {}".format(*shares), met


def _never_pauses(found: Found) -> Judged | None:
    row = found.last("longest_pause", TS)
    return None if row is None else (f"{1000 * row['value']:.1f} ms", row["value"] <= 0.05)


def _share(target: str) -> Callable[[Found], Judged | None]:
    def check(found: Found) -> Judged | None:
        row = found.one("information_share", target)
        return None if row is None else (_value(row), row["value"] >= 0.9)

    return check


def _faster(method: str, target: str, times: float) -> Callable[[Found], Judged | None]:
    def check(found: Found) -> Judged | None:
        row = found.one("ratio", target, method)
        return None if row is None else (f"{row['value']:.1f} times", row["value"] >= times)

    return check


BARS: tuple[Bar, ...] = (
    ("guess, lapse: RMSE at most 0.175", _rates_at_most(0.175)),
    ("guess, lapse: at most psi-marginal's", _against(GL, "psi-marginal")),
    ("guess, lapse: below QUEST+'s", _against(GL, "questplus")),
    ("guess, lapse: at most the exact greedy optimum's", _against(GL, "greedy")),
    ("threshold, slope: RMSE at most 0.57", _at_most("posterior_rmse", TS, 0.57)),
    (
        "threshold, slope: RMSE at most 0.57 with refined()",
        _at_most("posterior_rmse", TS, 0.57, "aline-refined"),
    ),
    ("threshold, slope: at most psi-marginal's", _against(TS, "psi-marginal")),
    ("threshold, slope: at most QUEST+'s", _against(TS, "questplus")),
    ("threshold, slope: at most the exact greedy optimum's", _against(TS, "greedy")),
    *(
        (f"all four: {words} at most {NAMES[other]}'s", _against(ALL, other, pair))
        for pair, words in ((TS, "threshold and slope"), (GL, "guess and lapse"))
        for other in ("questplus", "greedy")
    ),
    ("all four, novel: threshold and slope between own goal and random", _between(TS)),
    ("all four, novel: guess and lapse between own goal and random", _between(GL)),
    ("all four, novel: stimuli visit both threshold and extremes", _visits),
    ("after the switch, stimuli at the extremes within two trials", _moves),
    ("one-step information, threshold and slope: at least 0.9 of the optimum", _share(TS)),
    ("one-step information, guess and lapse: at least 0.9 of the optimum", _share(GL)),
    ("10 times faster than our psi-marginal", _faster("psi-marginal", TS, 10)),
    ("30 times faster than our QUEST+", _faster("questplus", ALL, 30)),
    ("10 times faster than psi-marginal as published", _faster("psi-marginal-published", TS, 10)),
    ("30 times faster than QUEST+ as published", _faster("questplus-published", ALL, 30)),
    ("no pause above 50 ms in a long experiment", _never_pauses),
)


def _bars(found: Found) -> Iterator[str]:
    checked = [(name, check(found)) for name, check in BARS]
    rows = [[name, c[0], _words(c[1])] for name, c in checked if c is not None]
    if rows:
        yield from _table(["bar", "measured", ""], rows)


def _words(verdict: bool | str) -> str:
    return verdict if isinstance(verdict, str) else "met" if verdict else "**not met**"
