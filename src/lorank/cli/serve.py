"""``lorank serve``: a web application for a model."""
# No "from __future__ import annotations" here: typer evaluates the annotations, which name local variables.

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from .errors import cli_errors

if TYPE_CHECKING:
    import typer

NEEDS = ("starlette", "uvicorn")


def register(app: "typer.Typer") -> None:
    """Add the command to a typer application."""
    import typer

    @app.command()
    def serve(
        model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file of ratings or of implicit feedback.")],
        port: Annotated[int, typer.Option(metavar="PORT", help="Port; 0 selects a free one.", min=0, max=65535)] = 8765,
        host: Annotated[str, typer.Option(help="Address to listen on; by default this machine only.")] = "127.0.0.1",
        titles: Annotated[Path | None, typer.Option("--titles", help="CSV file with ids and titles of items.")] = None,
        browser: Annotated[
            bool, typer.Option("--browser/--no-browser", metavar="", help="Open the page in a browser, if there is a display.")
        ] = True,
    ) -> None:
        """Start a web page with recommendations, similar items and explanations of a model."""
        with cli_errors():
            missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
            if missing:
                raise ImportError(f'this needs {" and ".join(missing)}: pip install "lorank[serve]"')
            from ..io.format_hints import check_is_local
            from ..serve.server import serve as run
            from .model_files import check_not_table

            check_is_local(model)
            check_not_table(model)
            run(model, host, port, titles, browser)
