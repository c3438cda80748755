"""``lorank complete``, ``predict``, ``recommend``, ``diagnose`` and ``inspect``."""
# No "from __future__ import annotations" here: typer reads the annotations, and is known only where they are written.

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from . import large, taken
from .common import busy, for_people, number_or, show_json, table, whole_or

if TYPE_CHECKING:
    import typer


def register(app: "typer.Typer") -> None:
    """Add the commands to a typer application."""
    import typer

    Row = Annotated[str | None, typer.Option("--row", help="The column with rows (users, say).")]
    Col = Annotated[str | None, typer.Option("--col", help="The column with columns (movies, say).")]
    Memory = Annotated[
        str | None, typer.Option(help="Pass over the files block by block, with factors in at most this, 2GB for example.")
    ]
    Cluster = Annotated[
        str | None, typer.Option(help="Compute with Dask: the scheduler's address, tcp://..., or local for all cores.")
    ]
    Folder = Annotated[Path | None, typer.Option("--folder", help="Keep the partitions here, to be used again.")]
    Duplicates = Annotated[str, typer.Option(help="In partitions, what a repeated pair means: error, mean, last or sum.")]
    Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
    Model = Annotated[Path, typer.Argument(help="A model that complete wrote.")]

    @app.command()
    def complete(
        file: Annotated[
            str,
            typer.Argument(
                help="Ratings: CSV, TSV, Parquet, Matrix Market or NPZ; also 'folder/*.parquet', a folder of files, or one of "
                "partitions."
            ),
        ],
        row: Row = None,
        col: Col = None,
        value: Annotated[str | None, typer.Option("--value", help="The column with values (ratings, say).")] = None,
        rank: Annotated[str, typer.Option(help="Factors of each row and column, or auto.")] = "auto",
        regularization: Annotated[str, typer.Option(help="A strength, learned or auto.")] = "auto",
        loss: Annotated[
            str,
            typer.Option(
                help="squares, robust (finds outliers), huber, absolute, cauchy, tukey, logistic (yes/no), ordinal (stars) or "
                "poisson (counts)."
            ),
        ] = "squares",
        nonnegative: Annotated[
            bool, typer.Option("--nonnegative", help="Factors that are never negative: values are sums of parts.")
        ] = False,
        exposure: Annotated[
            str | None, typer.Option(help="With --loss poisson: the column with exposures; means are these times rates.")
        ] = None,
        out: Annotated[Path | None, typer.Option("-o", "--out", help="Where the model goes.")] = None,
        report: Annotated[Path | None, typer.Option("--report", help="Where a page about it goes, an HTML file.")] = None,
        row_features: Annotated[
            Path | None, typer.Option("--row-features", help="What is known of rows: a table with their ids in a column.")
        ] = None,
        col_features: Annotated[Path | None, typer.Option("--col-features", help="The same of columns.")] = None,
        seed: Annotated[int, typer.Option(help="Same seed, same model.")] = 0,
        device: Annotated[str | None, typer.Option(help="Fit there with PyTorch: cuda, for example.")] = None,
        memory: Memory = None,
        cluster: Cluster = None,
        folder: Folder = None,
        duplicates: Duplicates = "error",
        implicit: Annotated[
            bool, typer.Option("--implicit", help="Who took what, not ratings: each line counts once, or --value times.")
        ] = False,
        as_json: Json = False,
    ) -> None:
        """Fit a model to ratings: predicts any row and column, with intervals."""
        with for_people():
            where = large.Where(memory, cluster, folder, duplicates)
            if implicit:
                _check_places(out)
                taken.without(
                    loss=loss,
                    exposure=exposure,
                    report=report,
                    device=device,
                    row_features=row_features,
                    col_features=col_features,
                )
                given: dict[str, Any] = {"rank": rank, "regularization": regularization}
                taken.complete(file, (row, col, value), where, **given, out=out, seed=seed, as_json=as_json)
                return
            if large.wants_partitions(file, where):
                _check_places(out, report)
                if row_features is not None or col_features is not None:
                    raise ValueError("--row-features and --col-features need the ratings in memory: leave them out here")
                if report is not None or device is not None:
                    raise ValueError("--report and --device need the ratings in memory: leave them out for partitions")
                if nonnegative:
                    raise ValueError("--nonnegative needs the ratings in memory: leave it out for partitions")
                if exposure is not None:
                    raise ValueError("--exposure needs the counts in memory: leave it out for partitions")
                options: dict[str, Any] = {"rank": rank, "regularization": regularization, "loss": loss}
                large.complete(file, (row, col, value), where, **options, out=out, seed=seed, as_json=as_json)
                return
            sides = row_features, col_features
            run_complete(
                Path(file),
                row,
                col,
                value,
                rank,
                regularization,
                out,
                report,
                seed,
                as_json,
                device,
                loss,
                exposure,
                sides,
                nonnegative,
            )

    @app.command()
    def predict(
        model: Model,
        file: Annotated[str, typer.Argument(help="Pairs of row and column to predict at; also a folder or 'pairs/*.parquet'.")],
        out: Annotated[
            Path, typer.Option("-o", "--out", help="Where predictions go: a CSV file, or a .parquet folder written in parts.")
        ],
        row: Row = None,
        col: Col = None,
        interval: Annotated[float | None, typer.Option(help="Also bounds with this coverage, e.g. 0.9.")] = None,
        as_json: Json = False,
    ) -> None:
        """Predict at pairs of row and column."""
        with for_people():
            run_predict(model, file, out, row, col, interval, as_json)

    @app.command()
    def recommend(
        model: Model,
        row: Annotated[str | None, typer.Option("--row", help="Whom for: an id as in the ratings.")] = None,
        n: Annotated[int, typer.Option("-n", help="How many.")] = 10,
        by: Annotated[
            str | None, typer.Option(help="taste: what it would take and like (default); rating: the largest predictions.")
        ] = None,
        every: Annotated[bool, typer.Option("--all", help="For all rows, written to -o in blocks.")] = False,
        out: Annotated[Path | None, typer.Option("-o", "--out", help="With --all: a CSV file, or a .parquet folder.")] = None,
        ratings: Annotated[
            Path | None, typer.Option("--ratings", help="With --all: the folder of partitions that says what was seen.")
        ] = None,
        seen: Annotated[bool, typer.Option("--seen", help="Also what the row has observations of.")] = False,
        as_json: Json = False,
    ) -> None:
        """The best columns for a row."""
        with for_people():
            if every == (row is not None) or every == (out is None):
                raise ValueError("recommend takes --row ID, or --all with -o FILE for every row")
            if every:
                assert out is not None
                fitted = load_model(model)
                if taken.is_implicit(fitted):
                    count = taken.recommend_all(fitted, out, n, seen, ratings)
                else:
                    count = large.recommend_all(as_ratings(fitted, model), out, n, by, seen, ratings)
                if as_json:
                    show_json({"rows": count, "out": str(out)})
                else:
                    print(f"recommendations for {count:,} rows in {out}")
                return
            run_recommend(model, str(row), n, by or "taste", seen, as_json)

    @app.command()
    def diagnose(
        file: Annotated[str, typer.Argument(help="Ratings, as for complete.")],
        row: Row = None,
        col: Col = None,
        value: Annotated[str | None, typer.Option("--value", help="The column with values.")] = None,
        rank: Annotated[int, typer.Option(help="At this rank.")] = 10,
        memory: Memory = None,
        cluster: Cluster = None,
        folder: Folder = None,
        duplicates: Duplicates = "error",
        as_json: Json = False,
    ) -> None:
        """Say what ratings allow, without fitting anything."""
        with for_people():
            where = large.Where(memory, cluster, folder, duplicates)
            if large.wants_partitions(file, where):
                _say_diagnosis(large.diagnose(file, (row, col, value), where, rank), as_json)
            else:
                run_diagnose(Path(file), row, col, value, rank, as_json)

    @app.command()
    def inspect(model: Annotated[Path, typer.Argument(help="A model file.")], as_json: Json = False) -> None:
        """Say what a model file holds."""
        with for_people():
            run_inspect(model, as_json)


