"""The reference of all public names, from their signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from typing import Any

import aline

# Module: what it is for. Names are those that a module's __all__ lists.
MODULES = {
    "aline": "What most programs need.",
    "aline.spaces": "What all designs, axes and outcomes have: for kinds of your own.",
    "aline.model": "What training gives back.",
    "aline.experiment": "What an experiment gives back.",
    "aline.episodes": "Playing episodes: for own policies.",
    "aline.evaluation": "Is it right: exact posteriors, bounds, gaps and coverage.",
    "aline.baselines": "What it is compared with.",
    "aline.psychopy": "A handler for PsychoPy.",
}
EXAMPLES = (
    "The tests run every example, with the names of its module at hand. That of a method goes on "
    "from that of its class."
)
SOME = {  # of modules with more for those who build on them
    "aline.spaces": ("Axis", "Design", "Outcome"),
    "aline.model": ("Model", "ModelConfig"),
}


def public() -> Iterator[tuple[str, str, Any]]:
    """Module, name and object of each public name, once."""
    seen: set[int] = set()
    for module in MODULES:
        home = import_module(module)
        names = SOME.get(module) or getattr(home, "__all__", None) or _own(home)
        for name in sorted(names, key=str.lower):
            thing = getattr(home, name)
            is_described = inspect.isclass(thing) or inspect.isroutine(thing)
            if not name.startswith("_") and is_described and id(thing) not in seen:
                seen.add(id(thing))
                yield module, name, thing


def _own(module: Any) -> list[str]:
    """The public names that a module itself defines."""
    here = module.__name__
    return [n for n, thing in vars(module).items() if getattr(thing, "__module__", "") == here]


def page() -> str:
    """The page as Markdown."""
    parts = ["# Reference", f"Version {aline.__version__}, from the docstrings. {EXAMPLES}"]
    section = None
    for module, name, thing in public():
        if module != section:
            section = module
            parts.append(f"## {module}\n\n{MODULES[module]}")
        parts.append(f"### {name}\n\n{described(name, thing)}")
        if inspect.isclass(thing):
            parts += [*_inherited(thing), *(_member(*one) for one in members(thing))]
    return "\n\n".join(parts) + "\n"


def described(name: str, thing: Any) -> str:
    """Signature and docstring."""
    return f"```python\n{name}{signature(thing)}\n```\n\n{text(thing)}"


def signature(thing: Any) -> str:
    """Arguments on one line or, if that is too long, one a line."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    bare = found.replace(
        parameters=[
            one.replace(annotation=one.empty)
            for one in found.parameters.values()
            if one.name != "self"
        ],
        return_annotation=found.empty,
    )
    line = str(bare)
    return line if len(line) < 80 else str(bare).replace(", ", ",\n    ").replace("(", "(\n    ", 1)


def text(thing: Any) -> str:
    """A docstring as Markdown: examples with prompts become blocks of code."""
    return "\n".join(_fenced((inspect.getdoc(thing) or "").splitlines()))


def _fenced(lines: list[str]) -> Iterator[str]:
    inside = False
    for line in lines:
        starts, ends = line.startswith(">>> ") and not inside, inside and not line.strip()
        if starts:
            inside = True
            yield "```pycon"
        elif ends:
            inside = False
            yield "```"
        yield line
    if inside:
        yield "```"


def members(thing: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that have a docstring, but for those of a class above it."""
    above = {name for base in _bases(thing) for name in dir(base)}
    for name, member in inspect.getmembers(thing):
        inner = function_of(member)
        is_own = str(getattr(inner, "__module__", "")).startswith("aline") and name not in above
        if not name.startswith("_") and is_own and callable(inner) and inspect.getdoc(inner):
            yield name, member


def _bases(thing: type) -> list[type]:
    """Its nearest base that the reference has, if there is one."""
    described = {id(one) for _, _, one in public()}
    return [base for base in thing.__mro__[1:] if id(base) in described][:1]


def _inherited(thing: type) -> Iterator[str]:
    """Where the rest of its methods is described."""
    for base in _bases(thing):
        yield f"Also what [{base.__name__}](#{base.__name__.lower()}) has."


def function_of(member: Any) -> Any:
    """What a property, cached or not, calls."""
    if isinstance(member, property):
        return member.fget
    return member.func if isinstance(member, cached_property) else member


def _member(name: str, member: Any) -> str:
    inner = function_of(member)
    arguments = signature(member).replace("\n    ", "") if inner is member else ""
    body = "\n".join(f"    {line}".rstrip() for line in text(inner).splitlines())
    return f"`.{name}{arguments}`\n\n{_as_details(body)}"


def _as_details(body: str) -> str:
    """Indented under its name, by a definition list."""
    return f":{body[1:]}" if body else ""
