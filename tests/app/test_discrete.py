"""Discrete parameters as reports, the service and its page show them."""

from pathlib import Path

import pytest
from discrete import TRENDS, trend_task
from small import small_network

from aline import Experiment
from aline.app.card import priors_text
from aline.app.service import drawing, schemas, shapes
from aline.app.web import check_runs_in_a_page
from aline.errors import InputError
from aline.model import Model


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    experiment = Experiment(Model(small_network(trend_task())), target=["trend"])
    for _ in range(3):
        trial = experiment.ask()
        experiment.tell(trial, trial.design["x"] > 0)
    return experiment


def test_a_report_tells_the_likeliest_value(experiment: Experiment, tmp_path: Path) -> None:
    text = experiment.report(tmp_path / "trend.html", trend_task()).read_text(encoding="utf-8")
    found = experiment.posterior().probabilities("trend")
    likeliest = max(found, key=lambda label: found[label])
    assert f"<b>{likeliest}</b>" in text
    assert f"The likeliest trend is {likeliest}" in text
    assert "slope ~ Uniform(0.2, 2) where trend is rises" in text


def test_the_service_has_probabilities(experiment: Experiment) -> None:
    posterior = experiment.posterior()
    reply = schemas.Posterior(**shapes.posterior(posterior, 3, 0.95))
    assert reply.parameters["trend"].probabilities == posterior.probabilities("trend")
    assert reply.parameters["bias"].probabilities is None


def test_the_page_draws_a_bar_for_each_value(experiment: Experiment) -> None:
    trend = drawing.draw(experiment, None)["parameters"][0]
    assert [label for _, label in trend["ticks"]] == list(TRENDS)
    heights = list(experiment.posterior().probabilities("trend").values())
    assert trend["posterior"][1::4] == pytest.approx(heights)
    assert trend["x"] == sorted(trend["x"])


def test_a_card_says_where_a_parameter_exists() -> None:
    lines = priors_text(trend_task().spec.parameters)
    assert lines[0] == "trend ~ Categorical([rises, falls, neither], [0.5, 0.3, 0.2])"


def test_static_pages_refuse_them() -> None:
    with pytest.raises(InputError, match="Categorical"):
        check_runs_in_a_page(Model(small_network(trend_task())))
