"""What tests of live views share."""

import pytest

from aline.model import live_native


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Experiments with functions run what was compiled, or a skip with the reason."""
    if live_native.native is None:
        pytest.skip("the step is not compiled: there was no C compiler when aline was installed")
    monkeypatch.delenv("ALINE_NATIVE", raising=False)


@pytest.fixture(params=["compiled", "plain"])
def step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How experiments with functions run: either way."""
    if request.param == "compiled":
        request.getfixturevalue("compiled")
    else:
        monkeypatch.setenv("ALINE_NATIVE", "0")
    return str(request.param)
