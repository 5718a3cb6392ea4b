"""Pages that need nothing else: one head for all, and a body of its own for each."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template

from aline.app.plots.canvas import css_variables


def page(name: str, title: str, **parts: str) -> str:
    """The page whose body is the template `name`, filled with parts that are HTML."""
    head = _template("head.html").substitute(
        title=escape(title), light=css_variables(dark=False), dark=css_variables(dark=True)
    )
    return head + _template(name).substitute(parts)


def _template(name: str) -> Template:
    return Template(files("aline.app").joinpath(name).read_text(encoding="utf-8"))
