"""Experiments that ran elsewhere, from the JSON file that they were exported to."""

import json
from pathlib import Path

import pytest

import aline
from aline.errors import StorageError
from aline.experiment import open_storage
from tests.small import small_model


@pytest.fixture(params=["of a service", "plain data of a page"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An experiment with two trials, one of them told."""
    storage = open_storage("memory://")
    experiment = aline.Experiment(small_model("psychometric"), storage=storage, name="anna")
    experiment.tell(experiment.ask(), 1)
    experiment.ask()
    path = tmp_path / "experiment.json"
    name = {"name": "anna"}
    about = {"experiment": name} if request.param == "of a service" else name
    path.write_text(json.dumps({**about, "journal": storage.read("anna")}))
    return path


def test_it_is_read(file: Path) -> None:
    experiment = aline.Experiment.resume(str(file), model=small_model("psychometric"))
    assert experiment.name == "anna"
    assert [trial.state for trial in experiment.trials] == ["told", "asked"]
    assert set(experiment.posterior().mean) == {"threshold", "slope", "guess", "lapse"}


def test_it_is_not_written_to(file: Path) -> None:
    before = file.read_bytes()
    experiment = aline.Experiment.resume(str(file), model=small_model("psychometric"))
    with pytest.raises(StorageError, match="is a copy of an experiment, which nothing is added to"):
        experiment.tell(1, 0)
    with pytest.raises(StorageError, match="storage must be"):
        aline.Experiment(small_model("psychometric"), storage=str(file))
    assert experiment.trials[1].state == "asked"
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "text", ["", "[]", '{"name": "app"}', '{"name": "anna", "journal": []}', '{"experiment": 1}']
)
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(StorageError, match="is not the JSON of an experiment"):
        open_storage(str(tmp_path / "other.json"), must_exist=True)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be read"):
        aline.Experiment.resume(str(tmp_path / "none.json"))
