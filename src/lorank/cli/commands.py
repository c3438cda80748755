"""Options of ``lorank complete``, ``predict``, ``recommend``, ``diagnose``, ``evaluate``, ``inspect`` and ``serve``."""
# No "from __future__ import annotations" here: typer evaluates the annotations.

import dataclasses
import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from . import driver, model_files, tensors
from .errors import Outcome, UsageError
from .models import FitOptions
from .options import COLUMNS, OUTPUT, Col, Columns, Header, Report, Row, check_word, command, decode_argument, flag, option
from .output import MODEL, PAGE, TABLE, check_output_path
from .sources import File, PartitionOptions, Partitions, Source, choose_source

ORDERS = ("affinity", "similarity", "popularity", "rating")
SERVE_NEEDS = ("starlette", "uvicorn")

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="Ratings: CSV, TSV, Parquet, Matrix Market or NPZ; several files, a pattern such as 'folder/*.parquet', a "
        "folder of files, or a folder of partitions.",
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file written by complete.")]


@command
def complete(
    files: Files,
    columns: Columns,
    fit: FitOptions,
    large: PartitionOptions,
    exposure: Annotated[
        str | None,
        option(
            "--exposure",
            panel=COLUMNS,
            metavar="COLUMN",
            help="Column of exposures (with --loss poisson); the model predicts rates.",
        ),
    ] = None,
    ranking: Annotated[
        bool,
        flag(
            "--ranking/--no-ranking",
            panel=OUTPUT,
            help="Whether the model file gets the ranking model; without it, recommend fits one each time.",
        ),
    ] = True,
    out: Annotated[
        Path | None, option("-o", "--out", panel=OUTPUT, metavar="FILE", help="Write the model to this .lorank file.")
    ] = None,
    report: Report = None,
    keys: Annotated[
        str | None,
        option(
            "--columns",
            panel=COLUMNS,
            metavar="A,B,C",
            help="Three or more columns of keys, such as sensor,day,hour, instead of --row and --col.",
        ),
    ] = None,
    filled: Annotated[
        Path | None,
        option("--filled", panel=OUTPUT, metavar="FILE", help="With --columns: write all combinations of keys to this table."),
    ] = None,
) -> Outcome:
    """Fit a model to ratings, for predictions and recommendations. Ctrl-C ends the fit with the best model so far."""
    check_output_path(out, MODEL, "a model")
    check_output_path(report, PAGE, "a report", "--report")
    check_output_path(filled, TABLE, "a table", "--filled")
    if keys is not None:
        unused = fit.beyond_defaults(
            "regularization", "loss", "nonnegative", "implicit", "row_features", "col_features", "device"
        )
        others: dict[str, object] = {"--row": columns.row, "--col": columns.col, "--exposure": exposure, "--report": report}
        others |= {"--max-memory, --cluster, --partitions-dir or --duplicates": large.given or None}
        for name in [*unused, *(name for name, given in others.items() if given is not None)]:
            raise UsageError(f"--columns fits a tensor model, without {name}: leave one of them out")
        names = tensors.key_names(keys)
        return tensors.complete(files, names, columns.value, columns.header, fit, out, filled)
    if filled is not None:
        raise UsageError("--filled needs --columns: for other models use lorank predict")
    source: Source = Partitions(files, columns.names, columns.header, large, implicit=True)
    if not fit.implicit:
        source = choose_source(files, columns.names, large, exposure, columns.header)
    return driver.complete(source, dataclasses.replace(fit, exposure=exposure).estimator(), out, report, ranking)


@command
def predict(
    model: Model,
    files: Annotated[
        list[str], typer.Argument(metavar="PAIRS", help="Pairs of row and column ids: files, a pattern or a folder.")
    ],
    out: Annotated[
        Path | None,
        option(
            "-o",
            "--out",
            panel=OUTPUT,
            metavar="FILE",
            help="Write predictions to a .csv or .tsv file, or a .parquet folder; by default, a few are printed.",
        ),
    ] = None,
    row: Row = None,
    col: Col = None,
    header: Header = None,
    interval: Annotated[
        float | None,
        option("--interval", panel=OUTPUT, metavar="SHARE", help="Add prediction intervals of this coverage, e.g. 0.9."),
    ] = None,
) -> Outcome:
    """Predict values at pairs of row and column."""
    check_output_path(out, TABLE, "a table")
    found = model_files.load_model(model)
    if tensors.is_tensor_model(found):
        if row is not None or col is not None:
            raise UsageError(f"--row and --col are for models of pairs: this model has the columns {found.names_}")
        return tensors.predict(found, files, header, out, interval)
    return driver.predict(File(files, (row, col, None), header), model_files.estimator_of(found, model), out, interval)


