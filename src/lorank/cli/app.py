"""The command line: ``lorank demo``, ``lorank reproduce``, and the commands in :mod:`lorank.cli`.

typer, rich and matplotlib are an extra, ``lorank[cli]``, and are imported only when a command needs them.
"""
# No "from __future__ import annotations" here: typer reads the annotations, and is known only where they are written.

import importlib.util
import io
import sys
from pathlib import Path
from typing import Annotated, Any

NEEDS = ("typer", "rich", "matplotlib")
REFUSED, INTERRUPTED = 1, 130


def main() -> None:
    """The console entry point."""
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        print(f'lorank: the command line needs {" and ".join(missing)}: pip install "lorank[cli]"', file=sys.stderr)
        sys.exit(REFUSED)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # ids that the terminal's encoding lacks are shown, not refused
    try:
        build_app()()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def build_app() -> Any:
    """The typer application."""
    import typer

    from .help_text import WELCOME, epilog

    app = typer.Typer(pretty_exceptions_enable=False)

    def show_version(wanted: bool) -> None:
        if wanted:
            from ..common.version import __version__

            print(f"lorank {__version__}")
            raise typer.Exit

    @app.callback(invoke_without_command=True)
    def lorank(
        context: typer.Context,
        version: Annotated[
            bool,
            typer.Option("--version", metavar="", callback=show_version, is_eager=True, help="Show the version and leave."),
        ] = False,
    ) -> None:
        """Recover a low-rank matrix from a few of its entries or from indirect measurements."""
        if context.invoked_subcommand is None:
            print(WELCOME, end="")

    @app.command()
    def demo(
        context: typer.Context,
        story: Annotated[
            str | None,
            typer.Argument(
                help="ratings, table, phase or image: a small story. Without it, solvers at work.", show_default=False
            ),
        ] = None,
        n: Annotated[int, typer.Option("--n", help="Rows and columns of the matrix.")] = 3000,
        rank: Annotated[int, typer.Option(help="Its rank.")] = 10,
        oversampling: Annotated[float, typer.Option(help="Observed entries for each degree of freedom.")] = 5.0,
        seed: Annotated[int, typer.Option(metavar="<int>", help="Same seed, same problem.")] = 0,
        tol: Annotated[float, typer.Option(help="Stop at this relative error, |X_t - X| / |X|.")] = 1e-4,
        max_iter: Annotated[int, typer.Option(help="The most iterations of a solver.")] = 500,
        max_seconds: Annotated[float, typer.Option(help="The most seconds of a solver.")] = 10.0,
        out: Annotated[
            Path | None,
            typer.Option(help="Where the plot goes, a PNG: lorank-demo.png, or with the story's name.", show_default=False),
        ] = None,
        as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object instead of a table.")] = False,
    ) -> None:
        """Recover a random matrix from a few of its entries with five solvers, and compare them; or tell a small story."""
        if story is not None:
            from .demos import run_story

            solvers_only = ("n", "rank", "oversampling", "tol", "max_iter", "max_seconds")
            sources = {name: context.get_parameter_source(name) for name in solvers_only}
            given = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
            run_story(story, out or Path(f"lorank-demo-{story}.png"), seed, as_json, given)
            return
        out = out or Path("lorank-demo.png")
        from .demo import Demo, run_demo

        status = run_demo(Demo(n, rank, oversampling, seed, tol, max_iter, max_seconds, out), as_json=as_json)
        if status:
            raise typer.Exit(status)

    @app.command()
    def reproduce(
        names: Annotated[
            list[str] | None, typer.Argument(metavar="[NAME ...|all]", help="Experiments; all by default.")
        ] = None,
        scale: Annotated[str, typer.Option(help="quick: some twenty minutes for all on one core; paper: hours.")] = "quick",
        out: Annotated[Path, typer.Option(help="The folder for results, figures and the page.")] = Path("lorank-reproduction"),
        threads: Annotated[int, typer.Option(help="Threads of the kernels and of BLAS.")] = 1,
        jobs: Annotated[int, typer.Option(help="Processes that make runs side by side.")] = 1,
        only_render: Annotated[
            bool, typer.Option("--only-render", metavar="", help="Run nothing: tables, figures and page from what is stored.")
        ] = False,
        show: Annotated[bool, typer.Option("--list", metavar="", help="List the experiments and leave.")] = False,
    ) -> None:
        """Run the paper's experiments again. What is stored in the folder is not run twice: an interrupted call can go on."""
        from ..paper.command import Request, run_reproduce

        status = run_reproduce(Request(tuple(names or ["all"]), scale, out, threads, only_render, show, jobs))
        if status:
            raise typer.Exit(status)

    from . import doctor, evaluate, ratings, serve
    from . import impute as tables

    ratings.register(app)
    evaluate.register(app)
    serve.register(app)
    tables.register(app)
    doctor.register(app)
    for command in app.registered_commands:
        command.epilog = epilog(str(command.name or getattr(command.callback, "__name__", "")))
    return app
