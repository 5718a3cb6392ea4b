"""The commands that end in a report: a demonstration, and an experiment that was run."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aline.app.options import Json, OwnTask, Seed, split_names
from aline.app.terminal import command, say, silent, suggest, width
from aline.errors import InputError, StateError

if TYPE_CHECKING:
    from aline.app.demo import Demo
    from aline.app.subject import Subject

reports = typer.Typer()  # its commands are the program's own: `aline demo`
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a report that is there.")]


@reports.command(
    epilog="Example: [bold]aline demo psychometric --target guess,lapse --seed 3[/bold]"
)
def demo(
    model: Annotated[
        str, typer.Argument(metavar="[TASK|FOLDER]", help="A shipped model or one you trained.")
    ] = "psychometric",
    target: Annotated[
        str | None, typer.Option(help="Parameters to aim at, separated by commas.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="How many trials; by default the task's horizon.")
    ] = None,
    seed: Seed = 0,
    task: OwnTask = None,
    report: Annotated[
        Path | None, typer.Option(help="Where to write the report (aline-report-NAME.html).")
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    overwrite: Overwrite = False,
    web: Annotated[
        bool, typer.Option("--web", help="Open a page that runs it by itself instead.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run an experiment on a simulated participant and write a report."""
    if web:
        _demo_in_a_page(model, target, trials, report, as_json)
        return
    from aline.app.demo import run_demo
    from aline.app.screen import DemoScreen
    from aline.app.subject import open_subject

    subject = open_subject(model, task)
    place = None if no_report else _report_path(report, subject.model.spec.name, overwrite)
    aims = split_names(target)
    screen = DemoScreen(subject.model.spec, aims, silent if as_json else say, width())
    done = run_demo(subject, target=aims, trials=trials, seed=seed, on_step=screen.show)
    screen.close(done)
    if place is not None:
        from aline.app.report import write_report  # matplotlib, only when it is needed

        write_report(done, place, command())
    if as_json:
        say(json.dumps({**done.to_json(), "report": None if place is None else str(place)}))
        return
    if place is not None:
        say(f"\nReport: {place.resolve()}")
    suggest("Try next", _after_demo(subject, done))


@reports.command(epilog="Example: [bold]aline report sqlite:///lab.db participant-7[/bold]")
def report(
    storage: Annotated[
        str,
        typer.Argument(
            metavar="STORAGE", help="Where it is kept, a URL, or the JSON file that a page gave."
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Which experiment, if there are several."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write.", show_default="aline-report-NAME.html"),
    ] = None,
    task: OwnTask = None,
    model: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Its model, if that was moved.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write the report of an experiment that was run: figures, tables and every trial."""
    from aline import zoo
    from aline.app.record import record_of
    from aline.app.taskfile import load_task
    from aline.experiment import Experiment

    found = Experiment.resume(storage, name, None if model is None else zoo.load(model))
    own = None if task is None else load_task(task)
    place = _report_path(out, found.name, overwrite)

    from aline.app.report import write_report  # matplotlib, only when it is needed

    write_report(record_of(found, own), place, command())
    say(f"Report: {place.resolve()}")


def _demo_in_a_page(model: str, *others: object) -> None:
    from aline import zoo
    from aline.app.web_demo import run_web_demo

    if any(one not in (None, False) for one in others):
        raise InputError("--web opens a page with settings of its own: leave out other options")
    run_web_demo(zoo.load(model), say)


def _report_path(wanted: Path | None, name: str, overwrite: bool) -> Path:
    """Where a report goes; one that is there stays, unless that is said."""
    place = wanted or Path(f"aline-report-{name}.html")
    if overwrite or not place.exists():
        return place
    if wanted is not None:
        raise StateError(
            f"{place} is there already: add --overwrite to replace it, or choose another name"
        )
    numbered = (place.with_stem(f"{place.stem}-{number}") for number in count(2))
    return next(path for path in numbered if not path.exists())


def _after_demo(subject: Subject, done: Demo) -> dict[str, str]:
    """What to try next, and why."""
    words = subject.words
    goals = [names for names, _ in done.spec.targets if set(names) <= set(done.truth)]
    other = next((names for names in goals if set(names) != set(done.target)), None)
    seed = f" --seed {done.seed}" if done.seed else ""
    again = (
        {f"demo {words} --target {','.join(other)}{seed}": "the same truth, another question"}
        if other
        else {f"demo {words} --seed {done.seed + 1}": "another truth"}
    )
    example = Path("examples/decay.py")
    own = (
        {f"train {example}:task --budget 5min": "train for an experiment of your own"}
        if example.is_file() and subject.task_reference is None
        else {"tasks": "what else there is"}
    )
    return {**again, f"evaluate {words}": "how good the model is", **own}
