"""The page: rendered here, kept up to date by one small script."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Query, Request
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.responses import HTMLResponse, RedirectResponse, Response

from aline import __version__
from aline.app.service import shapes
from aline.app.service.api import Name, desk_of
from aline.app.service.desk import Desk
from aline.app.service.guard import COOKIE
from aline.app.service.lab import Lab
from aline.app.service.terms import TERMS
from aline.app.tables import design_cell, number
from aline.experiment import Experiment
from aline.spaces import Outcome
from aline.tasks import PREDICTIONS
from aline.zoo import shipped

START = "psychometric"  # the model that most people understand at once
SHOWN = 50  # experiments in the list
TRIALS = 200  # in the table; exports have every one
YEAR = 365 * 24 * 3600

pages = APIRouter(include_in_schema=False)
_templates = Environment(
    loader=PackageLoader("aline.app.service"),
    autoescape=select_autoescape(),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.globals["version"] = __version__
_templates.globals["terms"] = TERMS
_templates.filters["segment"] = lambda text: quote(text, safe="")


def prepare() -> None:
    """Compile the templates, so that whoever looks first does not wait for it."""
    for name in _templates.list_templates():
        _templates.get_template(name)


def _render(template: str, **values: Any) -> HTMLResponse:
    return _page(_templates.get_template(template).render(**values))


def _page(text: str) -> HTMLResponse:
    return HTMLResponse(text, headers={"cache-control": "no-store"})


@pages.get("/")
async def index(request: Request, start: Annotated[int, Query(ge=0, le=2**31)] = 0) -> Response:
    """The experiments, and a form to start one."""
    desk = desk_of(request)
    return await desk.slow(_index, desk, start)


def _index(desk: Desk, start: int) -> Response:
    lab, names = desk.lab, desk.lab.names()[::-1]
    shown = shapes.summaries(lab.storage, names[start : start + SHOWN])
    return _render(
        "index.html",
        experiments=shown,
        total=len(names),
        start=start,
        page=SHOWN,
        models=shapes.models(lab),
        first=_first_model(lab),
    )


def _first_model(lab: Lab) -> str | None:
    """The model that the form starts with: one of the user's own, else a plain yes or no task."""
    own = [name for name in lab.models() if name not in shipped()]
    return own[0] if own else START


@pages.get("/experiments/{name}")
async def experiment(request: Request, name: Name) -> Response:
    """One experiment, live."""
    desk = desk_of(request)
    template = _templates.get_template("experiment.html")
    return _page(await desk.look(name, "page", lambda e: template.render(**_values(desk, e))))


@pages.get("/experiments/{name}/panel")
async def panel(request: Request, name: Name) -> Response:
    """The part of the page that changes with every trial."""
    desk = desk_of(request)
    template = _templates.get_template("panel.html")
    return _page(await desk.look(name, "page", lambda e: template.render(**_values(desk, e))))


@pages.get("/login")
async def login(request: Request) -> Response:
    """Where a browser gives its token."""
    return _render("login.html", wrong=False)


@pages.post("/login")
async def enter(request: Request) -> Response:
    """Check a token and let the browser keep it, out of reach of scripts and other sites."""
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    token = form.get("token", [""])[0].strip()
    if await request.app.state.tokens.owner(token) is None:
        page = _render("login.html", wrong=True)
        page.status_code = 401
        return page
    reply = RedirectResponse("/", 303)
    reply.set_cookie(
        COOKIE,
        token,
        max_age=YEAR,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return reply


def _values(desk: Desk, experiment: Experiment) -> dict[str, Any]:
    """What the templates show of an experiment."""
    shape = shapes.experiment(experiment, desk.lab.model_name(experiment))
    spec, posterior = experiment.spec, experiment.posterior()
    open_trials = [trial for trial in shape["trials"] if trial["state"] == "asked"]
    return {
        "experiment": shape,
        "form": spec.outcome.form(),
        "mark_words": mark_words(spec.outcome),
        "is_simulated": desk.lab.observer(experiment) is not None,
        "next": open_trials[0] if open_trials else None,
        "latest": shape["trials"][: -TRIALS - 1 : -1],
        "axes": [{"name": axis, "unit": spec.units.get(axis, "")} for axis in spec.design.names],
        "beliefs": [
            {
                "name": label,
                "label": label if posterior[label].probabilities else spec.label(label),
                "mean": number(posterior[label].mean, posterior[label].std * 4),
                "interval": [
                    number(end, posterior[label].std * 4) for end in posterior[label].interval(0.95)
                ],
                "probabilities": posterior[label].in_words(),
            }
            for label in posterior.names
        ],
        "goals": _goals(experiment),
        "warnings": experiment.warnings,
        "show_design": lambda name, value: design_cell(spec.design.axes[name], value),
        "show_outcome": spec.outcome.text,
    }


def mark_words(outcome: Outcome) -> str:
    """What the marks of a trial mean, by its first outcome."""
    first = next(iter(outcome.parts.values()))
    if first.has_interval:
        return "What was measured where."
    return f"Filled: {' or '.join(first.labels[1:])}. Open: {first.labels[0]}."


def _goals(experiment: Experiment) -> list[dict[str, Any]]:
    """Parameters to aim at, and which are aimed at now."""
    now = {one for one in experiment.target if isinstance(one, str)}
    names = [*experiment.spec.parameters.priors, PREDICTIONS]
    return [{"name": name, "chosen": name in now} for name in names]
