"""The command line. Nothing heavy is imported here: `aline --help` answers at once."""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer

from aline import __version__
from aline.app.commands_landscapes import data as data_commands
from aline.app.commands_landscapes import maps
from aline.app.commands_report import reports
from aline.app.commands_service import service, token
from aline.app.failures import Commands
from aline.app.options import Json, OwnTask, Seed, split_names
from aline.app.terminal import command, program, say, show, silent, suggest, width
from aline.errors import InputError, TaskWarning

if TYPE_CHECKING:
    from aline.model import Model

WORTH_EXPORTING = 120.0  # seconds of training from which on a network is exported

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Adaptive experiments: a network picks the next measurement and gives the posterior.",
    epilog="Start with [bold]aline demo[/bold].",
)
app.add_typer(reports)
app.add_typer(service)
app.add_typer(maps)
app.add_typer(token, name="token")
app.add_typer(data_commands, name="data")


def main() -> None:
    """Run the `aline` command."""
    for stream in (sys.stdout, sys.stderr):  # a terminal without these characters shows "?"
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    warnings.showwarning = _show_warning
    app(prog_name="aline")


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A doubt about a task in one line, as errors are; other warnings as Python shows them."""
    if issubclass(category, TaskWarning):
        say(f"aline: warning: {message}", err=True, fg="yellow")
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"aline {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option(help="Show the traceback of an error.")] = False,
) -> None:
    """Adaptive experiments: a network picks the next measurement and gives the posterior."""


@app.command(epilog="Example: [bold]aline tasks --json[/bold]")
def tasks(as_json: Json = False) -> None:
    """List the built-in tasks."""
    from aline.app.listing import task_blocks, task_rows

    rows = task_rows()
    show(rows, task_blocks(rows, width()), as_json)


@app.command(epilog="Example: [bold]aline models psychometric[/bold]")
def models(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[MODEL]", help="Show all that is known of this one."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the shipped models, a line each, or show the card of one."""
    from aline.app.listing import model_block, model_lines, model_row, model_rows

    if name is not None:
        row = model_row(name)
        show(row, model_block(row, width()), as_json)
        return
    rows = model_rows()
    lines = model_lines(rows, width()) or ["no model is shipped: train one with `aline train`"]
    show(rows, lines, as_json)
    if rows and not as_json:
        say(f"\nAll that is known of one: {program()} models {rows[-1]['model']}", dim=True)


@app.command(epilog="Example: [bold]aline train decay.py:task --budget 5min[/bold]")
def train(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK|FILE.PY:OBJECT|TABLES[:SPACE]",
            help="A built-in task, your own, or recorded tables.",
        ),
    ],
    budget: Annotated[
        str | None,
        typer.Option(help="How long, such as 90s, 5min or 2h.", show_default="the task's own"),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Train this many rounds instead; repeats exactly.")
    ] = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="The folder to write (runs/NAME).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run in the folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run there.")] = False,
    checkpoint: Annotated[
        str, typer.Option(help="How often to save what --resume continues from.")
    ] = "1min",
    initial: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Train this model of the task further."),
    ] = None,
    policy: Annotated[
        Literal["pool", "box"] | None,
        typer.Option(help="Score candidates, or propose a point of the box."),
    ] = None,
    credit: Annotated[
        Literal["immediate", "return", "paired", "pathwise", "information"] | None,
        typer.Option(help="How designs are credited, instead of as suits the task best."),
    ] = None,
    priors: Annotated[
        bool,
        typer.Option("--priors", help="Let experiments choose priors, and know values."),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes that share the work.",
            show_default="one a core, at most 4; one with --rounds",
        ),
    ] = None,
    verdict: Annotated[
        bool | None,
        typer.Option(
            "--verdict/--no-verdict",
            help="End by measuring how well it did, beside other ways to choose designs.",
            show_default="yes with a budget of a minute or more",
        ),
    ] = None,
) -> None:
    """Train a model for a task.

    On several machines: torchrun … -m aline train TASK …
    """
    from aline.app.runs import chosen, measured, prepare, train_into, worker_arguments, worker_count
    from aline.app.subject import task_named
    from aline.engine.export import can_export
    from aline.training import train as work
    from aline.training.claim import claimed
    from aline.training.workers import accompanied, launched, was_restarted

    loaded = task_named(task)
    folder = out or Path("runs") / loaded.spec.name
    resume = resume or was_restarted()
    options: dict[str, Any] = {
        "budget": budget, "rounds": rounds, "seed": seed,
        "resume": resume, "checkpoint": checkpoint,
        **chosen(loaded, policy, credit, initial, priors),
    }  # fmt: skip
    if not launched().is_first:  # only the first worker writes and speaks
        warnings.simplefilter("ignore", TaskWarning)
        work(loaded, out=folder, progress=False, verdict=False, **options)
        return
    count = worker_count(workers, loaded, rounds)
    same = {
        "budget": budget, "rounds": rounds, "seed": seed, "out": folder,
        "checkpoint": checkpoint, "policy": policy, "credit": credit, "initial": initial,
        "priors": priors,
    }  # fmt: skip
    try:
        with claimed(folder):
            prepare(folder, resume=resume, overwrite=overwrite)
            say(f"Training {loaded.spec.name} into {folder} (Ctrl-C stops, --resume continues)")
            with accompanied(count, worker_arguments(task, same, resume=resume)):
                model = train_into(folder, loaded, command(), verdict=verdict, **options)
                if model.training["seconds"] >= WORTH_EXPORTING and can_export():
                    say("Exporting the network for live use: about half a minute")
                    model.export(folder / "graph.onnx")
    except KeyboardInterrupt:
        judged = {} if verdict is None else {"verdict" if verdict else "no-verdict": True}
        again = worker_arguments(task, {**same, "workers": workers, **judged}, resume=True)
        say(f"Stopped: continue with {program()} {shlex.join(again)}", err=True)
        raise typer.Exit(130) from None
    say(f"\nModel: {folder}", bold=True)
    for line in measured(folder, model):
        say(f"  {line}")
    suggest("Try next", _after_training(folder, task))


