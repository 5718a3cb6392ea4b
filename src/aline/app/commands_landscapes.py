"""Commands about landscapes: how the settings of a model family do on data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aline.app.options import Json, Seed
from aline.app.terminal import show, suggest

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
