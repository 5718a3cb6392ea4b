"""The API under /api/v1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import Response, StreamingResponse

from aline.app.service import exports, links, schemas, shapes
from aline.app.service.desk import Desk
from aline.app.service.drawing import draw
from aline.app.service.knowledge import know, priors_of, release
from aline.app.service.replies import Json, to_json
from aline.app.service.shortcut import KEY
from aline.app.service.streams import LiveReply
from aline.episodes import predictions
from aline.errors import InputError, StateError
from aline.experiment import Experiment, Trial
from aline.spaces.parts import read_part

Name = Annotated[str, Path(description="An experiment's name.", max_length=200)]
Number = Annotated[int, Path(description="A trial's number.", ge=0, le=2**31)]
Key = Annotated[
    str | None,
    Header(
        alias=KEY,
        min_length=1,
        max_length=150,
        description="Marks this call: repeated with the same key it changes nothing more.",
    ),
]
Level = Annotated[float, Query(gt=0, lt=1, description="Of the intervals.")]
Refined = Annotated[
    bool, Query(description="By the task's own likelihood, where it is known; takes a second.")
]

_FAILURES: dict[int | str, dict[str, Any]] = {
    code: {"model": schemas.Failure, "description": words}
    for code, words in {
        400: "The body is no JSON.",
        401: "No token, or a wrong one.",
        403: "A page of another site.",
        404: "No such model, experiment or trial.",
        409: "The right call at the wrong moment, such as telling the outcome of a trial twice.",
        413: "Too large.",
        415: "The body is not application/json.",
        422: "A value that breaks a rule.",
        429: "Too many requests.",
        503: "The database cannot be reached.",
    }.items()
}


def desk_of(request: Request) -> Desk:
    """The desk of the application that a request came to."""
    desk: Desk = request.app.state.desk
    return desk


# Routes are tried in this order. Those of trials have a shortcut.
_every: dict[str, Any] = {
    "prefix": "/api/v1",
    "responses": _FAILURES,
    "generate_unique_id_function": lambda route: route.name,  # the name that links call it by
}
trials, api = APIRouter(**_every), APIRouter(**_every)


@trials.post(
    "/experiments/{name}/ask",
    response_model=schemas.Trial,
    status_code=201,
    tags=["trials"],
    responses=links.of_trial(201),
)
async def ask(request: Request, name: Name, key: Key = None) -> Response:
    """The next trial. Several may be open at a time."""
    return await desk_of(request).trial(name, "asked", lambda e: e.ask(key=key), "ask")


@trials.post(
    "/experiments/{name}/trials/{number}/tell",
    response_model=schemas.Trial,
    tags=["trials"],
    responses=links.of_trial(200),
)
async def tell(
    request: Request, name: Name, number: Number, body: schemas.Tell, key: Key = None
) -> Response:
    """What a trial gave. It is on disk when the reply comes."""

    def work(experiment: Experiment) -> Trial:
        return experiment.tell(number, body.outcome, body.design, note=body.note, key=key)

    return await desk_of(request).trial(name, "told", work, "tell")


@api.get("/models", response_model=schemas.Models, tags=["models"])
async def list_models(request: Request) -> Response:
    """The models that experiments can be started with."""
    desk = desk_of(request)

    def work() -> list[Any]:
        return shapes.models(desk.lab)

    return Json({"models": await desk.slow(work)})


@api.post(
    "/experiments",
    response_model=schemas.Experiment,
    status_code=201,
    tags=["experiments"],
    responses=links.of_experiment(201),
)
async def create(request: Request, body: schemas.NewExperiment, key: Key = None) -> Response:
    """Start an experiment."""
    desk, lab = desk_of(request), desk_of(request).lab

    def work() -> Any:
        experiment = lab.create(
            body.model,
            key=key,
            name=body.name,
            target=_targets(body.target),
            horizon=body.horizon,
            stop=body.stop,
            seed=body.seed,
            metadata=body.metadata,
            known=body.known,
            prior=priors_of(body.prior),
            units=body.units,
        )
        return experiment.name, _shown(desk)(experiment)

    name, shown = await desk.slow(work)
    desk.metrics.experiments.set(len(lab))
    return Json(shown, 201, {"location": f"/api/v1/experiments/{quote(name, safe='')}"})


@api.get("/experiments", response_model=schemas.Experiments, tags=["experiments"])
async def list_experiments(
    request: Request,
    start: Annotated[int, Query(ge=0, le=2**31, description="How many of the newest to skip.")] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """The experiments, the newest first."""
    desk = desk_of(request)

    def work() -> Any:
        names = desk.lab.names()[::-1]
        shown = shapes.summaries(desk.lab.storage, names[start : start + limit])
        return to_json({"experiments": shown, "total": len(names)})

    return Json(await desk.slow(work))


@api.get(
    "/experiments/{name}",
    response_model=schemas.Experiment,
    tags=["experiments"],
    responses=links.of_experiment(200),
)
async def show(request: Request, name: Name) -> Response:
    """An experiment with all its trials."""
    desk = desk_of(request)
    return Json(await desk.look(name, "show", _shown(desk)))


@api.patch(
    "/experiments/{name}",
    response_model=schemas.Experiment,
    tags=["experiments"],
    responses=links.of_experiment(200),
)
async def change(request: Request, name: Name, body: schemas.Change) -> Response:
    """Aim at something else, plan more or fewer trials, or know something else, from now on."""
    desk = desk_of(request)

    def work(experiment: Experiment) -> None:
        targets = _targets(body.target)
        if targets is not None:
            release(experiment, body)
            experiment.target = targets
        know(experiment, body)
        if body.horizon is not None:
            experiment.horizon = body.horizon
        if body.stop is not None:
            experiment.stop = body.stop

    return await _changed(desk, name, work)


@api.post("/experiments/{name}/close", response_model=schemas.Experiment, tags=["experiments"])
async def close(request: Request, name: Name) -> Response:
    """End an experiment for good; what it holds stays."""
    return await _changed(desk_of(request), name, Experiment.close)


@api.post(
    "/experiments/{name}/trials/{number}/abandon",
    response_model=schemas.Trial,
    tags=["trials"],
    responses=links.of_trial(200),
)
async def abandon(request: Request, name: Name, number: Number, key: Key = None) -> Response:
    """Give a trial up; if it was told, its outcome leaves the posterior."""
    return await desk_of(request).trial(name, "abandoned", lambda e: e.abandon(number, key=key))


@api.post(
    "/experiments/{name}/trials/{number}/redo",
    response_model=schemas.Trial,
    status_code=201,
    tags=["trials"],
    responses=links.of_trial(201),
)
async def redo(request: Request, name: Name, number: Number, key: Key = None) -> Response:
    """Ask a trial's design again, as a new trial."""
    return await desk_of(request).trial(name, "asked", lambda e: e.redo(number, key=key))


