"""``lorank complete`` and ``diagnose``: a model of the ratings in a file, and what they allow."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..common.checks import counted
from .model_files import summarize
from .output import (
    INTERRUPTED,
    MODEL,
    PAGE,
    Misuse,
    all_files,
    busy,
    check_device,
    check_place,
    in_options,
    named,
    number_or,
    say_columns,
    show_json,
    tell,
    whole_or,
    word,
)

ENDS_EARLY = "Ctrl-C ends it with the best model so far"


@dataclass(frozen=True)
class Request:
    """What ``lorank complete`` was asked for."""

    files: list[str]
    columns: tuple[str | None, str | None, str | None]
    rank: str = "auto"
    regularization: str = "auto"
    loss: str = "squares"
    exposure: str | None = None
    features: tuple[Path | None, Path | None] = (None, None)
    out: Path | None = None
    report: Path | None = None
    seed: int = 0
    device: str | None = None
    as_json: bool = False
    nonnegative: bool = False

    def options(self) -> tuple[int | str, float | str]:
        """Rank and regularization, after all has been checked that can be before anything is read."""
        from ..losses import LOSSES, ROBUST, SQUARES

        word(self.loss, (SQUARES, ROBUST, *LOSSES), "--loss")
        check_place(self.out, MODEL, "a model")
        check_place(self.report, PAGE, "a report", "--report")
        check_device(self.device)
        rank = whole_or(self.rank, ("auto",), "rank")
        return rank, number_or(self.regularization, ("auto", "learned"), "regularization")

    def in_memory(self) -> None:
        """Refuse what partitions have not."""
        asked: dict[str, Any] = {
            "--row-features": self.features[0],
            "--col-features": self.features[1],
            "--report": self.report,
        }
        asked |= {"--device": self.device, "--exposure": self.exposure, "--nonnegative": self.nonnegative or None}
        for option, value in asked.items():
            if value is not None:
                raise Misuse(
                    f"{option} needs the ratings in memory, not in partitions: leave it out here, or give the files alone"
                )
        if self.loss == "robust":
            raise Misuse("--loss robust needs the ratings in memory: for partitions take huber, cauchy or tukey")


def run_complete(request: Request) -> int:
    """Read, fit, say how well, and write what was asked for; returns the exit code."""
    from ..estimators import MatrixCompletion
    from ..io import read_ratings
    from ..losses import ROBUST, resolve_loss

    options, loss, file = request.options(), request.loss, named(request.files)
    begin = time.perf_counter()
    with busy("reading"):
        data = read_ratings(all_files(request.files), *request.columns, request.exposure)
    say_columns(file, replace(data.columns, time=None))
    chosen = None if loss == ROBUST else resolve_loss(loss)
    weights = None
    if request.exposure is not None:
        values, weights, chosen = _rates(chosen, data.values, data.times, request.exposure)
        data = replace(data, values=values)
    model = MatrixCompletion(
        *options,
        **bounds_and_intervals(np.unique(data.values[: 1 << 20]), data.values, chosen),
        random_state=request.seed,
        device=request.device,
        loss=loss if weights is None else chosen,
        holdout=0.1,
        nonnegative=request.nonnegative,
    )
    features = _side_tables(request.features, data)
    with busy(f"fitting ({ENDS_EARLY})"):
        if features:
            fit_with_features(model, data, features, weights)
        else:
            model.fit(data.pairs, data.values, weights)
    model.ids_ = model.ids_ or {"rows": data.row_ids, "cols": data.col_ids}  # from here on it takes and gives the file's ids
    model.labels_ = {"row": data.columns.row, "col": data.columns.col, "value": data.columns.value}
    summary = summarize(model) | {"file": file, "seconds": time.perf_counter() - begin}
    if model.outliers_ is not None:
        summary["outliers"] = int(model.outliers_.sum())
    stopped = model.status_ == "interrupted"
    if request.out is not None:
        stopped = stopped or not _finished(_learn_taste, model)  # recommend can still do that
        model.save(request.out)
        summary["model"] = str(request.out)
    if request.report is not None and not stopped:
        stopped = not _finished(_write_report, request.report, model, data, Path(file).name, request.seed)
        summary |= {} if stopped else {"report": str(request.report)}
    return say_fit(model, summary, request, stopped=stopped)


def _finished(work: Callable[..., None], *arguments: Any) -> bool:
    """Do what follows a fit; False where Ctrl-C ended it, which must not cost the fit."""
    try:
        work(*arguments)
    except KeyboardInterrupt:
        return False
    return True


def bounds_and_intervals(some: np.ndarray, values: Any, loss: Any) -> dict[str, Any]:
    """A few different values are a scale, whose ends bound predictions; classes have probabilities for intervals."""
    classes = loss is not None and loss.discrete
    bounds = (float(values.min()), float(values.max())) if 1 < len(some) <= 20 and not classes else None
    return {"bounds": bounds, "intervals": not classes}


def _learn_taste(model: Any) -> None:
    from ..estimators.recommending import tasted

    with busy("learning what is taken and liked"):
        tasted(model)


def _write_report(path: Path, model: Any, data: Any, title: str, seed: int) -> None:
    from ..report.model_page import write_model_page
    from ..report.ranking_page import ranking_section
    from .ranking import ranked_again

    ranking = ranked_again(data, model, seed)
    part = None if ranking is None else ranking_section(ranking)
    with busy("writing the report"):
        write_model_page(path, model, data.rows, data.cols, data.values, title=title, more=part)


def _rates(loss: Any, counts: np.ndarray, exposures: Any, column: str) -> tuple[np.ndarray, np.ndarray, Any]:
    """Counts over exposures, these as weights, and the loss that takes both."""
    from ..backends import backend_of

    if loss is None or loss.name != "poisson":
        raise Misuse("--exposure is for counts: add --loss poisson, or leave it out")
    if exposures.dtype.kind == "M":
        raise ValueError(f"{column} holds dates: exposures are positive numbers")
    bad = ~((exposures > 0) & np.isfinite(exposures))
    if bad.any():
        k = int(np.flatnonzero(bad)[0])
        raise ValueError(f"{column} of observation {k + 1} is {exposures[k]:g}: exposures are positive numbers")
    loss.prepare(counts, backend_of(counts))  # refuses what are no counts
    return counts / exposures, exposures, replace(loss, rates=True)


def _side_tables(sides: tuple[Path | None, Path | None], data: Any) -> dict[str, Any]:
    """Features of rows and columns from files."""
    from ..io.side_features import read_side

    asked = zip(("row", "col"), sides, (data.row_ids, data.col_ids), strict=True)
    return {
        f"{side}_features": read_side(path, getattr(data.columns, side), ids) for side, path, ids in asked if path is not None
    }


def fit_with_features(model: Any, data: Any, features: dict[str, Any], weights: Any = None) -> None:
    """Fit to the file's ids, those that have features and no ratings among them."""
    from ..io.delimited_text import polars

    names = data.columns
    columns = {
        names.row: data.row_ids[data.rows].tolist(),
        names.col: data.col_ids[data.cols].tolist(),
        str(names.value): data.values,
    }
    options = {"rows": names.row, "cols": names.col, "values": str(names.value)}
    model.fit(polars().DataFrame(columns), sample_weight=weights, **options, **features)