@command
def recommend(
    model: Model,
    row: Annotated[str | None, option("--row", metavar="ID", help="Row id, such as a user id.")] = None,
    every: Annotated[bool, flag("--all", help="Recommend for all rows, and write a table to -o.")] = False,
    n: Annotated[int, option("-n", metavar="N", help="Length of the list.")] = 10,
    order: Annotated[
        str | None,
        option(
            "--order-by",
            metavar="NAME",
            words=ORDERS,
            help="affinity, similarity, popularity or rating (predicted), of which a model has those that were selected; by "
            "default the order that found most on held-out lists.",
        ),
    ] = None,
    include_seen: Annotated[bool, flag("--include-seen", help="Include columns that the row has observed.")] = False,
    ratings: Annotated[
        Path | None,
        option("--ratings", metavar="FOLDER", help="With --all: folder of partitions with the observations to exclude."),
    ] = None,
    out: Annotated[
        Path | None,
        option("-o", "--out", panel=OUTPUT, metavar="FILE", help="With --all: a .csv or .tsv file, or a .parquet folder."),
    ] = None,
) -> Outcome:
    """Recommend columns for a row (items for a user), or for all rows."""
    if order is not None:
        check_word(order, ORDERS, "--order-by")
    if every == (row is not None) or every == (out is None):
        raise UsageError("recommend takes --row ID, or --all with -o FILE for every row")
    check_output_path(out, TABLE, "a table")
    options, estimator = driver.RecommendOptions(n, order, include_seen), model_files.load_estimator(model)
    if out is not None:
        return driver.recommend_all(estimator, out, ratings, options)
    return driver.recommend(estimator, decode_argument(str(row)), options)


@command
def diagnose(
    files: Files,
    columns: Columns,
    large: PartitionOptions,
    rank: Annotated[
        int | None,
        option(
            "--rank",
            metavar="N",
            help="Rank of the model to be fitted; by default the largest one that the ratings suffice for.",
        ),
    ] = None,
) -> Outcome:
    """Check whether ratings suffice for a model, without fitting one."""
    return driver.diagnose(choose_source(files, columns.names, large, header=columns.header), rank)


@command
def evaluate(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Ratings: one file, as for complete.")],
    columns: Columns,
    fit: FitOptions,
    time: Annotated[
        str | None,
        option("--time", panel=COLUMNS, metavar="COLUMN", help="Column of times: the latest values of each row are held out."),
    ] = None,
    positive: Annotated[
        float | None,
        option("--positive", metavar="X", help="Values from this one on are relevant; the median by default."),
    ] = None,
    holdout: Annotated[float, option("--holdout", metavar="SHARE", help="Share of each row's values that is held out.")] = 0.2,
    n: Annotated[int, option("-n", metavar="N", help="Length of the lists.")] = 10,
    report: Report = None,
) -> Outcome:
    """Compare recommendations of a model and of baselines with held-out values."""
    check_output_path(report, PAGE, "a report", "--report")
    if len(files) > 1:
        raise UsageError(f"evaluate takes one file, got {len(files)}: join them first")
    source = File(files, columns.names, columns.header, time)
    return driver.evaluate(source, fit.estimator(), report, positive, holdout, n)


@command
def inspect(model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file.")]) -> Outcome:
    """Show the content of a model file."""
    return model_files.inspect(model)


@command
def serve(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file of ratings or of implicit feedback.")],
    port: Annotated[int, typer.Option(metavar="PORT", help="Port; 0 selects a free one.", min=0, max=65535)] = 8765,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; by default this machine only.")
    ] = "127.0.0.1",
    titles: Annotated[
        Path | None, typer.Option("--titles", metavar="FILE", help="CSV file with ids and titles of items.")
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", metavar="", help="Open the page in a browser, if there is a display.")
    ] = True,
) -> None:
    """Start a web page with recommendations, similar items and explanations of a model."""
    missing = [name for name in SERVE_NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(f'this needs {" and ".join(missing)}: pip install "lorank[serve]"')
    from ..io.format_hints import check_is_local
    from ..serve.server import serve as run

    check_is_local(model)
    model_files.check_not_table(model)
    run(model, host, port, titles, browser)
