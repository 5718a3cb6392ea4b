"""The documentation: links resolve, tutorials run, docstrings have examples, the site is whole."""

import doctest
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

import pytest

import aline

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "scripts" / "pages"))
notebooks = import_module("notebooks")
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


@pytest.mark.parametrize("name", [name for name in aline.__all__ if not name.startswith("_")])
def test_a_public_name_has_an_example_that_runs(name: str) -> None:
    thing = getattr(aline, name)
    module = sys.modules[thing.__module__]
    tests = doctest.DocTestFinder(recurse=False).find(thing, name, module)
    examples = [one for one in tests if one.examples]
    assert examples, f"{name} needs an example, >>> ..., in its docstring"
    for test in examples:
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_every_public_name_of_the_reference_is_described() -> None:
    for module, name, thing in reference.public():
        assert inspect.getdoc(thing), f"{module}.{name}"


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
