"""The API under /api/v1."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from aline.app.service import exports, schemas, shapes
from aline.app.service.chooser import Chooser
from aline.app.service.drawing import draw
from aline.app.service.guard import Refusal
from aline.app.service.lab import Desk as Place
from aline.app.service.lab import Lab
from aline.app.service.metrics import Metrics
from aline.app.service.scribe import Scribe
from aline.app.service.shortcut import KEY
from aline.app.service.streams import Streams
from aline.episodes import predictions
from aline.errors import InputError, StateError, StorageError, UserError
from aline.experiment import Experiment, Trial
from aline.experiment.storage import Conflict, Draft
from aline.experiment.storage.base import lost
from aline.spaces import Design

Result = TypeVar("Result")
Call = Literal["ask", "tell"]  # what every trial makes

# What takes long has threads of its own, so that a page does not wait for it.
QUICK, SLOW = 2, 2
LONG = 0.02  # seconds that a trial may hold the event loop
ATTEMPTS = 100  # at a change, when other processes write to the same experiment

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
        409: "The right call at the wrong moment, such as telling a trial twice.",
        413: "Too large.",
        415: "The body is not application/json.",
        422: "A value that breaks a rule.",
        429: "Too many requests.",
        503: "The database cannot be reached.",
    }.items()
}


class Json(JSONResponse):
    """JSON that any reader takes: no NaN, and nothing but ASCII."""

    def render(self, content: Any) -> bytes:
        """As bytes."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


