"""``lorank serve``."""
# No "from __future__ import annotations" here: typer reads the annotations, and is known only where they are written.

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from .output import for_people

if TYPE_CHECKING:
    import typer

NEEDS = ("starlette", "uvicorn")


def register(app: "typer.Typer") -> None:
    """Add the command to a typer application."""
    import typer

    @app.command()
    def serve(
        model: Annotated[
            Path, typer.Argument(metavar="MODEL", help="A model that complete wrote, or a saved ImplicitFactorization.")
        ],
        port: Annotated[
            int, typer.Option(metavar="PORT", help="Where to listen; 0 takes a free port.", min=0, max=65535)
        ] = 8765,
        host: Annotated[
            str, typer.Option(help="The address to listen at: this machine only, unless another is told.")
        ] = "127.0.0.1",
        titles: Annotated[
            Path | None, typer.Option("--titles", help="What items are called: a CSV file with ids and titles.")
        ] = None,
        browser: Annotated[
            bool,
            typer.Option("--browser/--no-browser", metavar="", help="Open the page in a browser, where there is a display."),
        ] = True,
    ) -> None:
        """Open a page to try a model: find users and items, see recommendations, similar items, and why."""
        with for_people():
            missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
            if missing:
                raise ImportError(f'this needs {" and ".join(missing)}: pip install "lorank[serve]"')
            from ..io.format_hints import refuse_elsewhere
            from ..serve.server import serve as run
            from .model_files import refuse_tables

            refuse_elsewhere(model)
            refuse_tables(model)

            run(model, host, port, titles, browser)