def run_complete(
    file: Path,
    row: str | None,
    col: str | None,
    value: str | None,
    rank: str,
    regularization: str,
    out: Path | None,
    report: Path | None,
    seed: int,
    as_json: bool,
    device: str | None = None,
    loss: str = "squares",
    exposure: str | None = None,
    sides: tuple[Path | None, Path | None] = (None, None),
    nonnegative: bool = False,
) -> None:
    """Read, diagnose, fit, say how well, and write what was asked for."""
    from ..datafiles import read_ratings
    from ..datafits import ROBUST, resolve_loss
    from ..estimators import MatrixCompletion

    options = whole_or(rank, ("auto",), "rank"), number_or(regularization, ("auto", "learned"), "regularization")
    _check_places(out, report)
    begin = time.perf_counter()
    with busy("reading"):
        data = read_ratings(file, row, col, value, exposure)
    chosen = None if loss == ROBUST else resolve_loss(loss)
    weights = None
    if exposure is not None:
        values, weights, chosen = _rates(chosen, data.values, data.times, exposure)
        data = replace(data, values=values)
    distinct = np.unique(data.values[: 1 << 20])
    classes = chosen is not None and chosen.discrete  # which have no bounds but their own, and probabilities for intervals
    bounds = (float(data.values.min()), float(data.values.max())) if 1 < len(distinct) <= 20 and not classes else None
    model = MatrixCompletion(
        *options,
        bounds=bounds,
        intervals=not classes,
        random_state=seed,
        device=device,
        loss=loss if weights is None else chosen,
        holdout=0.1,
        nonnegative=nonnegative,
    )
    features = _side_tables(sides, data)
    with busy("fitting"):
        if features:
            fit_with_features(model, data, features, weights)
        else:
            model.fit(data.pairs, data.values, weights)
    model.ids_ = model.ids_ or {"rows": data.row_ids, "cols": data.col_ids}  # from here on it takes and gives the file's ids
    model.labels_ = {"row": data.columns.row, "col": data.columns.col, "value": data.columns.value}
    summary = summarize(model)
    summary |= {"file": str(file), "seconds": time.perf_counter() - begin}
    if model.outliers_ is not None:
        summary["outliers"] = int(model.outliers_.sum())
    if out is not None:
        from ..estimators.recommending import tasted

        with busy("learning what is taken and liked"):
            tasted(model)
        model.save(out)
        summary["model"] = str(out)
    if report is not None:
        from ..report.page import write_page
        from ..report.ranking import ranking_section
        from .ranking import ranked_again

        ranking = ranked_again(data, model, seed)
        part = None if ranking is None else ranking_section(ranking)
        with busy("writing the report"):
            write_page(report, model, data.rows, data.cols, data.values, title=file.name, more=part)
        summary["report"] = str(report)
    if as_json:
        show_json(summary)
        return
    say_fit(model, summary, loss)


