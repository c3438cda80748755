"""The ``lorank`` command: entry point, ``lorank demo``, ``lorank reproduce`` and ``lorank bench``.

typer, rich and matplotlib belong to the extra ``lorank[cli]`` and are imported when a command needs them.
"""
# No "from __future__ import annotations" here: typer evaluates the annotations, which name local variables.

import importlib.util
import io
import sys
from pathlib import Path
from typing import Annotated, Any

from ..common.interrupts import raise_at_ctrl_c
from .errors import INTERRUPTED, REFUSED

NEEDS = ("typer", "rich", "matplotlib")


def main() -> None:
    """Console entry point."""
    try:
        raise_at_ctrl_c()
        missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
        if missing:
            print(f'lorank: the command line needs {" and ".join(missing)}: pip install "lorank[cli]"', file=sys.stderr)
            sys.exit(REFUSED)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # for ids that the terminal's encoding lacks
        build_app()()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def build_app() -> Any:
    """The typer application."""
    import typer

    from .help_text import WELCOME, epilog
    from .options import Command, Group

    app = typer.Typer(cls=Group, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]})

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
            typer.Option("--version", metavar="", callback=show_version, is_eager=True, help="Show the version."),
        ] = False,
    ) -> None:
        """Low-rank matrix recovery: ratings, implicit feedback, tables with missing values."""
        if context.invoked_subcommand is None:
            print(WELCOME, end="")

    def demo(
        context: typer.Context,
        name: Annotated[
            str | None,
            typer.Argument(
                metavar="NAME", help="ratings, table, phase or image; by default a comparison of solvers.", show_default=False
            ),
        ] = None,
        n: Annotated[int, typer.Option("--n", metavar="N", help="Rows and columns of the matrix.")] = 3000,
        rank: Annotated[int, typer.Option(metavar="N", help="Rank of the matrix.")] = 10,
        oversampling: Annotated[float, typer.Option(metavar="X", help="Observed entries per degree of freedom.")] = 5.0,
        seed: Annotated[int, typer.Option(metavar="N", help="Random seed.")] = 0,
        tol: Annotated[float, typer.Option(metavar="X", help="Stop at this relative error, |X_t - X| / |X|.")] = 1e-4,
        max_iter: Annotated[int, typer.Option(metavar="N", help="Maximum number of iterations of each solver.")] = 500,
        max_seconds: Annotated[float, typer.Option(metavar="X", help="Maximum seconds of each solver.")] = 10.0,
        out: Annotated[
            Path | None,
            typer.Option(metavar="FILE", help="Write the plot to this PNG file; by default lorank-demo[-NAME].png."),
        ] = None,
        as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object instead of a table.")] = False,
    ) -> None:
        """Run a demo: five solvers on a random matrix, or an application on synthetic data."""
        from .errors import UsageError, cli_errors
        from .output import show

        with cli_errors():
            if seed < 0:
                raise UsageError(f"--seed must not be negative, got {seed}")
            if name is None:
                from .solver_demo import SolverDemo, run_solver_demo

                settings = SolverDemo(n, rank, oversampling, seed, tol, max_iter, max_seconds, out or Path("lorank-demo.png"))
                show(run_solver_demo(settings), as_json)
                return
            from .demos import run_demo

            solvers_only = ("n", "rank", "oversampling", "tol", "max_iter", "max_seconds")
            sources = {one: context.get_parameter_source(one) for one in solvers_only}
            given = [one for one, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
            show(run_demo(name, out or Path(f"lorank-demo-{name}.png"), seed, given), as_json)

    def reproduce(
        names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Experiments; by default all.")] = None,
        scale: Annotated[
            str, typer.Option(metavar="NAME", help="quick: about ten minutes for all on one core; paper: hours.")
        ] = "quick",
        out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for results, figures and the page.")] = Path(
            "lorank-reproduction"
        ),
        threads: Annotated[int, typer.Option(metavar="N", help="Threads of the kernels and of BLAS.")] = 1,
        jobs: Annotated[int, typer.Option(metavar="N", help="Number of parallel processes.")] = 1,
        only_render: Annotated[
            bool, typer.Option("--only-render", metavar="", help="Render tables, figures and page from stored results.")
        ] = False,
        show: Annotated[bool, typer.Option("--list", metavar="", help="List the experiments.")] = False,
    ) -> None:
        """Run the paper's experiments. Stored results are reused, so that interrupted calls resume."""
        from ..paper.command import Request, run_reproduce

        status = run_reproduce(Request(tuple(names or ["all"]), scale, out, threads, only_render, show, jobs))
        if status:
            raise typer.Exit(status)

    def bench(
        file: Annotated[Path, typer.Argument(metavar="FILE", help="Python file that defines experiments.", show_default=False)],
        out: Annotated[
            Path | None, typer.Option(metavar="FOLDER", help="Folder for runs, tables and figures; by default NAME-results.")
        ] = None,
        threads: Annotated[int, typer.Option(metavar="N", help="Threads of the kernels and of BLAS.")] = 1,
        jobs: Annotated[int, typer.Option(metavar="N", help="Number of parallel processes.")] = 1,
        formats: Annotated[str, typer.Option(metavar="LIST", help="Formats of the figures: png, pdf, svg.")] = "png,pdf",
    ) -> None:
        """Compare solvers on your own problems: CSV and LaTeX tables, figures and a page. Interrupted calls resume."""
        from ..experiments.command import run_bench

        status = run_bench(file, out, threads, jobs, formats)
        if status:
            raise typer.Exit(status)

    from .commands import complete, diagnose, evaluate, inspect, predict, recommend, serve
    from .doctor import doctor
    from .impute import impute

    panels = {
        "Ratings and clicks": (diagnose, complete, predict, recommend, evaluate, serve, inspect),
        "Tables and time series": (impute,),
        "Research": (bench, reproduce),
        "First steps": (demo, doctor),
    }
    for panel, commands in panels.items():
        for command in commands:
            app.command(cls=Command, epilog=epilog(command.__name__), rich_help_panel=panel)(command)
    return app