class Desk:
    """Where requests meet experiments; nothing here makes the event loop wait.

    Trials are computed on the event loop itself: they take a millisecond or two, mostly in
    operations so small that handing them to a thread, and Python's lock back and forth at each,
    would double that. Those of a heavy model, which the last one tells, get a thread. What asks at
    the same moment have to choose is left to the chooser, what trials leave to be written to the
    scribe.
    """

    def __init__(self, lab: Lab, streams_most: int, metrics: Metrics):
        self.lab, self.metrics = lab, metrics
        self.streams = Streams(self._lengths, streams_most, metrics)
        lab.on_change = self.streams.changed
        self._chooser = Chooser()
        self._open_pools()

    def _open_pools(self) -> None:
        self._quick = ThreadPoolExecutor(QUICK, "quick")
        self._slow = ThreadPoolExecutor(SLOW, "slow")
        self._refining = ThreadPoolExecutor(1, "refining")
        self._scribe = Scribe(self.lab.storage)

    async def quick(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Work of a few milliseconds."""
        return await asyncio.get_running_loop().run_in_executor(self._quick, work, *arguments)

    async def slow(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Work that a participant must not wait for."""
        return await asyncio.get_running_loop().run_in_executor(self._slow, work, *arguments)

    async def refine(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Work of seconds, one at a time: it must not take the threads that others need."""
        return await asyncio.get_running_loop().run_in_executor(self._refining, work, *arguments)

    async def look(self, name: str, work: Callable[[Experiment], Result]) -> Result:
        """Show something of an experiment as the storage has it now."""
        await self._open(name)
        return await self.quick(lambda: work(self.lab.look(name)))

    async def change(
        self, name: str, work: Callable[[Experiment], Result], call: Call | None = None
    ) -> Result:
        """Do something to an experiment; it is on disk when this returns.

        If another process was first, look at what it did and decide again.
        """
        desk = await self._open(name)
        async with desk.turn:
            for _ in range(ATTEMPTS):
                before = desk.experiment
                try:
                    return await self._try(desk, work, call)
                except StorageError:
                    raise
                except UserError as error:  # which may be news to this process only
                    await self.quick(self.lab.look, name)
                    if desk.experiment.sequence == before.sequence:
                        raise (lost(name) if isinstance(error, Conflict) else error) from None
        raise StateError(f"other processes kept writing to experiment {name!r}: try again later")

    async def _try(
        self, desk: Place, work: Callable[[Experiment], Result], call: Call | None
    ) -> Result:
        """Do it to a copy, write what the copy drafted, put the copy in its place."""
        draft = Draft()
        copy = desk.experiment.snapshot(draft)
        is_light = call is not None and desk.took.get(call, 0.0) < LONG
        together = is_light and call == "ask" and copy.shares_a_pass
        chose = await self._chooser.choose(copy) if together else 0.0
        began = time.perf_counter()
        result = work(copy) if is_light else await self.quick(work, copy)
        if call is not None:
            desk.took[call] = chose + time.perf_counter() - began
        addition = draft.addition(copy.name)
        if addition is not None:
            await self._scribe.write(addition)
            self.lab.advance(desk, copy.snapshot(self.lab.storage))
        return result

    async def trial(
        self,
        name: str,
        event: str,
        work: Callable[[Experiment], Trial],
        call: Call | None = None,
    ) -> Json:
        """Do something to a trial, count it, show the trial."""
        found = await self.change(name, work, call)
        self.metrics.trials.labels(event).inc()
        return Json(shapes.trial(found), 201 if event == "asked" else 200)

    async def _open(self, name: str) -> Place:
        desk = self.lab.at_hand(name)
        return await self.slow(self.lab.desk, name) if desk is None else desk

    def _lengths(self, names: list[str]) -> Any:
        return self.slow(self.lab.storage.lengths, names)

    def close(self) -> None:
        """Let the threads go; an application that is started again gets new ones."""
        self._scribe.close()
        for pool in (self._quick, self._slow, self._refining):
            pool.shutdown(wait=False, cancel_futures=True)
        self.lab.forget()
        self._open_pools()


def desk_of(request: Request) -> Desk:
    """The desk of the application that a request came to."""
    desk: Desk = request.app.state.desk
    return desk


# Routes are tried in this order. Those of trials have a shortcut.
trials = APIRouter(prefix="/api/v1", responses=_FAILURES)
api = APIRouter(prefix="/api/v1", responses=_FAILURES)


@trials.post(
    "/experiments/{name}/ask", response_model=schemas.Trial, status_code=201, tags=["trials"]
)
async def ask(request: Request, name: Name, key: Key = None) -> Response:
    """The next trial. Several may be open at a time."""
    return await desk_of(request).trial(name, "asked", lambda e: e.ask(key=key), "ask")


@trials.post(
    "/experiments/{name}/trials/{number}/tell", response_model=schemas.Trial, tags=["trials"]
)
async def tell(
    request: Request, name: Name, number: Number, body: schemas.Tell, key: Key = None
) -> Response:
    """What a trial gave. It is on disk when the reply comes."""
    return await desk_of(request).trial(
        name, "told", lambda e: e.tell(number, body.outcome, body.design, key=key), "tell"
    )


@api.get("/models", response_model=schemas.Models, tags=["models"])
async def list_models(request: Request) -> Response:
    """The models that experiments can be started with."""
    desk = desk_of(request)

    def work() -> list[Any]:
        return shapes.models(desk.lab)

    return Json({"models": await desk.slow(work)})


@api.post("/experiments", response_model=schemas.Experiment, status_code=201, tags=["experiments"])
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
        )
        return _shape(desk)(experiment)

    shape = await desk.slow(work)
    desk.metrics.experiments.set(len(lab))
    return Json(shape, 201, {"location": f"/api/v1/experiments/{quote(shape['name'], safe='')}"})


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
        shown = [shapes.summary(desk.lab.storage, n) for n in names[start : start + limit]]
        return {"experiments": shown, "total": len(names)}

    return Json(await desk.slow(work))


@api.get("/experiments/{name}", response_model=schemas.Experiment, tags=["experiments"])
async def show(request: Request, name: Name) -> Response:
    """An experiment with all its trials."""
    desk = desk_of(request)
    return Json(await desk.look(name, _shape(desk)))


@api.patch("/experiments/{name}", response_model=schemas.Experiment, tags=["experiments"])
async def change(request: Request, name: Name, body: schemas.Change) -> Response:
    """Aim at something else, or plan more or fewer trials, from now on."""
    desk = desk_of(request)

    def work(experiment: Experiment) -> Any:
        targets = _targets(body.target)
        if targets is not None:
            experiment.target = targets
        if body.horizon is not None:
            experiment.horizon = body.horizon
        if body.stop is not None:
            experiment.stop = body.stop
        return _shape(desk)(experiment)

    return Json(await desk.change(name, work))


@api.post("/experiments/{name}/close", response_model=schemas.Experiment, tags=["experiments"])
async def close(request: Request, name: Name) -> Response:
    """End an experiment for good; what it holds stays."""
    desk = desk_of(request)

    def work(experiment: Experiment) -> Any:
        experiment.close()
        return _shape(desk)(experiment)

    return Json(await desk.change(name, work))


@api.post(
    "/experiments/{name}/trials/{number}/abandon", response_model=schemas.Trial, tags=["trials"]
)
async def abandon(request: Request, name: Name, number: Number, key: Key = None) -> Response:
    """Give a trial up; if it was told, its outcome leaves the posterior."""
    return await desk_of(request).trial(name, "abandoned", lambda e: e.abandon(number, key=key))


@api.post(
    "/experiments/{name}/trials/{number}/redo",
    response_model=schemas.Trial,
    status_code=201,
    tags=["trials"],
)
async def redo(request: Request, name: Name, number: Number, key: Key = None) -> Response:
    """Ask a trial's design again, as a new trial."""
    return await desk_of(request).trial(name, "asked", lambda e: e.redo(number, key=key))


@api.post(
    "/experiments/{name}/undo", response_model=schemas.Trial, status_code=201, tags=["trials"]
)
async def undo(request: Request, name: Name, key: Key = None) -> Response:
    """Take the last told trial back and ask it again, in place of those that are open."""
    return await desk_of(request).trial(name, "asked", lambda e: e.undo(key=key))


@api.post("/experiments/{name}/attach", response_model=schemas.Trials, tags=["trials"])
async def attach(request: Request, name: Name, body: schemas.Attach, key: Key = None) -> Response:
    """Add data measured earlier."""
    desk = desk_of(request)
    trials = await desk.change(name, lambda e: e.attach(body.designs, body.outcomes, key=key))
    return Json({"trials": [shapes.trial(one) for one in trials]})


@api.post("/experiments/{name}/restrict", response_model=schemas.Experiment, tags=["trials"])
async def restrict(request: Request, name: Name, body: schemas.Restrict) -> Response:
    """Say which designs may be asked from now on."""
    desk = desk_of(request)
    if body.candidates is not None and body.box is not None:
        raise InputError("a restriction is candidates or a box, got both: send one")

    def work(experiment: Experiment) -> Any:
        box = None if body.box is None else _box(body.box)
        allowed: Any = body.candidates if body.candidates is not None else box
        experiment.restrict(allowed, repeats=body.repeats)
        return _shape(desk)(experiment)

    return Json(await desk.change(name, work))


@api.post("/experiments/{name}/simulate", response_model=schemas.Trial, tags=["trials"])
async def simulate(request: Request, name: Name) -> Response:
    """One trial answered by the experiment's simulated participant."""
    desk = desk_of(request)
    return Json(shapes.trial(await desk.change(name, desk.lab.simulate)))


@api.get("/experiments/{name}/posterior", response_model=schemas.Posterior, tags=["results"])
async def posterior(
    request: Request, name: Name, level: Level = 0.95, refined: Refined = False
) -> Response:
    """What is known about the parameters."""

    desk = desk_of(request)
    seen = await desk.look(name, Experiment.snapshot)

    def work() -> Any:
        found = seen.refined() if refined else seen.posterior()
        return shapes.posterior(found, seen.sequence, level)

    return Json(await (desk.refine(work) if refined else desk.quick(work)))


@api.post("/experiments/{name}/predict", response_model=schemas.Predictive, tags=["results"])
async def predict(request: Request, name: Name, body: schemas.Predict) -> Response:
    """What would be measured at designs."""

    def work(experiment: Experiment) -> Any:
        return experiment.predict(body.designs).summary(body.level)

    return Json(await desk_of(request).look(name, work))


@api.get("/experiments/{name}/drawing", tags=["results"])
async def drawing(request: Request, name: Name) -> Response:
    """The numbers behind the page's plots."""
    desk = desk_of(request)
    return Json(await desk.slow(draw_now, desk.lab, name))


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
        Literal["json", "csv", "netcdf"], Query(description="netcdf is for ArviZ.")
    ] = "json",
) -> Response:
    """The experiment as a file: everything, the trials, or draws from the posterior."""
    desk, lab = desk_of(request), desk_of(request).lab

    def work() -> bytes:
        experiment = lab.look(name)
        return exports.export(experiment, lab.storage, lab.model_name(experiment), format)

    content = await desk.slow(work)
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
    desk = desk_of(request)
    if desk.streams.is_full:
        raise Refusal(429, "too many live updates are open: close some, or ask now and then")
    sequence = await desk.look(name, lambda e: e.sequence)
    return StreamingResponse(
        desk.streams.listen(name, sequence),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


def draw_now(lab: Lab, name: str) -> Any:
    """The numbers behind the page's plots; trials go on meanwhile."""
    moment = lab.look(name)
    with lab.desk(name).drawing:
        return draw(moment, lab.observer(moment))


def _shape(desk: Desk) -> Callable[[Experiment], Any]:
    return lambda experiment: shapes.experiment(experiment, desk.lab.model_name(experiment))


def _targets(body: list[Any] | None) -> list[Any] | None:
    if body is None:
        return None
    return [one if isinstance(one, str) else _prediction(one) for one in body]


def _box(bounds: dict[str, list[float]]) -> Design:
    """Bounds by name; not Box(**bounds), as a client's names may be anything, even self."""
    low, high = ([pair[end] for pair in bounds.values()] for end in (0, 1))
    return Design(tuple(bounds), low, high)


def _prediction(one: schemas.Predictions | schemas.Region) -> Any:
    if isinstance(one, schemas.Region):
        return predictions(region=_box(one.region))
    return predictions(at=one.predictions)
