"""Models of the commands: MatrixCompletion for ratings and ImplicitFactorization for implicit feedback."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..common.checks import counted
from ..common.version import __version__
from .errors import UsageError
from .options import (
    ColFeatures,
    Device,
    Implicit,
    LossName,
    Nonnegative,
    Rank,
    Regularization,
    RowFeatures,
    Seed,
    check_device,
    check_word,
    integer_or_word,
    number_or_word,
)
from .output import print_columns, progress
from .sources import File, Partitions, Source, counted_passes

FITTING = "fitting (Ctrl-C ends with the best model so far)"


@dataclass(frozen=True)
class FitOptions:
    """Options that determine a model, as given on the command line."""

    rank: Rank = "auto"
    regularization: Regularization = "auto"
    loss: LossName = "squares"
    nonnegative: Nonnegative = False
    implicit: Implicit = False
    row_features: RowFeatures = None
    col_features: ColFeatures = None
    seed: Seed = 0
    device: Device = None
    exposure: str | None = None  # an option of ``complete`` alone

    def estimator(self) -> Estimator:
        """The model that the options ask for."""
        return ImplicitFeedback(self) if self.implicit else Ratings(self)

    def beyond_defaults(self, *names: str) -> Iterator[str]:
        """Those options among the named ones that were given, as on the command line."""
        default = FitOptions()
        return (f"--{name.replace('_', '-')}" for name in names if getattr(self, name) != getattr(default, name))


class Fit(NamedTuple):
    """A fit: the data in memory (None for partitions), numbers for JSON, and lines of text."""

    data: Any
    summary: dict[str, Any]
    lines: list[str]


class Ratings:
    """MatrixCompletion as the commands use it: to be fitted with options, or loaded from a file."""

    score, thing = "prediction", "row"

    def __init__(self, options: FitOptions | None = None, model: Any = None) -> None:
        self.options, self.model = options or FitOptions(), model

    def check(self, source: Source, report: Path | None = None) -> None:
        """Raise a UsageError for options that are invalid or do not apply, before data are read."""
        from ..losses import LOSSES, ROBUST, SQUARES

        check_word(self.options.loss, (SQUARES, ROBUST, *LOSSES), "--loss")
        check_device(self.options.device)
        self._rank_and_regularization()
        if isinstance(source, File):
            return
        in_memory = [*self.options.beyond_defaults("row_features", "col_features", "device", "exposure", "nonnegative")]
        for option in [*in_memory, *(["--report"] if report else [])]:
            raise UsageError(f"{option} needs the ratings in memory, not in partitions: leave it out, or pass files alone")
        if self.options.loss == ROBUST:
            raise UsageError("--loss robust needs the ratings in memory: for partitions use huber, cauchy or tukey")

    def _rank_and_regularization(self) -> tuple[Any, Any]:
        return (
            integer_or_word(self.options.rank, ("auto",), "--rank"),
            number_or_word(self.options.regularization, ("auto", "learned"), "--regularization"),
        )

    def unfitted(self, loss: Any = None) -> Any:
        """A MatrixCompletion with the options, or with another loss; without intervals for classes."""
        from ..estimators import MatrixCompletion
        from ..losses import ROBUST, resolve_loss

        options = self.options
        loss = loss or options.loss
        found = None if loss == ROBUST else resolve_loss(loss)
        classes = found is not None and found.discrete
        return MatrixCompletion(
            *self._rank_and_regularization(),
            intervals=not classes,
            random_state=options.seed,
            device=options.device,
            loss=loss,
            nonnegative=options.nonnegative,
        )

    def fit(self, source: Source) -> Fit:
        """Fit the model; it takes and returns the ids of the data."""
        data, more, lines = self._fit_file(source) if isinstance(source, File) else self._fit_partitions(source)
        model, summary = self.model, summarize(self.model) | more
        strength, loss = model.regularization_, self.options.loss
        strength = strength if isinstance(strength, str) else f"{strength:.3g}"
        rank = f"rank {model.rank_}" if model.rank_ else "rank 0 (biases only)"
        about = f"{rank}, regularization {strength}, {counted(model.n_iter_, 'sweep')}"
        found = [str(model.diagnosis_), about + ("" if loss == "squares" else f", loss {loss}")]
        if model.outliers_ is not None:
            summary["outliers"] = int(model.outliers_.sum())
            found.append(f"{counted(summary['outliers'], 'observation')} excluded as outliers")
        if held := summary.get("heldout"):
            found.append(
                f"on held-out values: RMSE {held['rmse']:.4f}, MAE {held['mae']:.4f} "
                f"(the mean alone: RMSE {held['rmse_of_the_mean']:.4f})"
            )
        return Fit(data, summary, found + lines)

    def _fit_file(self, source: File) -> Fit:
        data, weights, loss = source.read(), None, None
        print_columns(source.label, replace(data.columns, time=None))
        if self.options.exposure is not None:
            values, weights, loss = _rates(self.options.loss, data.values, data.times, self.options.exposure)
            data = replace(data, values=values)
        self.model = self.unfitted(loss)
        features = self.read_features(data)
        with progress(FITTING):
            if features:  # rows and columns that have features and no ratings belong to the model
                self.fit_frame(self.model, data, data.row_ids, data.col_ids, features, weights)
            else:
                self.model.fit(data.pairs, data.values, weights)
        self._set_names(data.columns, self.model.ids_ or {"rows": data.row_ids, "cols": data.col_ids})
        return Fit(data, {}, [])

    def _fit_partitions(self, source: Partitions) -> Fit:
        problem, columns = source.open()
        self.model = self.unfitted()
        with counted_passes(problem, FITTING) as counter:
            self.model.fit(problem)
        self._set_names(columns, self.model.ids_)
        summary = counter.summary()
        return Fit(None, summary, [f"{counted(summary['partitions'], 'partition')}, {counter.text()}"])

    def _set_names(self, columns: Any, ids: dict[str, np.ndarray] | None) -> None:
        labels = {"row": columns.row, "col": columns.col, "value": columns.value}
        self.model.state_ = replace(self.model.state_, ids=ids, labels=labels)

    def read_features(self, data: Any) -> dict[str, Any]:
        """Tables of features, as arguments of ``MatrixCompletion.fit``."""
        from ..io.side_features import read_side_features

        paths = {"row": (self.options.row_features, data.row_ids), "col": (self.options.col_features, data.col_ids)}
        return {
            f"{side}_features": read_side_features(path, getattr(data.columns, side), ids)
            for side, (path, ids) in paths.items()
            if path is not None
        }

    def fit_frame(self, model: Any, data: Any, row_ids: Any, col_ids: Any, features: Any, weights: Any = None) -> None:
        """Fit to ids, with features of rows and columns."""
        from ..io.delimited_text import polars

        row, col, value = data.columns.row, data.columns.col, str(data.columns.value)
        columns = {row: row_ids[data.rows].tolist(), col: col_ids[data.cols].tolist(), value: data.values}
        model.fit(polars().DataFrame(columns), sample_weight=weights, rows=row, cols=col, values=value, **features)

    def prepare_ranking(self) -> None:
        """Fit the ranking model where the model has none: after Ctrl-C in ``complete``, and for models of partitions."""
        if self.model.state_.ranking is None:
            with progress("fitting the ranking model"):
                self.model.fit_ranking()

    @property
    def ids(self) -> tuple[np.ndarray, np.ndarray]:
        """Ids of rows and columns; indices if the model has none."""
        n1, n2 = self.model.model_.shape
        return (np.arange(n1), np.arange(n2)) if self.model.ids_ is None else (self.model.ids_["rows"], self.model.ids_["cols"])

    @property
    def labels(self) -> tuple[str, str]:
        """Names of the columns of ids in tables of recommendations."""
        labels = self.model.state_.labels or {}
        return labels.get("row") or "row", labels.get("col") or "col"

    def recommend(
        self, rows: np.ndarray, n: int, order: str | None = None, include_seen: bool = False, seen: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ids of the n best columns of each row, and their scores; nan where there are fewer columns.

        Parameters
        ----------
        rows : (k,) integer array
        n : int
        order : {"affinity", "similarity", "popularity", "rating"}, optional
            By default the order that was selected on held-out lists.
        include_seen : bool
        seen : (indptr, indices), optional
            Columns that the rows have observed, for models that do not hold their data.
        """
        order = order or ("auto" if self.model.state_.training is not None and seen is None else "rating")
        if order != "rating":
            self.prepare_ranking()
        cols, scores = self.model.state_.recommend(rows, n, exclude_seen=not include_seen, by=order, seen=seen)
        return self.ids[1][np.maximum(cols, 0)], scores


