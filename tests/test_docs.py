"""The documentation: links resolve, tutorials run, docstrings have examples, the site is whole."""

import doctest
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from PIL import Image

from aline import zoo
from aline.app.demo import run_demo
from aline.app.subject import open_subject

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "scripts" / "pages"))
notebooks = import_module("notebooks")
picture = import_module("picture")
reference = import_module("reference")

NOTEBOOKS = sorted(DOCS.glob("tutorials/*.ipynb"))


def links(page: Path) -> Iterator[str]:
    """Where a page points to, outside of its code."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join(notebooks.source(c) for c in cells if c["cell_type"] == "markdown")
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    yield from re.findall(r"\]\(([^)\s]+)\)", text)
    yield from re.findall(r'(?:src|href)="([^"]+)"', text)


def anchors(page: Path) -> set[str]:
    """The headings of a page, as GitHub and MkDocs name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"\s+", "-", one) for one in plain}


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md")), *NOTEBOOKS], ids=lambda p: p.name
)
def test_links_resolve(page: Path) -> None:
    for link in links(page):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name}: {link}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_tutorial_runs(path: Path) -> None:
    """As it stands, but for its training and the number of its trials."""

    def quick(code: str) -> str:
        return re.sub(r"rounds=\d+", "rounds=2", code).replace("horizon=30", "horizon=4")

    kinds = [
        output["output_type"]
        for cell in notebooks.run(notebooks.read(path), quick)["cells"]
        for output in cell.get("outputs", [])
    ]
    assert "display_data" in kinds


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_tutorial_shows_what_it_makes(path: Path) -> None:
    cells = notebooks.read(path)["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert path.stat().st_size < 400_000


def examples(thing: Any, name: str) -> list[doctest.DocTest]:
    """The examples in a docstring."""
    inner = reference.function_of(thing)
    module = sys.modules[inner.__module__]
    found = doctest.DocTestFinder(recurse=False).find(inner, name, module)
    return [one for one in found if one.examples]


def run(*groups: list[doctest.DocTest]) -> None:
    """Run examples one after the other, each with the names of those before."""
    names: dict[str, Any] = {}
    for test in [one for group in groups for one in group]:
        test.globs |= names
        assert doctest.DocTestRunner(verbose=False).run(test, clear_globs=False).failed == 0
        names = test.globs


PUBLIC = {f"{module}.{name}": thing for module, name, thing in reference.public()}


@pytest.fixture
def loads_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is loaded many times here gets its engine once."""
    for place in ("aline", "aline.psychopy.handler"):
        monkeypatch.setattr(f"{place}.load", loaded)


@cache
def loaded(name: str) -> Any:
    """A shipped model."""
    return zoo.load(name)


@pytest.mark.usefixtures("loads_once")
@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_an_example_that_runs(name: str) -> None:
    found = examples(PUBLIC[name], name)
    assert found, f"{name} needs an example, >>> ..., in its docstring"
    run(found)


# Those that a script holds in its hands. Policies and learners are called by `play` and `learn`.
HELD = ("aline", "aline.spaces", "aline.model", "aline.experiment", "aline.psychopy")
CLASSES = {
    name: thing
    for name, thing in PUBLIC.items()
    if inspect.isclass(thing) and name.rpartition(".")[0] in HELD
}


@pytest.mark.usefixtures("loads_once")
@pytest.mark.parametrize("name", CLASSES)
def test_every_member_of_a_class_is_in_an_example_that_runs(name: str) -> None:
    """In its own, which goes on from that of the class, or in one of the class or its bases."""
    kind = CLASSES[name]
    classes = kind.__mro__[:-1]
    above = [one for each in classes for one in examples(each, each.__name__)]
    shown = "".join(one.source for test in above for one in test.examples)
    missing = []
    for member, thing in reference.members(kind):
        home = next(each for each in classes if member in vars(each))
        own = examples(thing, f"{name}.{member}")
        if own and (home is kind or home not in CLASSES.values()):
            run(examples(home if examples(home, "") else kind, name), own)
        elif not own and not re.search(rf"\b{member}\b", shown):
            missing.append(member)
    assert not missing, f"{name} needs examples of {', '.join(missing)}"


def test_the_moving_picture_has_a_frame_for_every_trial() -> None:
    """As the script makes it, which is run for one trial."""
    demo = run_demo(open_subject("psychometric"), target=picture.AIMS, trials=1)
    frame = picture.frame(demo, demo.experiment, demo.steps)
    with Image.open(DOCS / "images" / "trials.gif") as shown:
        assert shown.size == frame.size
        assert shown.n_frames == 31  # before the first trial, and after each
    assert (DOCS / "images" / "trials.gif").stat().st_size < 1_000_000


class Resources(HTMLParser):
    """What a page loads by itself: not what it links to."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        loads = {"script": "src", "img": "src", "link": "href", "iframe": "src"}
        if given.get("rel") not in ("canonical", "prev", "next") and tag in loads:
            self.found.append(given.get(loads[tag]) or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_the_site_is_whole_and_needs_no_network(site: Path) -> None:
    # The page for what is not there is a server's, and knows no folder of its own.
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]
    assert {"index", "reference", "simulator", "results", "service"} <= {p.stem for p in pages}
    for page in pages:
        for resource in Resources(page.read_text(encoding="utf-8")).found:
            assert not resource.startswith(("http:", "https:", "//")), (page.name, resource)
            if not resource.startswith(("data:", "#")) and resource:
                name = unquote(resource.partition("?")[0])
                assert (page.parent / name).exists(), (page.name, resource)


def test_the_site_is_searched_from_disk(site: Path) -> None:
    """A page from disk may not fetch the index: it comes as a script."""
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert "ActiveRegressor" in index
