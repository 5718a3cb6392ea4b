import ast
import subprocess
import sys
from pathlib import Path

import pytest

import aline


@pytest.mark.parametrize("name", aline.__all__)
def test_public_name_is_the_thing_not_a_module(name: str) -> None:
    value = getattr(aline, name)
    assert name == "__version__" or callable(value)


def test_public_names_are_listed_before_they_are_imported() -> None:
    assert set(aline.__all__) <= set(dir(aline))


def test_packages_are_there_once_aline_is_imported() -> None:
    program = "import aline; print(aline.tasks.get('linear').name, aline.psychopy.AlineHandler)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("linear ")


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = aline.nonsense  # type: ignore[attr-defined]


def test_the_three_lists_of_public_names_agree() -> None:
    """Editors read the TYPE_CHECKING imports; what runs is the map. They must say the same."""
    tree = ast.parse(Path(aline.__file__).read_text(encoding="utf-8"))
    typed = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == aline._HOMES
    assert {*typed, "__version__"} == set(aline.__all__)
