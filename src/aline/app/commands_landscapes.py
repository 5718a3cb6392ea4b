"""Commands about landscapes: how the settings of a model family do on data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from aline.app.options import Json, Seed
from aline.app.terminal import command, say, show, silent, suggest
from aline.errors import InputError

maps = typer.Typer()  # its command is the program's own: `aline map-landscape`
data = typer.Typer(help="Make tables to learn from.", no_args_is_help=True)


@data.callback()
def _data() -> None:
    """Make tables to learn from."""


@data.command(
    epilog="Example: [bold]aline data landscapes --families svm --configurations 150[/bold]"
)
def landscapes(
    families: Annotated[
        str, typer.Option(help="Model families, separated by commas.")
    ] = "decision_tree,svm,random_forest,gradient_boosting",
    data_sets: Annotated[
        str | None, typer.Option(help="Data sets, separated by commas.", show_default="all")
    ] = None,
    configurations: Annotated[int, typer.Option(min=2, help="Of each family.")] = 150,
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("landscapes"),
    jobs: Annotated[int, typer.Option(help="Processes; -1 is one a core.")] = -1,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure model families by cross-validation on scikit-learn's data sets.

    One CSV file a data set. The same command again goes on where it was cut off.
    """
    from aline.app.bench.run import progress_bar
    from aline.landscapes.families import family_named
    from aline.landscapes.measure import DATA_SETS, measure_landscapes

    chosen = [family_named(name.strip()) for name in families.split(",")]
    names = list(DATA_SETS) if data_sets is None else [n.strip() for n in data_sets.split(",")]
    with progress_bar() as progress:
        files = measure_landscapes(
            out, chosen, names, configurations, jobs=jobs, seed=seed, progress=progress
        )
    show([str(file) for file in files], [f"{len(files)} tables in {out}"], as_json)
    if not as_json:
        suggest("Try next", {f"train {out / chosen[0].name}": "learn what they have in common"})


@maps.command(
    "map-landscape",
    epilog="Example: [bold]aline map-landscape --space ranger --evaluate my_script.py[/bold]",
)
def map_landscape(
    evaluate: Annotated[
        str,
        typer.Option(
            metavar="FILE.PY[:FUNCTION]",
            help="Has evaluate(configuration), which takes a dict and returns a score.",
        ),
    ],
    space: Annotated[
        str | None,
        typer.Option(help="rpart, svm, ranger, xgboost, a family of `data landscapes`, or JSON."),
    ] = None,
    candidates: Annotated[
        Path | None, typer.Option(help="A table of configurations instead: CSV or Parquet.")
    ] = None,
    queries: Annotated[int, typer.Option(min=2, help="Scores in all.")] = 30,
    count: Annotated[int, typer.Option(min=2, help="Configurations drawn from the space.")] = 500,
    model: Annotated[
        Path | None, typer.Option(help="A model trained on such tables.", show_default="none")
    ] = None,
    lower_is_better: Annotated[
        bool, typer.Option("--lower-is-better", help="Scores are losses.")
    ] = False,
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("landscape"),
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Score the most telling configurations, and predict the scores of all others.

    Every score is on disk before the next configuration is tried. The same command again goes on.
    """
    from aline.app.landscape.evaluation import load_evaluation
    from aline.app.landscape.journal import Journal
    from aline.app.landscape.run import (
        explore,
        explorer_for,
        findings,
        frame_of,
        read_candidates,
    )  # fmt: skip
    from aline.landscapes.spaces import configurations

    if (space is None) == (candidates is None):
        raise InputError("name what can be tried, by either --space or --candidates")
    rows = read_candidates(candidates) if candidates else configurations(str(space), count, seed)
    scored, frame = load_evaluation(evaluate), frame_of(rows)
    journal = Journal.at(out, rows)
    explorer, by = explorer_for(frame, model, space, seed)
    speak = silent if as_json else say
    explore(journal, explorer, scored, queries, seed, _teller(queries, speak))
    found = findings(journal, frame, explorer, lower_is_better)
    facts = {"command": command(), "predicted by": by, "seed": str(seed)}
    page = _write_map(out, found, journal, facts, space or str(candidates))
    show({**found.to_json(), "report": str(page)}, ["", *found.lines(), "", str(page)], as_json)


def _teller(queries: int, speak: Any) -> Any:
    """Says each score."""
    from aline.app.landscape.findings import described

    def told(number: int, configuration: Any, score: float) -> None:
        used = {name: value for name, value in configuration.items() if value is not None}
        speak(f"{number:3d}/{queries}  {score:.6g}  {described(used)}")

    return told


def _write_map(out: Path, found: Any, journal: Any, facts: dict[str, str], space: str) -> Path:
    from aline.app.landscape.page import write_page  # matplotlib, only when it is needed

    return write_page(found, journal, out / "landscape.html", facts, f"The landscape of {space}")
