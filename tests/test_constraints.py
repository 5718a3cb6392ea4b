"""What the scripts install is what constraints.txt and pyproject.toml say, and nothing beyond."""

import re
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
OURS = {"aline", "pip"}  # what constraints.txt leaves out

# Where a version is not the only reason for a bound, the feature that the code needs is tested.
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NEEDED = [
    Requirement(one)
    for one in [
        *PROJECT["dependencies"],
        *(one for name, more in PROJECT["optional-dependencies"].items() for one in more
          if name != "dev"),
    ]
]  # fmt: skip


def constraints() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = [re.fullmatch(r"(\S+)==(\S+)", line) for line in lines if not line.startswith("#")]
    return {canonicalize_name(one[1]): Version(one[2]) for one in pinned if one is not None}


def installed() -> dict[str, Version]:
    return {
        canonicalize_name(one.metadata["Name"]): Version(one.version.split("+")[0])
        for one in distributions()
        if Path(str(one.locate_file(""))).is_relative_to(sys.prefix)
    }


def test_the_environment_has_nothing_beyond_the_constraints() -> None:
    """A package that nobody pinned is one that the next machine may not have."""
    if not (Path(sys.prefix) / "aline-setup-stamp").is_file():
        pytest.skip("this Python's packages were not installed by scripts/setup")
    pinned = constraints()
    found = {name: v for name, v in installed().items() if name not in OURS}
    beyond = {name: str(v) for name, v in found.items() if pinned.get(name) != v}
    assert beyond == {}, "add these to constraints.txt, or remove .venv and run scripts/setup dev"


@pytest.mark.parametrize("requirement", NEEDED, ids=lambda one: one.name)
def test_what_the_code_needs_has_a_lower_bound_that_the_constraints_meet(
    requirement: Requirement,
) -> None:
    assert any(one.operator == ">=" for one in requirement.specifier), requirement
    assert constraints()[canonicalize_name(requirement.name)] in requirement.specifier