@api.post(
    "/experiments/{name}/undo",
    response_model=schemas.Trial,
    status_code=201,
    tags=["trials"],
    responses=links.of_trial(201),
)
async def undo(request: Request, name: Name, key: Key = None) -> Response:
    """Take the last told trial back and ask it again, in place of those that are open."""
    return await desk_of(request).trial(name, "asked", lambda e: e.undo(key=key))


@api.post("/experiments/{name}/attach", response_model=schemas.Trials, tags=["trials"])
async def attach(request: Request, name: Name, body: schemas.Attach, key: Key = None) -> Response:
    """Add data measured earlier."""
    desk, count = desk_of(request), len(body.outcomes)

    def work(experiment: Experiment) -> tuple[Trial, ...]:
        attached = experiment.attach(body.designs, body.outcomes, key=key)
        _check_room(experiment)  # of a copy, and not before: a repeated call adds nothing
        return attached

    trials = await desk.change(name, work, added=count)
    return Json({"trials": [shapes.trial(one) for one in trials]})


@api.post("/experiments/{name}/restrict", response_model=schemas.Experiment, tags=["trials"])
async def restrict(request: Request, name: Name, body: schemas.Restrict) -> Response:
    """Say which designs may be asked from now on."""
    desk = desk_of(request)
    if body.candidates is not None and body.box is not None:
        raise InputError("a restriction is candidates or a box, got both: send one")

    def work(experiment: Experiment) -> None:
        box = None if body.box is None else read_part(experiment.spec.design, body.box)
        allowed: Any = body.candidates if body.candidates is not None else box
        experiment.restrict(allowed, repeats=body.repeats)

    return await _changed(desk, name, work)


@api.post(
    "/experiments/{name}/simulate",
    response_model=schemas.Trial,
    tags=["trials"],
    responses=links.of_trial(200),
)
async def simulate(request: Request, name: Name) -> Response:
    """One trial answered by the experiment's simulated participant."""
    desk = desk_of(request)
    return Json(shapes.trial(await desk.change(name, desk.lab.simulate, asks=True)))


