"""Options of ``lorank complete``, ``predict``, ``recommend``, ``diagnose``, ``evaluate`` and ``inspect``."""
# No "from __future__ import annotations" here: typer evaluates the annotations, which name local variables.

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from . import driver, model_files
from .errors import UsageError, cli_errors
from .estimators import Estimator, FitOptions, ImplicitEstimator, RatingsEstimator
from .options import COLUMNS, LARGE, MODEL, OUTPUT, check_word, decode_argument, flag, option
from .output import Output
from .sources import File, PartitionOptions, Partitions, Source, choose_source

if TYPE_CHECKING:
    import typer

LOSSES = ("squares", "robust", "huber", "absolute", "cauchy", "tukey", "logistic", "ordinal", "poisson")
ORDERS, DUPLICATES = ("affinity", "rating"), ("error", "mean", "last", "sum")


def register(app: "typer.Typer") -> None:
    """Add the commands to a typer application."""
    import typer

    Files = Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Ratings: CSV, TSV, Parquet, Matrix Market or NPZ; several files, a pattern such as 'folder/*.parquet', a "
            "folder of files, or a folder of partitions.",
        ),
    ]
    Row = Annotated[str | None, option("--row", panel=COLUMNS, help="Column of row ids, such as users.")]
    Col = Annotated[str | None, option("--col", panel=COLUMNS, help="Column of column ids, such as items.")]
    Value = Annotated[str | None, option("--value", panel=COLUMNS, help="Column of values, such as ratings.")]
    Header = Annotated[
        bool | None,
        option(
            "--header/--no-header",
            panel=COLUMNS,
            metavar="",
            show_default=False,
            help="Whether the first line of text files is a header; by default detected.",
        ),
    ]
    MaxMemory = Annotated[
        str | None,
        option("--max-memory", panel=LARGE, help="Read the files in blocks and limit memory for factors, e.g. to 2GB."),
    ]
    Cluster = Annotated[
        str | None,
        option("--cluster", panel=LARGE, help="Compute with Dask: address of the scheduler (tcp://...), or local."),
    ]
    PartitionsDir = Annotated[
        Path | None, option("--partitions-dir", panel=LARGE, help="Keep the partitions in this folder, for later runs.")
    ]
    Duplicates = Annotated[
        str,
        option(
            "--duplicates",
            panel=LARGE,
            words=DUPLICATES,
            help="Treatment of repeated pairs in partitions: error, mean, last or sum.",
        ),
    ]
    Implicit = Annotated[
        bool,
        flag("--implicit", panel=MODEL, help="Implicit feedback (clicks, purchases): each line counts once, or --value times."),
    ]
    Report = Annotated[Path | None, option("--report", panel=OUTPUT, help="Write an HTML report to this file.")]
    Json = Annotated[bool, flag("--json", panel=OUTPUT, help="Print one JSON object.")]
    Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file written by complete.")]

    @app.command()
    def complete(
        files: Files,
        row: Row = None,
        col: Col = None,
        value: Value = None,
        header: Header = None,
        rank: Annotated[str, option("--rank", panel=MODEL, help="Number of factors, or auto.")] = "auto",
        regularization: Annotated[
            str, option("--regularization", panel=MODEL, help="Regularization: a number, learned or auto.")
        ] = "auto",
        loss: Annotated[
            str,
            option(
                "--loss",
                panel=MODEL,
                words=LOSSES,
                help="squares, robust (excludes outliers), huber, absolute, cauchy, tukey, logistic (binary), ordinal (stars) "
                "or poisson (counts).",
            ),
        ] = "squares",
        nonnegative: Annotated[bool, flag("--nonnegative", panel=MODEL, help="Nonnegative factors.")] = False,
        implicit: Implicit = False,
        exposure: Annotated[
            str | None,
            option("--exposure", panel=COLUMNS, help="Column of exposures (with --loss poisson); the model predicts rates."),
        ] = None,
        row_features: Annotated[
            Path | None,
            option("--row-features", panel=MODEL, help="Table of row features, with the row ids in a column."),
        ] = None,
        col_features: Annotated[
            Path | None, option("--col-features", panel=MODEL, help="Table of column features, with the column ids.")
        ] = None,
        seed: Annotated[int, option("--seed", min=0, metavar="<int>", panel=MODEL, help="Random seed.")] = 0,
        device: Annotated[
            str | None, option("--device", panel=MODEL, help="Fit with PyTorch on this device, e.g. cuda.")
        ] = None,
        max_memory: MaxMemory = None,
        cluster: Cluster = None,
        partitions_dir: PartitionsDir = None,
        duplicates: Duplicates = "error",
        out: Annotated[Path | None, option("-o", "--out", panel=OUTPUT, help="Write the model to this .lorank file.")] = None,
        report: Report = None,
        as_json: Json = False,
    ) -> None:
        """Fit a model to ratings, for predictions and recommendations. Ctrl-C ends the fit with the best model so far."""
        with cli_errors():
            large = PartitionOptions(max_memory, cluster, partitions_dir, check_word(duplicates, DUPLICATES, "--duplicates"))
            names, output = (row, col, value), Output(model=out, page=report, as_json=as_json)
            options = FitOptions(rank, regularization, loss, exposure, row_features, col_features, nonnegative, seed, device)
            estimator: Estimator = ImplicitEstimator(options) if implicit else RatingsEstimator(options)
            source: Source = Partitions(files, names, large, implicit=True, header=header)
            if not implicit:
                source = choose_source(files, names, large, exposure, header)
            code = driver.run(driver.complete, source, estimator, output)
        if code:
            raise typer.Exit(code)

    @app.command()
    def predict(
        model: Model,
        files: Annotated[
            list[str], typer.Argument(metavar="PAIRS", help="Pairs of row and column ids: files, a pattern or a folder.")
        ],
        out: Annotated[
            Path, option("-o", "--out", panel=OUTPUT, help="Write predictions to a .csv or .tsv file, or a .parquet folder.")
        ],
        row: Row = None,
        col: Col = None,
        header: Header = None,
        interval: Annotated[
            float | None, option("--interval", panel=OUTPUT, help="Add prediction intervals of this coverage, e.g. 0.9.")
        ] = None,
        as_json: Json = False,
    ) -> None:
        """Predict values at pairs of row and column."""
        with cli_errors():
            output = Output(table=out, as_json=as_json)
            output.check()
            estimator = model_files.load_estimator(model, ratings=True)
            driver.run(
                partial(driver.predict, interval=interval), File(files, (row, col, None), header=header), estimator, output
            )

    @app.command()
    def recommend(
        model: Model,
        row: Annotated[str | None, option("--row", help="Row id, such as a user id.")] = None,
        every: Annotated[bool, flag("--all", help="Recommend for all rows, and write a table to -o.")] = False,
        n: Annotated[int, option("-n", help="Length of the list.")] = 10,
        order: Annotated[
            str | None,
            option("--order-by", words=ORDERS, help="affinity: by the ranking model (default); rating: by predicted rating."),
        ] = None,
        include_seen: Annotated[bool, flag("--include-seen", help="Include columns that the row has observed.")] = False,
        ratings: Annotated[
            Path | None, option("--ratings", help="With --all: folder of partitions with the observations to exclude.")
        ] = None,
        out: Annotated[
            Path | None, option("-o", "--out", panel=OUTPUT, help="With --all: a .csv or .tsv file, or a .parquet folder.")
        ] = None,
        as_json: Json = False,
    ) -> None:
        """Recommend columns for a row (items for a user), or for all rows."""
        with cli_errors():
            if order is not None:
                check_word(order, ORDERS, "--order-by")
            if every == (row is not None) or every == (out is None):
                raise UsageError("recommend takes --row ID, or --all with -o FILE for every row")
            output = Output(table=out, as_json=as_json)
            output.check()
            options = driver.RecommendOptions(n, order, include_seen)
            if every:
                command: driver.Command = partial(driver.recommend_all, folder=ratings, options=options)
            else:
                command = partial(driver.recommend, row=decode_argument(str(row)), options=options)
            driver.run(command, None, model_files.load_estimator(model), output)

    @app.command()
    def diagnose(
        files: Files,
        row: Row = None,
        col: Col = None,
        value: Value = None,
        header: Header = None,
        rank: Annotated[int, option("--rank", help="Rank of the model to be fitted.")] = 10,
        max_memory: MaxMemory = None,
        cluster: Cluster = None,
        partitions_dir: PartitionsDir = None,
        duplicates: Duplicates = "error",
        as_json: Json = False,
    ) -> None:
        """Check whether ratings suffice for a model, without fitting one."""
        with cli_errors():
            large = PartitionOptions(max_memory, cluster, partitions_dir, check_word(duplicates, DUPLICATES, "--duplicates"))
            source = choose_source(files, (row, col, value), large, header=header)
            driver.run(partial(driver.diagnose, rank=rank), source, None, Output(as_json=as_json))

    @app.command()
    def evaluate(
        files: Annotated[list[str], typer.Argument(metavar="FILE", help="Ratings: one file, as for complete.")],
        row: Row = None,
        col: Col = None,
        value: Value = None,
        header: Header = None,
        time: Annotated[
            str | None, option("--time", panel=COLUMNS, help="Column of times: the latest values of each row are held out.")
        ] = None,
        positive: Annotated[
            float | None, option("--positive", help="Values from this one on are relevant; the median by default.")
        ] = None,
        holdout: Annotated[float, option("--holdout", help="Share of each row's values that is held out.")] = 0.2,
        implicit: Implicit = False,
        n: Annotated[int, option("-n", help="Length of the lists.")] = 10,
        seed: Annotated[int, option("--seed", min=0, metavar="<int>", help="Random seed of split and fit.")] = 0,
        report: Report = None,
        as_json: Json = False,
    ) -> None:
        """Compare recommendations of a model and of baselines with held-out values."""
        with cli_errors():
            if len(files) > 1:
                raise UsageError(f"evaluate takes one file, got {len(files)}: join them first")
            options = FitOptions(seed=seed)
            estimator: Estimator = ImplicitEstimator(options) if implicit else RatingsEstimator(options)
            command = partial(driver.evaluate, positive=positive, holdout=holdout, n=n)
            driver.run(command, File(files, (row, col, value), time, header), estimator, Output(page=report, as_json=as_json))

    @app.command()
    def inspect(model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file.")], as_json: Json = False) -> None:
        """Show the content of a model file."""
        with cli_errors():
            model_files.inspect(model, as_json)