def _rates(loss: Any, counts: np.ndarray, exposures: Any, column: str) -> tuple[np.ndarray, np.ndarray, Any]:
    """Counts over exposures, these as weights, and the loss that takes both."""
    from ..backends import backend_of

    if loss is None or loss.name != "poisson":
        raise ValueError("--exposure is for counts: add --loss poisson, or leave it out")
    bad = ~((exposures > 0) & np.isfinite(exposures))
    if bad.any():
        k = int(np.flatnonzero(bad)[0])
        raise ValueError(f"{column} of observation {k + 1} is {exposures[k]:g}: exposures are positive numbers")
    loss.prepare(counts, backend_of(counts))  # refuses what are no counts
    return counts / exposures, exposures, replace(loss, rates=True)


def _side_tables(sides: tuple[Path | None, Path | None], data: Any) -> dict[str, Any]:
    """Features of rows and columns from files."""
    from ..datafiles.sides import read_side

    asked = zip(("row", "col"), sides, (data.row_ids, data.col_ids), strict=True)
    return {
        f"{side}_features": read_side(path, getattr(data.columns, side), ids) for side, path, ids in asked if path is not None
    }


def fit_with_features(model: Any, data: Any, features: dict[str, Any], weights: Any = None) -> None:
    """Fit to the file's ids, those that have features and no ratings among them."""
    from ..datafiles.text import polars

    names = data.columns
    columns = {
        names.row: data.row_ids[data.rows].tolist(),
        names.col: data.col_ids[data.cols].tolist(),
        str(names.value): data.values,
    }
    options = {"rows": names.row, "cols": names.col, "values": str(names.value)}
    model.fit(polars().DataFrame(columns), sample_weight=weights, **options, **features)


def _check_places(*paths: Path | None) -> None:
    for path in paths:
        if path is not None and not path.parent.is_dir():
            raise ValueError(f"{path}: the folder {path.parent} does not exist")