def say_fit(model: Any, summary: dict[str, Any], request: Request, more: str = "", stopped: bool = False) -> int:
    """What was fitted, how well it predicts and where it is; returns the exit code."""
    if request.as_json:
        show_json(summary)
    else:
        print(in_options(str(model.diagnosis_)))
        said = "" if request.loss == "squares" else f", loss {request.loss}"
        print(f"rank {model.rank_}, regularization {_short(model.regularization_)}, {counted(model.n_iter_, 'sweep')}{said}")
        if summary.get("outliers") is not None:
            print(f"{counted(summary['outliers'], 'observation was', 'observations were')} left out as outliers")
        held = summary.get("heldout")
        if held is not None:
            print(
                f"on held-out values: RMSE {held['rmse']:.4f}, MAE {held['mae']:.4f} "
                f"(the mean alone: RMSE {held['rmse_of_the_mean']:.4f})"
            )
        if more:
            print(more)
    return say_end(model, summary, request, stopped)


def say_end(model: Any, summary: dict[str, Any], request: Request, stopped: bool = False) -> int:
    """Where the model is, and whether Ctrl-C came before its end; returns the exit code."""
    if not request.as_json:
        for key in ("model", "report"):
            if key in summary:
                print(f"{key}: {summary[key]}")
        if request.out is None:
            print("the model was not saved: -o model.lorank does that")
    early = model.status_ == "interrupted"
    if not early and not stopped:
        return 0
    where = "and was not saved" if request.out is None else f"and is in {request.out}"
    tell(f"interrupted: the model is {'the best so far' if early else 'fitted'}, {where}")
    return INTERRUPTED


def _short(strength: Any) -> str:
    return strength if isinstance(strength, str) else f"{strength:.3g}"


def run_diagnose(files: list[str], columns: tuple[str | None, str | None, str | None], rank: int) -> Any:
    """What the ratings of one or more files allow."""
    import scipy.sparse

    from ..evaluation.diagnosis import diagnose
    from ..io import read_ratings

    data = read_ratings(all_files(files), *columns)
    say_columns(named(files), data.columns)
    shape = len(data.row_ids), len(data.col_ids)
    return diagnose(scipy.sparse.coo_array((data.values, (data.rows, data.cols)), shape), min(rank, *shape))


def say_diagnosis(found: Any, as_json: bool) -> None:
    """For people or programs."""
    if as_json:
        show_json(found.to_dict())
    else:
        print(in_options(str(found)))
