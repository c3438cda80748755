"""``lorank complete``, ``predict``, ``recommend``, ``diagnose`` and ``inspect``: their options."""
# No "from __future__ import annotations" here: typer reads the annotations, and is known only where they are written.

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from . import sources as large
from . import taken
from .driver import Request, run_complete, run_diagnose, say_diagnosis
from .model_files import run_inspect
from .options import COLUMNS, LARGE, MODEL, OUTPUT, flag, option
from .output import Misuse, as_typed, for_people, word
from .predictions import run_predict, run_recommend, run_recommend_all

if TYPE_CHECKING:
    import typer

LOSSES = ("squares", "robust", "huber", "absolute", "cauchy", "tukey", "logistic", "ordinal", "poisson")
ORDERS, DUPLICATES = ("taste", "rating"), ("error", "mean", "last", "sum")


def register(app: "typer.Typer") -> None:
    """Add the commands to a typer application."""
    import typer

    Files = Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Ratings: CSV, TSV, Parquet, Matrix Market or NPZ; also several files, 'folder/*.parquet', a folder of files, "
            "or one of partitions.",
        ),
    ]
    Row = Annotated[str | None, option("--row", panel=COLUMNS, help="The column that says which row: users, say.")]
    Col = Annotated[str | None, option("--col", panel=COLUMNS, help="The column that says which column: movies, say.")]
    Value = Annotated[str | None, option("--value", panel=COLUMNS, help="The column with values: ratings, say.")]
    Memory = Annotated[
        str | None,
        option("--memory", panel=LARGE, help="Pass over the files block by block, with factors in at most this: 2GB, say."),
    ]
    Cluster = Annotated[
        str | None,
        option("--cluster", panel=LARGE, help="Compute with Dask: the scheduler's address, tcp://..., or local for all cores."),
    ]
    Folder = Annotated[Path | None, option("--folder", panel=LARGE, help="Keep the partitions here, to be used again.")]
    Duplicates = Annotated[
        str,
        option(
            "--duplicates",
            panel=LARGE,
            words=DUPLICATES,
            help="In partitions, what a repeated pair means: error, mean, last or sum.",
        ),
    ]
    Json = Annotated[bool, flag("--json", panel=OUTPUT, help="Print one JSON object.")]
    Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that complete wrote.")]

    @app.command()
    def complete(
        files: Files,
        row: Row = None,
        col: Col = None,
        value: Value = None,
        rank: Annotated[str, option("--rank", panel=MODEL, help="Factors of each row and column, or auto.")] = "auto",
        regularization: Annotated[str, option("--regularization", panel=MODEL, help="A strength, learned or auto.")] = "auto",
        loss: Annotated[
            str,
            option(
                "--loss",
                panel=MODEL,
                words=LOSSES,
                help="squares, robust (finds outliers), huber, absolute, cauchy, tukey, logistic (yes/no), ordinal (stars) or "
                "poisson (counts).",
            ),
        ] = "squares",
        nonnegative: Annotated[
            bool, flag("--nonnegative", panel=MODEL, help="Factors that are never negative: values are sums of parts.")
        ] = False,
        implicit: Annotated[
            bool,
            flag("--implicit", panel=MODEL, help="Who took what, not ratings: each line counts once, or --value times."),
        ] = False,
        exposure: Annotated[
            str | None,
            option(
                "--exposure",
                panel=COLUMNS,
                help="With --loss poisson: the column with exposures, by which rates are multiplied.",
            ),
        ] = None,
        row_features: Annotated[
            Path | None,
            option("--row-features", panel=MODEL, help="What is known of rows: a table with their ids in a column."),
        ] = None,
        col_features: Annotated[Path | None, option("--col-features", panel=MODEL, help="The same of columns.")] = None,
        seed: Annotated[int, option("--seed", min=0, metavar="<int>", panel=MODEL, help="Same seed, same model.")] = 0,
        device: Annotated[
            str | None, option("--device", panel=MODEL, help="Fit with PyTorch on this device: cuda, for example.")
        ] = None,
        memory: Memory = None,
        cluster: Cluster = None,
        folder: Folder = None,
        duplicates: Duplicates = "error",
        out: Annotated[Path | None, option("-o", "--out", panel=OUTPUT, help="Where the model goes, a .lorank file.")] = None,
        report: Annotated[
            Path | None, option("--report", panel=OUTPUT, help="Where a page about it goes, an HTML file.")
        ] = None,
        as_json: Json = False,
    ) -> None:
        """Fit a model to ratings: predicts any row and column, with intervals. Ctrl-C ends it with the best model so far."""
        with for_people():
            where = large.Where(memory, cluster, folder, word(duplicates, DUPLICATES, "--duplicates"))
            request = Request(
                files,
                columns=(row, col, value),
                rank=rank,
                regularization=regularization,
                loss=loss,
                exposure=exposure,
                features=(row_features, col_features),
                out=out,
                report=report,
                seed=seed,
                device=device,
                as_json=as_json,
                nonnegative=nonnegative,
            )
            if implicit:
                code = taken.complete(request, where)
            else:
                code = large.complete(request, where) if large.wants_partitions(files, where) else run_complete(request)
        if code:
            raise typer.Exit(code)

    @app.command()
    def predict(
        model: Model,
        files: Annotated[
            list[str],
            typer.Argument(metavar="PAIRS", help="Pairs of row and column to predict at; also several files, or a folder."),
        ],
        out: Annotated[
            Path,
            option("-o", "--out", panel=OUTPUT, help="Where predictions go: a .csv or .tsv file, or a .parquet folder."),
        ],
        row: Row = None,
        col: Col = None,
        interval: Annotated[
            float | None, option("--interval", panel=OUTPUT, help="Also bounds that hold this share of values: 0.9, say.")
        ] = None,
        as_json: Json = False,
    ) -> None:
        """Predict values at pairs of row and column."""
        with for_people():
            run_predict(model, files, out, (row, col), interval, as_json)

    @app.command()
    def recommend(
        model: Model,
        row: Annotated[str | None, option("--row", help="Whom for: an id as in the ratings.")] = None,
        every: Annotated[bool, flag("--all", help="For all rows, written to -o in blocks.")] = False,
        n: Annotated[int, option("-n", help="How many.")] = 10,
        by: Annotated[
            str | None,
            option(
                "--by", words=ORDERS, help="taste: what the row would take and like (default); rating: the largest predictions."
            ),
        ] = None,
        seen: Annotated[bool, flag("--seen", help="Also what the row has rated, or taken, already.")] = False,
        ratings: Annotated[
            Path | None, option("--ratings", help="With --all: the folder of partitions that says what was seen.")
        ] = None,
        out: Annotated[
            Path | None, option("-o", "--out", panel=OUTPUT, help="With --all: a .csv or .tsv file, or a .parquet folder.")
        ] = None,
        as_json: Json = False,
    ) -> None:
        """The best columns for a row (items for a user), or for all rows."""
        with for_people():
            if by is not None:
                word(by, ORDERS, "--by")
            if every == (row is not None) or every == (out is None):
                raise Misuse("recommend takes --row ID, or --all with -o FILE for every row")
            if out is not None:
                run_recommend_all(model, out, n, by, seen, ratings, as_json)
            else:
                run_recommend(model, as_typed(str(row)), n, by or "taste", seen, as_json)

    @app.command()
    def diagnose(
        files: Files,
        row: Row = None,
        col: Col = None,
        value: Value = None,
        rank: Annotated[int, option("--rank", help="For a model of this rank.")] = 10,
        memory: Memory = None,
        cluster: Cluster = None,
        folder: Folder = None,
        duplicates: Duplicates = "error",
        as_json: Json = False,
    ) -> None:
        """Say whether ratings are enough for a model, without fitting one."""
        with for_people():
            where = large.Where(memory, cluster, folder, word(duplicates, DUPLICATES, "--duplicates"))
            if rank < 1:
                raise Misuse(f"--rank must be a whole number, 1 or more, got {rank}")
            if large.wants_partitions(files, where):
                found = large.diagnose(files, (row, col, value), where, rank)
            else:
                found = run_diagnose(files, (row, col, value), rank)
            say_diagnosis(found, as_json)

    @app.command()
    def inspect(model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")], as_json: Json = False) -> None:
        """Say what a model file holds."""
        with for_people():
            run_inspect(model, as_json)
