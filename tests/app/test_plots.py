from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot
from torch.distributions import Independent, Normal

from aline.app.demo import Demo, run_demo
from aline.app.plots import plates, plot_pairs, widths
from aline.app.plots.canvas import PALETTE, to_svg
from aline.app.plots.designs import companions
from aline.app.plots.marginals import plotted_range
from aline.app.plots.pairs import MOST, _write, has_pairs, paired, scalar_draws, shown_range
from aline.app.plots.plane import exact_density, has_exact, region_level, sources
from aline.app.plots.widths import draw_widths, relative_widths, spread
from aline.app.record import prior_of
from aline.app.subject import open_subject
from aline.app.taskfile import load_task
from aline.experiment import Posterior, RefinedPosterior
from aline.experiment.refine import Draws
from aline.model import Mixture
from aline.spaces import Parameters
from aline.tasks import Task, get


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("psychometric", "curve"),
        ("linear", "curve"),
        ("location", "plane"),
        ("two sources", "plane"),
    ],
)
def test_every_task_gets_its_five_figures(demos: dict[str, Demo], name: str, first: str) -> None:
    assert [plate.name for plate in plates(demos[name])] == [
        first,
        "marginals",
        "pairs",
        "designs",
        "widths",
    ]


def test_a_design_of_three_axes_has_no_curve_and_no_plane(
    save: Callable[[Task, Path], Path], tmp_path: Path
) -> None:
    task = get("location", dimensions=3, horizon=2)
    demo = run_demo(open_subject(str(save(task, tmp_path / "deep"))))
    assert [plate.name for plate in plates(demo)] == ["marginals", "pairs", "designs", "widths"]


def test_colours_become_variables_of_the_page(demos: dict[str, Demo]) -> None:
    svg = to_svg(plates(demos["psychometric"])[0].figure)
    assert svg.startswith("<svg")
    assert "var(--posterior)" in svg
    assert "var(--font)" in svg
    assert not [light for light, _ in PALETTE.values() if light in svg]
    assert "<metadata" not in svg


def test_drawing_leaves_matplotlib_as_it_was(demos: dict[str, Demo]) -> None:
    before = dict(matplotlib.rcParams)
    plates(demos["psychometric"])
    assert dict(matplotlib.rcParams) == before


def test_units_are_in_the_labels(
    save: Callable[[Task, Path], Path], own_file: Path, tmp_path: Path
) -> None:
    reference = f"{own_file}:task"
    folder = save(load_task(reference), tmp_path / "decay")
    curve, marginals, pairs, designs, _ = plates(run_demo(open_subject(str(folder), reference)))
    assert "time (s)" in to_svg(curve.figure)
    assert "rate (1/s)" in to_svg(marginals.figure)
    assert "rate (1/s)" in to_svg(pairs.figure)
    assert "time (s)" in to_svg(designs.figure)


def test_parameters_that_live_on_a_design_axis(demos: dict[str, Demo]) -> None:
    assert companions(demos["psychometric"], "stimulus") == ("threshold",)
    assert companions(demos["linear"], "x") == ()
    assert sources(demos["location"]) == [("source_x", "source_y")]
    assert sources(demos["two sources"]) == [("source1_x", "source1_y"), ("source2_x", "source2_y")]
    assert sources(demos["linear"]) == []


def test_the_prior_drawn_is_a_density(demos: dict[str, Demo]) -> None:
    for name in ("psychometric", "linear"):
        demo = demos[name]
        for label in demo.spec.parameters.labels:
            grid = np.linspace(*plotted_range(demo.experiment.posterior(), label), 2000)
            mass = np.trapezoid(prior_of(demo.spec.parameters).pdf(label, grid), grid)
            assert mass == pytest.approx(1.0, abs=0.03)