def say_fit(model: Any, summary: dict[str, Any], loss: str) -> None:
    """What was fitted, and how well it predicts."""
    print(model.diagnosis_)
    said = "" if loss == "squares" else f", loss {loss}"
    print(f"rank {model.rank_}, regularization {_short(model.regularization_)}, {model.n_iter_} sweeps{said}")
    if summary.get("outliers") is not None:
        print(f"{summary['outliers']:,} observations were left out as outliers")
    held = summary.get("heldout")
    if held is not None:
        print(
            f"on held-out values: RMSE {held['rmse']:.4f}, MAE {held['mae']:.4f} "
            f"(the mean alone: RMSE {held['rmse_of_the_mean']:.4f})"
        )
    for key in ("model", "report"):
        if key in summary:
            print(f"{key}: {summary[key]}")


def run_predict(
    model: Path, file: str, out: Path, row: str | None, col: str | None, interval: float | None, as_json: bool
) -> None:
    """Predict at the pairs of a file."""
    from ..datafiles import read_pairs
    from ..datafiles.text import polars
    from ..files import atomic

    fitted = load_ratings(model)
    if out.suffix == ".parquet" or large.wants_partitions(file, large.Where()):
        count, unknown = large.predict(fitted, file, out, (row, col), interval)
        _say_predictions(count, unknown, out, as_json)
        return
    pl, labels = polars(), fitted.labels_ or {}
    names = _columns(Path(file)) if row is None or col is None else []
    row = row or (labels.get("row") if labels.get("row") in names else None)
    col = col or (labels.get("col") if labels.get("col") in names else None)
    rows, cols, found = read_pairs(file, row, col)
    if _are_ids(fitted, found.row, found.col):
        line = f"{found.row},{found.col}"
        raise ValueError(f"{file}: its first line, {line!r}, looks like a pair. Put one with names above it, such as user,item")
    pairs = pl.DataFrame({"row": as_known(fitted, "rows", rows), "col": as_known(fitted, "cols", cols)})
    columns = {found.row: rows, found.col: cols, "prediction": fitted.predict(pairs)}
    if interval is not None:
        columns["low"], columns["high"] = fitted.predict_interval(pairs, interval)
    columns["known"] = fitted.known(pairs)
    with atomic(out) as temporary:
        pl.DataFrame(columns).write_csv(temporary)
    _say_predictions(len(rows), int((~columns["known"]).sum()), out, as_json)


def _are_ids(fitted: Any, row: str, col: str) -> bool:
    """Whether what should be names of columns are ids of the model, both."""
    return all(
        as_known(fitted, side, np.array([one]))[0] in ids_of(fitted, side) for side, one in (("rows", row), ("cols", col))
    )


def _say_predictions(count: int, unknown: int, out: Path, as_json: bool) -> None:
    if as_json:
        show_json({"predictions": count, "unknown": unknown, "out": str(out)})
    else:
        print(f"{count:,} predictions in {out}" + (f", {unknown:,} of rows or columns never observed" if unknown else ""))


def run_recommend(model: Path, row: str, n: int, by: str, seen: bool, as_json: bool) -> None:
    """The best columns of a row."""
    found = load_model(model)
    if taken.is_implicit(found):
        taken.recommend(found, row, n, seen, as_json)
        return
    fitted = as_ratings(found, model)
    asked = as_known(fitted, "rows", np.array([row]))
    if asked[0] not in ids_of(fitted, "rows"):
        raise ValueError(f"{row!r} is no row of the model: see lorank inspect {model} for some that are")
    best, scores = fitted.recommend(asked, n, exclude_seen=not seen, by=by)
    keep = ~np.isnan(scores[0])
    ids, values = best[0][keep], scores[0][keep]
    if as_json:
        show_json({"row": row, "recommendations": [{"col": c, "prediction": v} for c, v in zip(ids, values, strict=True)]})
    else:
        table(
            ["", (fitted.labels_ or {}).get("col", "col"), "prediction"],
            [[k + 1, c, f"{v:.3f}"] for k, (c, v) in enumerate(zip(ids, values, strict=True))],
        )


def run_diagnose(file: Path, row: str | None, col: str | None, value: str | None, rank: int, as_json: bool) -> None:
    """What the ratings of a file allow."""
    import scipy.sparse

    from ..datafiles import read_ratings
    from ..diagnosis import diagnose

    data = read_ratings(file, row, col, value)
    shape = len(data.row_ids), len(data.col_ids)
    found = diagnose(scipy.sparse.coo_array((data.values, (data.rows, data.cols)), shape), min(rank, *shape))
    _say_diagnosis(found, as_json)