@api.get("/experiments/{name}/posterior", response_model=schemas.Posterior, tags=["results"])
async def posterior(
    request: Request, name: Name, level: Level = 0.95, refined: Refined = False
) -> Response:
    """What is known about the parameters."""

    def work(seen: Experiment) -> Any:
        found = seen.refined() if refined else seen.posterior()
        return shapes.posterior(found, seen.sequence, level)

    desk = desk_of(request)
    return Json(await (desk.refine(name, work) if refined else desk.look(name, "posterior", work)))


@api.post("/experiments/{name}/predict", response_model=schemas.Predictive, tags=["results"])
async def predict(request: Request, name: Name, body: schemas.Predict) -> Response:
    """What would be measured at designs."""

    def work(experiment: Experiment) -> Any:
        return experiment.predict(body.designs).summary(body.level)

    return Json(await desk_of(request).look(name, "predict", work))


@api.get("/experiments/{name}/drawing", tags=["results"])
async def drawing(request: Request, name: Name) -> Response:
    """The numbers behind the page's plots."""
    desk = desk_of(request)
    return Json(await desk.draw(name, lambda e: to_json(draw(e, desk.lab.observer(e)))))


@api.get(
    "/experiments/{name}/export",
    response_class=Response,
    responses={200: {"content": {kind: {} for kind in exports.TYPES.values()}}},
    tags=["results"],
)
async def export(
    request: Request,
    name: Name,
    format: Annotated[
        Literal["json", "csv", "netcdf", "html"],
        Query(description="netcdf is for ArviZ, html a report with figures."),
    ] = "json",
) -> Response:
    """The experiment as a file: everything, the trials, draws from the posterior, or a report."""
    desk, lab = desk_of(request), desk_of(request).lab
    moment = await desk.moment(name)
    events = (await desk.slow(lab.read, name))[: moment.sequence]

    def work(experiment: Experiment) -> bytes:
        return exports.export(experiment, events, lab.model_name(experiment), format)

    is_long = format == "html"  # figures take seconds
    content = await (desk.refine(name, work) if is_long else desk.compute(moment, "export", work))
    file = f"{quote(name, safe='')}.{exports.ENDINGS[format]}"
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{file}"}
    return Response(content, media_type=exports.TYPES[format], headers=headers)


@api.get(
    "/experiments/{name}/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}}},
    tags=["results"],
)
async def events(request: Request, name: Name) -> Response:
    """Server-sent events: `changed` with the journal's length, now and whenever it grows."""
    streams, tokens = desk_of(request).streams, request.app.state.tokens
    token = getattr(request.state, "token", None)
    seat = streams.take(lambda: tokens.is_welcome(token))
    try:
        moment = await desk_of(request).moment(name)
    except BaseException:
        streams.leave(seat)
        raise
    return LiveReply(streams, name, moment.sequence, seat)


async def _changed(desk: Desk, name: str, work: Callable[[Experiment], None]) -> Json:
    """Do something to an experiment, and show what it is then."""
    await desk.change(name, work)
    return Json(await desk.look(name, "show", _shown(desk)))


def _shape(desk: Desk) -> Callable[[Experiment], Any]:
    return lambda experiment: shapes.experiment(experiment, desk.lab.model_name(experiment))


def _shown(desk: Desk) -> Callable[[Experiment], bytes]:
    """As JSON at once: of thousands of trials that takes time, too."""
    shape = _shape(desk)
    return lambda experiment: to_json(shape(experiment))


def _check_room(experiment: Experiment) -> None:
    if experiment.observations > schemas.OBSERVATIONS:
        raise StateError(
            f"an experiment takes at most {schemas.OBSERVATIONS} observations here, and this would "
            f"make it {experiment.observations}: begin another, or attach in Python"
        )


def _targets(body: list[Any] | None) -> list[Any] | None:
    if body is None:
        return None
    count = sum(one.count for one in body if not isinstance(one, str))
    if count > schemas.POINTS:
        raise InputError(
            f"a target has at most {schemas.POINTS} points to predict at, got {count}: fewer, "
            "spread out, tell as much"
        )
    return [one if isinstance(one, str) else _prediction(one) for one in body]


def _prediction(one: schemas.Predictions | schemas.Region) -> Any:
    if isinstance(one, schemas.Region):
        return predictions(region=one.region)
    return predictions(at=one.predictions)
