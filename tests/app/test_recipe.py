import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from aline import zoo
from aline.app import recipe
from aline.app.card import facts_of
from aline.errors import StateError
from aline.files import read_card
from aline.tasks import BUILT_IN

ZOO = Path(zoo.__file__).parent


@pytest.mark.parametrize("name", zoo.shipped())
def test_a_shipped_model_has_one_command_or_says_that_it_has_none(name: str) -> None:
    """A command starts from nothing: weights of before are in no checkout."""
    model = zoo.load(name)
    if recipe.WHY_NOT in model.training:
        with pytest.raises(StateError, match=r"^No one command makes this model: "):
            recipe.recipe(model)
        assert facts_of(model)["to make again"] == model.training[recipe.WHY_NOT]
        return
    train, task, *options = recipe.recipe(model)
    assert (train, task in BUILT_IN) == ("train", True)
    assert not {"--initial", "--resume"} & set(options)
    assert "after" not in model.training
    assert {"seconds", "machine", "seed"} <= set(model.training)
    assert not Path(options[options.index("--out") + 1]).is_absolute()


@pytest.mark.parametrize("name", zoo.shipped())
def test_the_readable_card_is_the_one_in_the_weights(name: str) -> None:
    card = read_card(ZOO / name / "weights.safetensors")
    del card["format"]
    assert json.loads((ZOO / name / "card.json").read_text(encoding="utf-8")) == card


def test_it_says_how_long_it_takes_and_which_defaults_have_changed(monkeypatch) -> None:
    model = zoo.load("location")
    older = replace(model, training={**model.training, "seconds": 3600.0})
    older.training["config"] = {**model.training["config"], "batch": 7}
    monkeypatch.setattr(zoo, "load", lambda name: older)
    command, takes, changed = recipe.words("location")
    assert command == older.training["command"]
    assert "60 min" in takes
    assert "batch was 7, is " in changed


def test_the_command_is_printed_and_run(monkeypatch, capfd) -> None:
    started = []
    monkeypatch.setattr(recipe.os, "execv", lambda program, words: started.append(words))
    recipe.main(["location"])
    printed = capfd.readouterr().out.splitlines()[0]
    assert printed.startswith("aline train location ")
    assert started[0][-len(shlex.split(printed)) :] == shlex.split(printed)


def test_without_a_name_all_models_are_listed(capfd) -> None:
    recipe.main([])
    lines = capfd.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == zoo.shipped()