@app.command(epilog="Example: [bold]aline export psychometric --web study/psychometric[/bold]")
def export(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A shipped model or one you trained.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write.", show_default="graph.onnx beside the weights"),
    ] = None,
    web: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write a folder that web pages run by themselves."),
    ] = None,
) -> None:
    """Write a model's network as an ONNX file, for experiments here and for other languages.

    docs/format.md describes what goes in and what comes out, docs/browser.md the folder for pages.
    """
    from aline import zoo

    loaded = zoo.load(model)
    if web is not None:
        _export_web(loaded, web, out)
        return
    say("Exporting: about half a minute")
    path = loaded.export(out)
    say(f"Written to {path}, {path.stat().st_size / 1e6:.1f} MB")


def _export_web(model: Model, folder: Path, out: Path | None) -> None:
    from aline.app.web import export_web

    if out is not None:
        raise InputError("--out names a file and --web a folder: give one of them")
    for path in export_web(model, folder):
        say(f"Written to {path}")
    say(f'\nIn a page beside it: await aline.load("./{folder.name}/")', dim=True)


@app.command(epilog="Example: [bold]aline evaluate psychometric --episodes 100[/bold]")
def evaluate(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A shipped model or one you trained.")
    ],
    episodes: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="How many simulated experiments.",
            show_default="as many as fit into a minute; 500 for --contrastive and --verdict",
        ),
    ] = None,
    seed: Seed = 0,
    task: OwnTask = None,
    contrastive: Annotated[
        int | None,
        typer.Option(min=1, help="Bound the information gained with so many prior draws instead."),
    ] = None,
    pool: Annotated[
        int | None,
        typer.Option(
            min=1, help="With --contrastive: a fixed pool of so many designs, no repeats."
        ),
    ] = None,
    refined: Annotated[
        bool, typer.Option("--refined", help="Also the posterior that the likelihood refines.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="Also write the result there, as JSON.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Also write a report there, as HTML, and its numbers beside it as JSON."),
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Also keep what it is at the end in the model's card.")
    ] = False,
    verdict: Annotated[
        bool,
        typer.Option(
            "--verdict",
            help="Compare with random designs, a fixed schedule and greedy play instead.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure how good a model is, against the exact posterior where there is one."""
    from aline.app.card import record_in_card, verdict_lines
    from aline.app.scores import (
        MANY,
        bound,
        compare,
        compare_by_step,
        measure,
        more_lines,
        score_lines,
    )
    from aline.app.subject import open_subject
    from aline.evaluation.judge import can_be_judged, with_check

    subject = open_subject(model, task)
    if verdict:
        compared = compare(subject, episodes or MANY, seed, record)
        if output is not None:
            _write_json(output, compared)
        show(compared, verdict_lines(compared), as_json)
        return
    if contrastive is not None and refined:
        raise InputError("--refined is for posteriors, not for bounds: leave out --contrastive")
    if contrastive is not None:
        result, more = bound(subject, contrastive, episodes or MANY, pool, seed), []
    elif pool is not None:
        raise InputError("--pool is for bounds: add --contrastive 1000000")
    else:
        pace = measure(subject, episodes, seed, refined)
        result = pace.result
        again = f"{program()} evaluate {subject.words}"
        more = more_lines(pace, again) if episodes is None else []
    if report is not None and can_be_judged(subject.model) and contrastive is None:
        result |= {"verdict": compare_by_step(subject, pace.seconds, seed)}
    if output is not None:
        _write_json(output, result)
    if report is not None:
        from aline.app.evaluation import write_evaluation  # matplotlib, only when it is needed

        write_evaluation(result, subject.name, report)
    if record:
        record_in_card(with_check(subject.model, subject.task, episodes or 0), result)
    stored = subject.model.measurements.get("verdict")
    show(result, [*score_lines(result), *more, *verdict_lines(stored)], as_json)
    if output is not None and not as_json:
        say(f"\nWritten to {output}")


@app.command(epilog="Example: [bold]aline bench psychometric --quick[/bold]")
def bench(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME|all]", help="Which one; without, list them.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Argument(metavar="[TASK]...", help="The same as --tasks.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="About a minute, to see it work.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Of all: as long as it takes; call it again to go on.")
    ] = False,
    part: Annotated[
        list[str] | None, typer.Option(help="Run this part only; may be repeated.")
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(min=2, help="Simulated experiments, instead of its own number.")
    ] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Only these of its tasks, separated by commas.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Only these of its methods, separated by commas.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Training time of each method that learns, such as 30min.")
    ] = None,
    models: Annotated[
        Path | None, typer.Option(help="The folder of trained models that protocols measures.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="The folder of tables that hpo reads.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Methods measured at once.")] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Take what an earlier run has measured already.")
    ] = False,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="The folder for its files.")] = Path("results"),
    as_json: Json = False,
) -> None:
    """Measure against the methods it is compared with; write a result, a table and figures."""
    from aline.app.bench import BENCHES

    if name is None:
        lines = [f"{each:<14}{what}" for each, what in BENCHES.items()]
        show(BENCHES, lines, as_json)
        return
    from aline.app.bench import find
    from aline.app.bench.bench import BenchSettings
    from aline.app.bench.run import completed, progress_bar, run_bench, stem, write_bench

    chosen = _names(tasks) or tuple(only or ()) or None
    settings = BenchSettings(
        quick, seed, episodes, chosen, _names(methods), budget, jobs, resume,
        models=models, data=data,
    )  # fmt: skip
    if name == "all":
        if quick == full:
            raise InputError("say --quick, for about a quarter of an hour, or --full, for nights")
        from aline.app.bench.everything import run_everything

        with progress_bar() as progress:
            page = run_everything(settings, out, progress, silent if as_json else say)
        show({"page": str(page)}, [f"\nThe paper beside ours: {page}"], as_json)
        return
    if full:
        raise InputError("--full is for `aline bench all`: leave it out")
    each = find(name)
    with progress_bar() as progress:
        measured = run_bench(each, settings, part, progress)
    label = stem(each, settings, part)
    measured = completed(measured, out / f"{label}.json", settings, each.by_task)
    files = write_bench(each, measured, out, label)
    show(measured, [each.markdown(measured)], as_json)
    if not as_json:
        say("\nWritten: " + ", ".join(map(str, files)))


def _write_json(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def _names(text: str | None) -> tuple[str, ...] | None:
    names = split_names(text)
    return None if names is None else tuple(names)


def _after_training(folder: Path, task: str) -> dict[str, str]:
    own = f" --task {task}" if ".py" in task else ""
    return {
        f"demo {folder}{own}": "watch it run an experiment",
        f"evaluate {folder}{own}": "how good it is",
    }