class ImplicitFeedback:
    """ImplicitFactorization as the commands use it; methods as those of :class:`Ratings`."""

    score, thing, labels = "score", "user", ("user", "item")

    def __init__(self, options: FitOptions | None = None, model: Any = None) -> None:
        self.options, self.model = options or FitOptions(), model

    def check(self, source: Source, report: Path | None = None) -> None:
        given = [*self.options.beyond_defaults("loss", "exposure", "device", "nonnegative", "row_features", "col_features")]
        for option in [*given, *(["--report"] if report else [])]:
            raise UsageError(f"{option} is for ratings: leave it out with --implicit")
        self.unfitted()

    def unfitted(self) -> Any:
        """An ImplicitFactorization with the options."""
        from ..estimators import ImplicitFactorization

        rank = integer_or_word(self.options.rank, ("auto",), "--rank")
        strength = number_or_word(self.options.regularization, ("auto",), "--regularization")
        return ImplicitFactorization(rank, strength, random_state=self.options.seed)

    def fit(self, source: Source) -> Fit:
        assert isinstance(source, Partitions)
        self.model = model = self.unfitted()
        problem, _ = source.open()
        with counted_passes(problem, FITTING) as counter:
            model.fit(problem)
        summary = summarize(model) | counter.summary()
        users, items = summary["shape"]
        lines = [
            f"{counted(problem.m, 'pair')} of {counted(users, 'user')} and {counted(items, 'item')}",
            f"rank {model.rank_}, regularization {model.regularization_:.3g}, weight of unobserved pairs {model.zeros_:.3g}, "
            f"{counted(model.n_iter_, 'sweep')}",
        ]
        if model.curve_:
            best = max(c.ndcg for c in model.curve_)
            lines.append(f"NDCG@20 on held-out pairs: {best:.4f}, the best of {counted(len(model.curve_), 'setting')}")
        return Fit(None, summary, [*lines, f"{counted(summary['partitions'], 'partition')}, {counter.text()}"])

    def prepare_ranking(self) -> None:
        pass

    @property
    def ids(self) -> tuple[np.ndarray, np.ndarray]:
        return self.model.user_ids_, self.model.item_ids_

    def recommend(
        self, rows: np.ndarray, n: int, order: str | None = None, include_seen: bool = False, seen: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        if order == "rating":
            raise UsageError("--order-by rating is for models of ratings: leave it out for implicit feedback")
        items, scores = self.model.state_.recommend(rows, n, exclude_seen=not include_seen, by=order or "auto", seen=seen)
        return self.ids[1][np.maximum(items, 0)], scores


Estimator = Ratings | ImplicitFeedback


def _rates(loss_name: str, counts: np.ndarray, exposures: Any, column: str) -> tuple[np.ndarray, np.ndarray, Any]:
    """Counts divided by exposures, exposures as weights, and the loss for rates."""
    from ..backends import backend_of
    from ..losses import resolve_loss

    if loss_name != "poisson":
        raise UsageError("--exposure is for counts: add --loss poisson, or leave it out")
    if exposures.dtype.kind == "M":
        raise ValueError(f"{column} holds dates: exposures are positive numbers")
    bad = ~((exposures > 0) & np.isfinite(exposures))
    if bad.any():
        k = int(np.flatnonzero(bad)[0])
        raise ValueError(f"{column} of observation {k + 1} is {exposures[k]:g}: exposures are positive numbers")
    loss: Any = resolve_loss(loss_name)
    loss.prepare(counts, backend_of(counts))  # raises an error for values that are not counts
    return counts / exposures, exposures, replace(loss, rates=True)


def summarize(model: Any) -> dict[str, Any]:
    """Numbers of a fitted model, for JSON."""
    from ..estimators import EASE, ImplicitFactorization, MatrixCompletion
    from ..tables import TensorImputer

    summary: dict[str, Any] = {"lorank": __version__, "class": type(model).__name__}
    if isinstance(model, (ImplicitFactorization, EASE)):
        summary |= {
            "shape": [len(model.user_ids_), len(model.item_ids_)],
            "pairs": int(model.state_.user_counts.sum()),
            "rank": model.rank_,
            "regularization": model.regularization_,
        }
        if isinstance(model, EASE):
            return summary
        return summary | {
            "order": model.order_,
            "zeros": model.zeros_,
            "sweeps": model.n_iter_,
            "curve": [vars(c) for c in model.curve_],
        }
    if isinstance(model, TensorImputer):
        own: dict[str, Any] = {"shape": list(model.shape_), "names": model.names_, "method": model.method_, "mode": model.mode_}
        own |= {"rank": list(model.rank_), "quality": model.quality_, "noise": model.noise_}
        return summary | own | {"curve": [vars(c) for c in model.curve_]}
    if not isinstance(model, MatrixCompletion):
        about = {"method": model.method, "columns": len(model.means_), "rank": model.rank_}
        return summary | about | {"names": getattr(model, "feature_names_in_", None)}
    summary |= {
        "shape": list(model.model_.shape),
        "observations": model.diagnosis_.observations,
        "rank": model.rank_,
        "regularization": model.regularization_,
        "sweeps": model.n_iter_,
        "loss": "squares" if model.loss_ is None else model.loss_.parameters(),
        "bounds": list(model.bounds_) if model.bounds_ else None,
        "intervals": bool(len(model.state_.calibration)),
        "diagnosis": model.diagnosis_.to_dict(),
        "curve": [vars(c) for c in model.curve_],
    }
    if model.heldout_ is not None and len(model.heldout_[0]):  # empty after an early Ctrl-C
        truth, guess, _ = model.heldout_
        centred = model.loss_ is None and not model.nonnegative  # else mean_ is not the mean of the values
        summary["heldout"] = {
            "observations": len(truth),
            "rmse": float(np.sqrt(np.mean((truth - guess) ** 2))),
            "mae": float(np.mean(np.abs(truth - guess))),
            "rmse_of_the_mean": float(np.sqrt(np.mean((truth - (model.mean_ if centred else truth.mean())) ** 2))),
        }
    return summary
