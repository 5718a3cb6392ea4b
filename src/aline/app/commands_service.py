"""The commands about the service: to run it, to copy its storage, and who may use it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aline.app.options import Json
from aline.app.terminal import say, show
from aline.errors import UserError

service = typer.Typer()  # its commands are the program's own: `aline serve`
token = typer.Typer(no_args_is_help=True, help="Who may use `aline serve` from elsewhere.")

OWN_STORAGE = "sqlite:///aline.db"
TokenName = Annotated[str, typer.Argument(help="Whose or what it is for, such as tablet.")]
TokenStorage = Annotated[str, typer.Option(metavar="URL", help="The service's storage.")]


@service.command(epilog="Example: [bold]aline serve --demo[/bold]")
def serve(
    storage: Annotated[
        str | None, typer.Option(metavar="URL", help="Where experiments are kept.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address; all but this machine's own need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
    demo: Annotated[
        bool, typer.Option("--demo", help="Begin with a simulated experiment.")
    ] = False,
    model: Annotated[
        list[str] | None, typer.Option(metavar="FOLDER", help="Also offer a model of your own.")
    ] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Let pages of another site call, https://lab.example."),
    ] = None,
    require_token: Annotated[
        bool, typer.Option("--require-token", help="Ask for a token on this machine too.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, max=64, help="How many processes.")] = 1,
    rate: Annotated[float, typer.Option(min=1, help="Requests a second of one client.")] = 1000.0,
    memory: Annotated[
        int, typer.Option(min=10, metavar="MB", help="For one large experiment's computations.")
    ] = 192,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
) -> None:
    """Run experiments over HTTP: a page, and an API for other programs."""
    from aline.app.service.settings import Settings

    try:
        from aline.app.service.serve import serve as run
    except ModuleNotFoundError as error:
        raise UserError(f"aline serve needs {error.name}: pip install aline[server]") from None
    settings = Settings(
        storage=storage or ("memory://" if demo else OWN_STORAGE),
        host=host,
        port=port,
        models=tuple(model or ()),
        origins=tuple(one.rstrip("/") for one in origin or ()),
        require_token=require_token,
        requests_per_second=rate,
        work_bytes=memory * 1_000_000,
    )
    run(settings, workers=workers, demo=demo, browse=browser, say=say)


@service.command(epilog="Example: [bold]aline backup lab-copy.db --storage sqlite:///lab.db[/bold]")
def backup(
    file: Annotated[Path, typer.Argument(help="The copy; it must not be there yet.")],
    storage: Annotated[str, typer.Option(metavar="URL", help="What to copy.")] = OWN_STORAGE,
) -> None:
    """Copy a database of experiments, also while they run."""
    from aline.experiment.storage.backup import back_up

    count = back_up(storage, file)
    word = "experiment" if count == 1 else "experiments"
    say(f"{count} {word} copied to {file}: use it with --storage sqlite:///{file}")


@token.command("add", epilog="Example: [bold]aline token add tablet[/bold]")
def add_token(name: TokenName, storage: TokenStorage = OWN_STORAGE) -> None:
    """Make a token and show it, this once."""
    from aline.app.service.tokens import new_token
    from aline.experiment import open_storage

    say(new_token(open_storage(storage), name))


@token.command("list", epilog="Example: [bold]aline token list[/bold]")
def list_tokens(storage: TokenStorage = OWN_STORAGE, as_json: Json = False) -> None:
    """List the names of the tokens."""
    from aline.experiment import open_storage

    names = list(open_storage(storage, must_exist=True).tokens())
    show(names, names or ["no token yet: make one with `aline token add NAME`"], as_json)


@token.command("remove", epilog="Example: [bold]aline token remove tablet[/bold]")
def remove_token(name: TokenName, storage: TokenStorage = OWN_STORAGE) -> None:
    """Forget a token: whoever has it is let in no more."""
    from aline.experiment import open_storage

    open_storage(storage, must_exist=True).remove_token(name)
