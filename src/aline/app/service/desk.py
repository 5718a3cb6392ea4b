"""Where requests meet experiments; nothing here makes the event loop wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, Literal, NamedTuple, TypeVar, cast

from aline.app.service import shapes
from aline.app.service.aside import Aside, timed
from aline.app.service.chooser import Chooser
from aline.app.service.costs import Costs
from aline.app.service.garbage import Garbage
from aline.app.service.lab import Lab, Place
from aline.app.service.lately import Lately
from aline.app.service.metrics import Metrics
from aline.app.service.pools import BusyError, Pool
from aline.app.service.replies import Json
from aline.app.service.scribe import Scribe
from aline.app.service.settings import Settings
from aline.app.service.streams import Streams
from aline.errors import StateError, StorageError, UserError
from aline.experiment import Experiment, Trial
from aline.experiment.foresight import foresee, recall
from aline.experiment.storage import Conflict, Draft
from aline.experiment.storage.base import lost

Result = TypeVar("Result")
Call = Literal["ask", "tell"]  # what every trial makes
Look = Literal["show", "page", "posterior", "predict", "export"]  # each has costs of its own

LONG = 0.02  # seconds of computing that may hold the event loop
SMALL = 100  # observations, open trials and points: what no model needs long or much memory for
HUGE = 0.2  # seconds for which something of a larger one is computed in a thread, to be shown
BEHIND = 2  # observations since the last ask, with which the next one is no more work than it was
ATTEMPTS = 100  # at a change, when other processes write to the same experiment
STORAGE_SECONDS = 5.0  # for what a database does in milliseconds
BEAT_SECONDS = 1.0  # between checks that the storage answers
WAITING = 200  # requests for one kind of thread; of large work, 8


class Task(NamedTuple):
    """Something to do to an experiment."""

    work: Callable[[Experiment], Any]
    call: Call | None  # if it is one of those
    asks: bool  # whether a design has to be chosen for it
    added: int  # how many observations come with it


class Desk:
    """Does what requests ask for, each in the place that its size demands.

    Trials that are known to take a few milliseconds are computed on the event loop itself: they are
    mostly operations so small that handing them to a thread, and Python's lock back and forth at
    each, would double that. What is not known to be so quick gets a thread, what may be large a
    process. What asks at the same moment have to choose is left to the chooser, what trials leave
    to be written to the scribe.
    """

    def __init__(self, lab: Lab, settings: Settings, metrics: Metrics):
        self.lab, self.metrics = lab, metrics
        self.streams = Streams(self._lengths, settings.streams, metrics)
        silent = lab.storage.answer_seconds
        self.count = Lately(lab.storage.count, fresh=0.0, silent=silent)  # of experiments
        lab.on_change = self.streams.changed
        self._settings = settings
        self._chooser, self._costs, self._garbage = Chooser(), Costs(), Garbage()
        self._beating: asyncio.Task[None] | None = None
        self._open_pools()

    def _open_pools(self) -> None:
        limits: dict[str, Any] = {
            "seconds": self._settings.work_seconds,
            "most_bytes": self._settings.work_bytes,
            "waiting": 8,
        }
        # What a participant waits for, what opens and lists, what draws, what takes in much data:
        # none of them waits for another.
        self._quick = Pool("quick", 2, WAITING, self.count.watch)
        self._slow = Pool("slow", 2, WAITING, self.count.watch)
        self._drawing = Pool("drawing", 2, WAITING)
        self._taking_in = Pool("taking in", 2, 8)
        self._aside, self._refining = Aside("large", **limits), Aside("refining", **limits)
        self._scribe = Scribe(
            self.lab.storage, lambda written: self.count.watch(written, STORAGE_SECONDS)
        )

    def start(self) -> None:
        """Begin to watch the storage, in the running loop."""
        self.streams.start()
        self._garbage.start()
        self._beating = asyncio.get_running_loop().create_task(self._beat())

    async def _beat(self) -> None:
        """Look whether the storage answers, and after the memory, as long as the service runs."""
        while True:
            self.count.touch()
            self._garbage.collect()
            with suppress(UserError):
                await self._slow.run(self.lab.tidy, self._settings.kept_bytes)
            await asyncio.sleep(BEAT_SECONDS)

    async def quick(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Work of a few milliseconds."""
        return await self._with_storage(self._quick, work, *arguments)

    async def slow(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Work that a participant must not wait for."""
        return await self._with_storage(self._slow, work, *arguments)

    async def _with_storage(
        self, pool: Pool, work: Callable[..., Result], *arguments: Any
    ) -> Result:
        """Work in a thread that a storage which stands still would not give back."""
        self._check_storage()
        return await pool.run(work, *arguments)

    def _check_storage(self) -> None:
        """Refuse at once what would wait for a storage that stands still."""
        if self.count.is_stuck and self.count.problem is not None:
            raise self.count.problem

    async def moment(self, name: str) -> Experiment:
        """An experiment as the storage has it now."""
        await self._open(name)
        return await self.quick(self.lab.look, name)

    async def look(self, name: str, kind: Look, work: Callable[[Experiment], Result]) -> Result:
        """Show something of an experiment as the storage has it now."""
        place = await self._open(name)
        if place.experiment.size <= SMALL:
            return await self.quick(lambda: work(self.lab.look(name)))
        return await self.compute(await self.moment(name), kind, work)

    async def compute(
        self, moment: Experiment, kind: Look, work: Callable[[Experiment], Result]
    ) -> Result:
        """Compute something that is to be shown, in a process of its own if it may be large."""
        if self._is_huge(moment, kind):
            found, seconds = await self._aside.run(work, moment)
        else:
            found, seconds = await self._quick.run(timed, work, moment)
        self._costs.learn(_what(moment, kind), moment.size, seconds)
        return found

    async def draw(self, name: str, work: Callable[[Experiment], Result]) -> Result:
        """Show all of an experiment's history, which is kept for the next time if it can be."""
        place, moment = await self._open(name), await self.moment(name)
        if self._is_huge(moment, "page"):  # as is then every posterior on the way
            return (await self._aside.run(work, moment))[0]
        async with place.drawing:  # the history of one is computed once
            return await self._drawing.run(work, moment)

    async def refine(self, name: str, work: Callable[[Experiment], Result]) -> Result:
        """Work of seconds, one at a time: it must not take the place of what others need."""
        return (await self._refining.run(work, await self.moment(name)))[0]

    def _is_huge(self, experiment: Experiment, call: str) -> bool:
        size = experiment.size
        return size > SMALL and self._costs.guess(_what(experiment, call), size) > HUGE

    async def change(
        self,
        name: str,
        work: Callable[[Experiment], Result],
        call: Call | None = None,
        *,
        asks: bool = False,
        added: int = 0,
    ) -> Result:
        """Do something to an experiment; it is on disk when this returns.

        If another process was first, look at what it did and decide again. Other calls than "ask"
        may have a design to choose, too, and `added` observations to take in.
        """
        place, task = await self._open(name), Task(work, call, asks or call == "ask", added)
        async with place.turn:
            for _ in range(ATTEMPTS):
                before = place.experiment
                try:
                    return cast(Result, await self._try(place, task))
                except (StorageError, BusyError):
                    raise
                except UserError as error:  # which may be news to this process only
                    await self.quick(self.lab.look, name)
                    if place.experiment.sequence == before.sequence:
                        raise (lost(name) if isinstance(error, Conflict) else error) from None
        raise StateError(f"other processes kept writing to experiment {name!r}: try again later")

    async def _try(self, place: Place, task: Task) -> Any:
        """Do it to a copy, write what the copy drafted, put the copy in its place."""
        self._check_storage()
        draft = Draft()
        copy = place.experiment.snapshot(draft)
        what, size = _what(copy, task.call or "other", _is_behind(place, copy)), copy.size
        result, seconds = await self._do(copy, task, self._costs.guess(what, size))
        addition = draft.addition(copy.name)
        if addition is not None:  # else it was a repeat, whose cost says nothing
            self._costs.learn(what, size, seconds)
            place.note(task.call, copy.observations)
            await self._scribe.write(addition)
            self.lab.advance(place, copy.snapshot(self.lab.storage))
        return result

    async def _do(self, copy: Experiment, task: Task, cost: float) -> tuple[Any, float]:
        """Compute it, where its cost allows; the seconds that this took."""
        seconds = await self._foresee(copy, task, cost)
        if task.call is not None and cost <= LONG:
            result, more = timed(task.work, copy)
        else:
            result, more = await self._apart(copy, task)
        return result, seconds + more

    async def _foresee(self, copy: Experiment, task: Task, cost: float) -> float:
        """Have the design chosen, or more, before the work itself; the seconds of computing."""
        if task.call == "ask" and cost <= LONG and copy.shares_a_pass:
            return await self._chooser.choose(copy, cost)
        # In a thread it would leave behind, with this experiment, all that it computed with.
        is_large = copy.size > SMALL and cost > LONG
        if not (is_large and (task.asks or copy.stop)):
            return 0.0
        foreseen, seconds = await self._aside.run(foresee, copy, task.asks)
        recall(copy, foreseen)
        return seconds

    async def _apart(self, copy: Experiment, task: Task) -> tuple[Any, float]:
        """Work in a thread: much data must not take one that others wait for."""
        pool = self._quick if copy.size + task.added <= SMALL else self._taking_in
        return await self._with_storage(pool, timed, task.work, copy)

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
        self._garbage.called()
        place = self.lab.at_hand(name)
        if place is not None:
            return place
        events = await self.slow(self.lab.read, name)
        pool = self._slow if _data(events) <= SMALL else self._taking_in
        return await pool.run(self.lab.open, name, events[0])

    def _lengths(self, names: list[str]) -> Any:
        return self.slow(self.lab.storage.lengths, names)

    async def stop(self) -> None:
        """Let go of who listens, of the threads, and of what is being computed.

        An application that is started again gets new ones.
        """
        if self._beating is not None:
            self._beating.cancel()
        self._garbage.stop()
        await self.streams.stop()
        self._scribe.close()
        for pool in (self._quick, self._slow, self._drawing, self._taking_in):
            pool.close()
        for aside in (self._aside, self._refining):
            aside.close()
        await self.count.close()
        self.lab.forget()
        self._open_pools()


def _what(experiment: Experiment, call: str, is_behind: bool = False) -> Hashable:
    return experiment.source, experiment.spec.name, call, is_behind


def _is_behind(place: Place, copy: Experiment) -> bool:
    """Whether much has to be computed that an ask a moment ago would have left behind."""
    return place.asked_with is None or copy.observations - place.asked_with > BEHIND


def _data(events: list[dict[str, Any]]) -> int:
    """How many observations and points a journal brings."""
    created = events[0] if events else {}
    points = sum(
        len(next(iter(one.get("predictions", {}).values()), []))
        for one in created.get("target", [])
        if isinstance(one, dict)
    )
    return points + sum(len(event.get("outcomes", "1")) for event in events)