def test_a_name_stays_beside_its_axes_where_a_posterior_is_wider_than_the_prior(
    demos: dict[str, Demo], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far off, it would leave the layout no room for the axes."""
    monkeypatch.setattr(widths, "relative_widths", lambda demo, name: [50.0] * len(demo.steps))
    figure, axes = pyplot.subplots(layout="constrained")
    draw_widths(axes, demos["psychometric"])
    assert max(text.get_position()[1] for text in axes.texts) < 1.5
    to_svg(figure)


def test_widths_are_shares_of_the_priors(demos: dict[str, Demo]) -> None:
    demo = demos["psychometric"]
    shares = relative_widths(demo, "threshold")
    low, high = demo.last.interval["threshold"]
    assert shares[-1] == pytest.approx((high - low) / 5.7, rel=0.01)
    assert len(shares) == len(demo.steps)


@given(st.dictionaries(st.text(), st.floats(0, 1), max_size=8))
def test_labels_are_moved_apart_and_keep_their_order(heights: dict[str, float]) -> None:
    placed = list(spread(heights, 0.08))
    values = [height for _, height in placed]
    assert {name for name, _ in placed} == set(heights)
    assert all(b - a >= 0.08 - 1e-3 for a, b in pairwise(values))
    assert all(height >= -1e-9 for height in values)


def test_the_exact_posterior_is_drawn_where_there_is_one(demos: dict[str, Demo]) -> None:
    assert has_exact(demos["location"])
    assert not has_exact(demos["two sources"])
    assert not has_exact(demos["linear"])


def test_the_exact_posterior_follows_the_likelihood_under_a_flat_prior(
    demos: dict[str, Demo],
) -> None:
    demo, trials = demos["location"], demos["location"].steps[1:]
    across, up = np.array([0.2, 0.7]), np.array([0.3, 0.6, 0.8])
    density = exact_density(demo, ("source_x", "source_y"), across, up)
    assert density.shape == (3, 2)
    theta = {"source_x": across[[0, 1]], "source_y": up[[1, 2]]}
    likelihood = demo.subject.task.log_prob(
        demo.spec.parameters.to_network(theta),
        demo.spec.design.read({axis: [t.design[axis] for t in trials] for axis in "xy"})[None],
        demo.spec.outcome.to_network(torch.tensor([t.outcome for t in trials]))[None],
    ).sum(-1)
    difference = float(likelihood[1] - likelihood[0])
    assert np.log(density[2, 1] / density[1, 0]) == pytest.approx(difference, abs=1e-3)


def test_the_region_of_a_normal_density_holds_its_mass() -> None:
    grid = np.linspace(-6, 6, 400)
    density = np.exp(-0.5 * (grid[:, None] ** 2 + grid[None, :] ** 2))
    # In two dimensions the 95 % region ends where r^2 / 2 = -log 0.05.
    assert region_level(density, grid, grid) == pytest.approx(0.05, rel=0.02)


def of_vector(size: int, joint: bool = True) -> Posterior:
    """A vector's posterior; its draws need no network here."""
    normal = Independent(Normal(torch.zeros(size), torch.ones(size)), 1)
    parameters = Parameters({"v": normal, "b": Normal(0.0, 1.0)})
    if not joint:
        zeros = torch.zeros(size + 1, 1)
        return Posterior(Mixture(zeros, zeros, zeros + 1), parameters)
    z = torch.randn(500, size + 1, generator=torch.Generator().manual_seed(0)).double()
    z[:, 1] = z[:, 0] + 0.1 * z[:, 1]
    return RefinedPosterior(Draws(z, 1.0), parameters)


def test_pairs_have_marginals_draws_and_correlations() -> None:
    found = of_vector(2)
    drawn = plot_pairs(found, label=lambda name: f"{name} (s)", truth={"v_1": 0.0, "v_2": 9.0})
    panels = np.array(drawn.axes).reshape(3, 3)
    correlation = found.correlation(4000)["v_1"]["v_2"]
    assert panels[0, 1].texts[0].get_text() == f"{correlation:+.2f}"
    assert panels[2, 0].get_xlabel() == "v_1 (s)"
    assert panels[1, 0].get_ylabel() == "v_2 (s)"
    assert panels[1, 0].get_ylim()[1] > 9
    assert len(panels[1, 0].collections) > len(panels[2, 1].collections)  # the truth's cross


def test_no_correlation_has_no_sign() -> None:
    drawn, axes = pyplot.subplots()
    _write(axes, -0.004)
    assert axes.texts[0].get_text() == "+0.00"
    pyplot.close(drawn)


def test_pairs_are_for_joint_posteriors_of_two_or_more() -> None:
    assert has_pairs(of_vector(1))
    assert not has_pairs(of_vector(2, joint=False))
    many = of_vector(8)
    assert paired(many) == [f"v_{i}" for i in range(1, MOST + 1)]
    assert paired(many, ["b", "v_8"]) == ["v_1", "v_2", "v_3", "v_8", "b"]


def test_draws_by_scalar_name_are_those_of_the_posterior() -> None:
    found = of_vector(3)
    draws, sample = scalar_draws(found, 20), found.sample(20)
    assert tuple(draws) == found.names
    assert draws["v_2"] == pytest.approx(sample["v"][:, 1].numpy())
    assert draws["b"] == pytest.approx(sample["b"].numpy())


def test_a_range_holds_draws_and_truth_but_no_more() -> None:
    values = np.linspace(0, 1, 1000)
    assert shown_range(values) == (0, 1)
    assert shown_range(values, 3.0)[1] > 3
    low, high = shown_range(np.full(10, 2.0))
    assert low < 2 < high
