import json
from pathlib import Path

import pytest

from aline import zoo
from aline.app.listing import model_block, model_lines, model_rows, task_blocks, task_rows
from aline.tasks import BUILT_IN


def test_every_built_in_task_is_listed() -> None:
    rows = task_rows()
    assert [row["task"] for row in rows] == list(BUILT_IN)
    assert all(row["description"] and row["parameters"] for row in rows)
    first = rows[0]
    assert first["parameters"][0] == "threshold ~ Uniform(-3, 3)"
    assert first["design"] == "stimulus in [-5, 5]"
    assert first["outcome"] == "a yes or a no"
    json.dumps(rows)


@pytest.mark.parametrize("width", [80, 110])
def test_tasks_fit_the_terminal(width: int) -> None:
    lines = task_blocks(task_rows(), width)
    assert max(map(len, lines)) <= width
    assert [line.split()[0] for line in lines if line and line[0] != " "] == list(BUILT_IN)


def test_models_are_listed_with_their_facts(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zoo, "_HERE", folders["linear"].parent)
    rows = model_rows()
    assert [row["model"] for row in rows] == zoo.shipped() != []
    facts = rows[0]["facts"]
    assert facts["trained"] == "61 s, 1,200 episodes"
    assert facts["measured gap"] == "0.5"
    assert "weights" in facts["size"]
    json.dumps(rows)
    lines = model_lines(rows, 80)
    assert len(lines) == 2 + len(rows)  # a header, a rule, and a line a model
    assert [line.split()[0] for line in lines[2:]] == [name.split()[0] for name in zoo.shipped()]


@pytest.mark.parametrize("width", [80, 110])
def test_models_fit_the_terminal(width: int) -> None:
    rows = model_rows()
    assert max(map(len, model_lines(rows, width))) <= width
    for row in rows:
        card = model_block(row, width)
        assert max(map(len, card)) <= width
        assert len(card) < 60  # a long name does not leave its value a column of one letter
        assert card[0] == row["model"]


def test_no_models() -> None:
    assert model_lines([], 80) == []
