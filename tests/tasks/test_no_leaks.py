"""Tables that models are trained on: no data set is learned from and tested on, under any id."""

from itertools import product
from pathlib import Path

import pytest
import torch

from aline.app.bench.bench import BenchSettings
from aline.app.bench.hpo import FOREST_ALIASES, SPACES, YAHPO_ALIASES, landscape_task
from aline.tasks.tables import Table, Tables

FOLDERS = (parent / "shared" / "data" / "hpo" for parent in Path(__file__).resolve().parents)
FOLDER = next((folder for folder in FOLDERS if folder.is_dir()), None)


def duplicates(one: Table, other: Table) -> bool:
    """Whether outcomes are the same, in the same order or in any, whatever the configurations.

    Data that every configuration gets right (34538 and 9968 of the forest) are not one by that.
    """
    if len(one) != len(other) or float(one.y.std()) < 1e-6:
        return False
    pairs = (one.y, other.y), (one.y.sort().values, other.y.sort().values)
    return any(torch.allclose(a, b, atol=1e-5) for a, b in pairs)


def known_as(space: str, name: str) -> str:
    aliases = FOREST_ALIASES if space == "openml_forest" else YAHPO_ALIASES
    return aliases.get(name, name)


@pytest.fixture(scope="module", params=SPACES)
def tables(request: pytest.FixtureRequest) -> Tables:
    if FOLDER is None:
        pytest.skip("the tables are not at hand: shared/data/hpo, beside the checkout")
    return landscape_task(request.param, BenchSettings(data=FOLDER)).tables


def test_no_test_data_set_is_learned_from_under_any_id(tables: Tables) -> None:
    parts = {part: tables.part(part) for part in ("train", "validation", "test")}
    assert parts["test"]
    names = {
        part: {known_as(tables.space, one.name) for one in some} for part, some in parts.items()
    }
    assert not names["test"] & (names["train"] | names["validation"])
    assert not names["validation"] & names["train"]
    for tested, learned in product(parts["test"], (*parts["train"], *parts["validation"])):
        assert not duplicates(tested, learned), (tested.name, learned.name)
        assert not tested.is_same_data(learned)


def test_the_task_says_what_it_has_learned_from(tables: Tables) -> None:
    from aline.tasks.table_task import TableTask

    learned = set(TableTask(tables).spec.config["learned_from"])
    assert learned == {one.name for one in tables.part("train")}
