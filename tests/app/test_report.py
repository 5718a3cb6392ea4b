import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from aline import __version__
from aline.app.demo import Demo
from aline.app.report import render, write_report

VOID = {"meta", "path", "use", "br"}


class Page(HTMLParser):
    """The tags, ids and resources of a page, and whether tags are closed in order."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.resources: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for key, value in attrs:
            if key == "id":
                self.ids.append(value or "")
            if key in ("src", "href", "xlink:href", "action", "data", "srcset"):
                self.resources.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def pages(demos: dict[str, Demo]) -> dict[str, str]:
    return {name: render(demo, f"aline demo {name}") for name, demo in demos.items()}


@pytest.mark.parametrize("name", ["psychometric", "location", "two sources", "linear"])
def test_the_report_needs_nothing_else(pages: dict[str, str], name: str) -> None:
    page = Page(pages[name])
    assert not page.open
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert all(resource.startswith(("#", "data:")) for resource in page.resources)
    assert not re.findall(r"url\((?!#|['\"]?#)[^)]*\)", pages[name])
    assert "@import" not in pages[name]


@pytest.mark.parametrize("name", ["psychometric", "location", "two sources", "linear"])
def test_the_report_has_five_figures(pages: dict[str, str], name: str) -> None:
    page = Page(pages[name])
    first = "plane" if name in ("location", "two sources") else "curve"
    assert {first, "marginals", "designs", "widths"} <= set(page.ids)
    assert page.tags.count("svg") == 5


def test_the_report_says_what_happened_and_how_it_was_made(
    demos: dict[str, Demo], pages: dict[str, str]
) -> None:
    text, demo = pages["psychometric"], demos["psychometric"]
    for part in (
        "5 trials to learn threshold and slope",
        "aline demo psychometric",
        f"aline {__version__}",
        "1,200 episodes",
        "x86_64, a test",
        "measured gap",
        f"{abs(demo.steps[1].design['stimulus']):.2f}",
    ):
        assert part in text
    assert text.count("<tr>") == (1 + 4) + (1 + 5)


def test_the_report_follows_the_readers_light_or_dark(pages: dict[str, str]) -> None:
    text = pages["psychometric"]
    assert "prefers-color-scheme: dark" in text
    assert text.count("--posterior:") == 2


def test_what_the_user_typed_is_escaped(demos: dict[str, Demo]) -> None:
    text = render(demos["linear"], "aline demo '<script>alert(1)</script>'")
    assert "<script" not in text


def test_the_same_demo_gives_the_same_page(demos: dict[str, Demo]) -> None:
    assert render(demos["linear"], "") == render(demos["linear"], "")


def test_the_report_is_written_where_asked(demos: dict[str, Demo], tmp_path: Path) -> None:
    path = write_report(demos["linear"], tmp_path / "new folder" / "report.html", "aline demo")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