def _say_diagnosis(found: Any, as_json: bool) -> None:
    if as_json:
        show_json(found.to_dict())
    else:
        print(found)


def run_inspect(path: Path, as_json: bool) -> None:
    """What a model file holds."""
    from ..estimators.completion import MatrixCompletion
    from ..estimators.files import load_estimator

    model = load_estimator(path)
    if isinstance(model, MatrixCompletion):
        summary = summarize(model)
        summary["some_rows"] = ids_of(model, "rows")[:5]
        summary["labels"] = model.labels_
    elif type(model).__name__ == "ImplicitFactorization":
        summary = {
            "class": "ImplicitFactorization",
            "shape": [len(model.user_ids_), len(model.item_ids_)],
            "pairs": len(model._counts),
            "rank": model.item_factors_.shape[1],
            "regularization": model.regularization_,
            "zeros": model.zeros_,
            "sweeps": model.n_iter_,
            "some_rows": model.user_ids_[:5],
        }
    else:
        names = getattr(model, "feature_names_in_", None)
        summary = {"class": type(model).__name__, "columns": len(model.means_), "rank": model.rank_, "names": names}
    if as_json:
        show_json(summary)
        return
    for key, content in summary.items():
        if content is not None and key not in ("curve", "diagnosis"):
            print(f"{key:>16}  {', '.join(map(str, content)) if isinstance(content, (list, np.ndarray)) else content}")


def summarize(model: Any) -> dict[str, Any]:
    """A fitted MatrixCompletion in numbers."""
    from .._version import __version__

    summary: dict[str, Any] = {
        "lorank": __version__,
        "class": "MatrixCompletion",
        "shape": list(model.model_.shape),
        "observations": model.diagnosis_.observations,
        "rank": model.rank_,
        "regularization": model.regularization_,
        "sweeps": model.n_iter_,
        "loss": "squares" if model.loss_ is None else model.loss_.parameters(),
        "bounds": list(model.bounds) if model.bounds else None,
        "intervals": bool(len(model.calibration_)),
        "diagnosis": model.diagnosis_.to_dict(),
        "curve": [vars(c) for c in model.curve_],
    }
    if model.heldout_ is not None:
        truth, guess, _ = model.heldout_
        summary["heldout"] = {
            "observations": len(truth),
            "rmse": float(np.sqrt(np.mean((truth - guess) ** 2))),
            "mae": float(np.mean(np.abs(truth - guess))),
            "rmse_of_the_mean": float(np.sqrt(np.mean((truth - (model.mean_ if model.loss_ is None else truth.mean())) ** 2))),
        }
    return summary


def load_model(path: Path) -> Any:
    """A model from a file, of whatever kind."""
    from ..estimators.files import load_estimator

    return load_estimator(path)


def load_ratings(path: Path) -> Any:
    """A MatrixCompletion from a file."""
    return as_ratings(load_model(path), path)


def as_ratings(model: Any, path: Path) -> Any:
    """The model of a file, where it is one of ratings."""
    from ..estimators.completion import MatrixCompletion
    from ..files import FileError

    if not isinstance(model, MatrixCompletion):
        kind = "what was taken" if type(model).__name__ == "ImplicitFactorization" else "a table"
        raise FileError(f"{path} is a model of {kind}, not of ratings")
    return model


def _columns(file: Path) -> list[str]:
    """The names of a file's columns, where it is text."""
    from ..datafiles.ratings import TEXT
    from ..datafiles.text import head

    return head(file, None)[1] if any(s.lower() in TEXT for s in file.suffixes) else []


def ids_of(model: Any, side: str) -> np.ndarray:
    """What a model's rows or columns are called; numbers from 0 on, where nothing else."""
    return np.arange(model.model_.shape[side == "cols"]) if model.ids_ is None else np.asarray(model.ids_[side])


def as_known(model: Any, side: str, ids: np.ndarray) -> np.ndarray:
    """Ids from a file or a shell as the model has them: numbers or text; indices, where it has none."""
    from ..datafiles.ratings import alike, places

    return places(ids, ids_of(model, side)) if model.ids_ is None else alike(ids, ids_of(model, side))


def _short(strength: Any) -> str:
    return strength if isinstance(strength, str) else f"{strength:.3g}"
