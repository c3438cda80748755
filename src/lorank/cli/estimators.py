"""Estimators of the commands: ratings (MatrixCompletion) and implicit feedback (ImplicitFactorization)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..common.checks import counted
from ..distributed.folder import Folder
from .errors import UsageError
from .options import check_device, check_word, integer_or_word, number_or_word
from .output import Output, print_columns, progress
from .sources import File, Partitions, Source, counted_passes, row_blocks, row_ranges

IMPLICIT_RANK = 64  # without --rank
FITTING = "fitting (Ctrl-C ends with the best model so far)"


@dataclass(frozen=True)
class FitOptions:
    """Options of ``lorank complete`` that determine the model, as given on the command line."""

    rank: str = "auto"
    regularization: str = "auto"
    loss: str = "squares"
    exposure: str | None = None
    row_features: Path | None = None
    col_features: Path | None = None
    nonnegative: bool = False
    seed: int = 0
    device: str | None = None

    def beyond_defaults(self, *names: str) -> Iterator[str]:
        """Those options among the named ones that were given, as on the command line."""
        default = FitOptions()
        return (f"--{name.replace('_', '-')}" for name in names if getattr(self, name) != getattr(default, name))


@dataclass
class Fit:
    """A fit: the data in memory (None for partitions), numbers for JSON, and lines of text."""

    data: Any = None
    summary: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


class Estimator(ABC):
    """A model as the commands use it: to be fitted, or loaded from a file.

    Parameters
    ----------
    options : FitOptions
    model : MatrixCompletion or ImplicitFactorization, optional
        The fitted model.
    """

    score: ClassVar[str]  # name of scores in tables and JSON

    def __init__(self, options: FitOptions | None = None, model: Any = None) -> None:
        self.options, self.model = options or FitOptions(), model

    @abstractmethod
    def check(self, source: Source, output: Output) -> None:
        """Raise a UsageError for options that are invalid or do not apply, before data are read."""

    @abstractmethod
    def fit(self, source: Source) -> Fit:
        """Fit the model."""

    @abstractmethod
    def prepare_ranking(self) -> None:
        """Fit whatever recommendations need beyond the model."""

    @property
    @abstractmethod
    def ids(self) -> tuple[np.ndarray, np.ndarray]:
        """Ids of rows and columns."""

    @property
    @abstractmethod
    def labels(self) -> tuple[str, str]:
        """Names of the columns of ids in tables of recommendations."""

    @abstractmethod
    def recommend(self, row: np.ndarray, n: int, include_seen: bool, order: str | None) -> tuple[np.ndarray, np.ndarray]:
        """Ids of the first n columns for one row, and their scores."""

    @abstractmethod
    def recommend_block(
        self, first: int, last: int, n: int, pattern: Any, include_seen: bool, order: str | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ids of the first n columns for a range of rows, and their scores; nan where there are fewer columns."""

    def blocks(self, folder: Folder | None, include_seen: bool) -> Iterator[tuple[int, int, Any]]:
        """Ranges of rows, with the pattern of their observations if partitions are given."""
        if folder is not None:
            yield from ((first, last, None if include_seen else pattern) for first, last, pattern in row_blocks(folder))
            return
        yield from ((first, last, None) for first, last in row_ranges(len(self.ids[0])))


class RatingsEstimator(Estimator):
    """MatrixCompletion."""

    score = "prediction"

    def check(self, source: Source, output: Output) -> None:
        from ..losses import LOSSES, ROBUST, SQUARES

        check_word(self.options.loss, (SQUARES, ROBUST, *LOSSES), "--loss")
        check_device(self.options.device)
        self._rank_and_regularization()
        if isinstance(source, File):
            return
        in_memory = [*self.options.beyond_defaults("row_features", "col_features", "device", "exposure", "nonnegative")]
        for option in [*in_memory, *(["--report"] if output.page else [])]:
            raise UsageError(f"{option} needs the ratings in memory, not in partitions: leave it out, or pass files alone")
        if self.options.loss == ROBUST:
            raise UsageError("--loss robust needs the ratings in memory: for partitions use huber, cauchy or tukey")

    def _rank_and_regularization(self) -> tuple[int | str, float | str]:
        return (
            integer_or_word(self.options.rank, ("auto",), "--rank"),
            number_or_word(self.options.regularization, ("auto", "learned"), "--regularization"),
        )

    def fit(self, source: Source) -> Fit:
        fit = self._fit_file(source) if isinstance(source, File) else self._fit_partitions(source)
        from .model_files import summarize_ratings

        fit.summary = summarize_ratings(self.model) | fit.summary
        loss = "" if self.options.loss == "squares" else f", loss {self.options.loss}"
        strength = self.model.regularization_
        strength = strength if isinstance(strength, str) else f"{strength:.3g}"
        lines = [str(self.model.diagnosis_)]
        lines.append(f"rank {self.model.rank_}, regularization {strength}, {counted(self.model.n_iter_, 'sweep')}{loss}")
        if self.model.outliers_ is not None:
            fit.summary["outliers"] = int(self.model.outliers_.sum())
            lines.append(f"{counted(fit.summary['outliers'], 'observation')} excluded as outliers")
        if held := fit.summary.get("heldout"):
            lines.append(
                f"on held-out values: RMSE {held['rmse']:.4f}, MAE {held['mae']:.4f} "
                f"(the mean alone: RMSE {held['rmse_of_the_mean']:.4f})"
            )
        fit.lines = lines + fit.lines
        return fit

    def _fit_file(self, source: File) -> Fit:
        from ..estimators import MatrixCompletion
        from ..losses import ROBUST, resolve_loss

        options = self.options
        data = source.read()
        print_columns(source.label, replace(data.columns, time=None))
        loss = None if options.loss == ROBUST else resolve_loss(options.loss)
        weights = None
        if options.exposure is not None:
            values, weights, loss = _rates(loss, data.values, data.times, options.exposure)
            data = replace(data, values=values)
        self.model = MatrixCompletion(
            *self._rank_and_regularization(),
            **_bounds_and_intervals(np.unique(data.values[: 1 << 20]), data.values, loss),
            random_state=options.seed,
            device=options.device,
            loss=options.loss if weights is None else loss,
            holdout=0.1,
            nonnegative=options.nonnegative,
        )
        features = self._read_features(data)
        with progress(FITTING):
            if features:
                self._fit_with_features(data, features, weights)
            else:
                self.model.fit(data.pairs, data.values, weights)
        self._set_names(data.columns, self.model.ids_ or {"rows": data.row_ids, "cols": data.col_ids})
        return Fit(data)

    def _fit_partitions(self, source: Partitions) -> Fit:
        from ..estimators import MatrixCompletion
        from ..factorization.folds import some_of
        from ..losses import resolve_loss

        problem, columns = source.open()
        some = np.unique(some_of(problem, 1 << 20)[2])
        bounds = _bounds_and_intervals(some, problem.y, resolve_loss(self.options.loss))
        seed, loss = self.options.seed, self.options.loss
        self.model = MatrixCompletion(*self._rank_and_regularization(), **bounds, random_state=seed, loss=loss, holdout=0.1)
        with counted_passes(problem, FITTING) as counter:
            self.model.fit(problem)
        self._set_names(columns, self.model.ids_)
        summary = counter.summary()
        return Fit(None, summary, [f"{counted(summary['partitions'], 'partition')}, {counter.text()}"])

    def _set_names(self, columns: Any, ids: dict[str, np.ndarray] | None) -> None:
        """Let the model take and return the ids of the file."""
        labels = {"row": columns.row, "col": columns.col, "value": columns.value}
        self.model.state_ = replace(self.model.state_, ids=ids, labels=labels)

    def _read_features(self, data: Any) -> dict[str, Any]:
        from ..io.side_features import read_side_features

        paths = {"row": (self.options.row_features, data.row_ids), "col": (self.options.col_features, data.col_ids)}
        return {
            f"{side}_features": read_side_features(path, getattr(data.columns, side), ids)
            for side, (path, ids) in paths.items()
            if path is not None
        }

    def _fit_with_features(self, data: Any, features: dict[str, Any], weights: Any) -> None:
        """Fit to the file's ids: rows and columns that have features and no ratings belong to the model."""
        from ..io.delimited_text import polars

        row, col, value = data.columns.row, data.columns.col, str(data.columns.value)
        columns = {row: data.row_ids[data.rows].tolist(), col: data.col_ids[data.cols].tolist(), value: data.values}
        self.model.fit(polars().DataFrame(columns), sample_weight=weights, rows=row, cols=col, values=value, **features)

    def prepare_ranking(self) -> None:
        self._ensure_ranking()

    def _ensure_ranking(self) -> None:
        """Fit the ranking model where the model has none: after Ctrl-C in ``complete``, and for models of partitions."""
        if self.model.state_.ranking is None:
            with progress("fitting the ranking model"):
                self.model.fit_ranking()

    @property
    def ids(self) -> tuple[np.ndarray, np.ndarray]:
        from .model_files import ids_of

        return ids_of(self.model, "rows"), ids_of(self.model, "cols")

    @property
    def labels(self) -> tuple[str, str]:
        labels = self.model.state_.labels or {}
        return labels.get("row") or "row", labels.get("col") or "col"

    def recommend(self, row: np.ndarray, n: int, include_seen: bool, order: str | None) -> tuple[np.ndarray, np.ndarray]:
        order = order or "affinity"
        if order == "affinity":
            self._ensure_ranking()
        cols, scores = self.model.recommend(row, n, exclude_seen=not include_seen, by=order)
        return cols[0], scores[0]

    def recommend_block(
        self, first: int, last: int, n: int, pattern: Any, include_seen: bool, order: str | None
    ) -> tuple[np.ndarray, np.ndarray]:
        rows = np.arange(first, last)
        order = order or ("affinity" if self.model.state_.training is not None and pattern is None else "rating")
        if pattern is None or order == "affinity":
            from ..estimators.recommendation import recommend

            if order == "affinity":
                self._ensure_ranking()
            cols, scores = recommend(self.model.state_, rows, n, exclude_seen=not include_seen, by=order)
            return self.ids[1][np.maximum(cols, 0)], scores
        from ..backends import get_backend
        from ..backends.top_k import top_columns

        model = self.model.model_
        never = model.col_counts == 0
        cols, _ = top_columns(get_backend(), model.rows[rows], model.cols, n, seen=pattern, never=never)
        there, scores = cols >= 0, np.full(cols.shape, np.nan)
        i = np.broadcast_to(rows[:, None], cols.shape)[there]
        scores[there] = self.model.state_.expected(model.predict(i, cols[there]))
        return self.ids[1][np.maximum(cols, 0)], scores


class ImplicitEstimator(Estimator):
    """ImplicitFactorization."""

    score = "score"
    labels = ("user", "item")

    def check(self, source: Source, output: Output) -> None:
        given = [*self.options.beyond_defaults("loss", "exposure", "device", "nonnegative", "row_features", "col_features")]
        for option in [*given, *(["--report"] if output.page else [])]:
            raise UsageError(f"{option} is for ratings: leave it out with --implicit")
        self._rank_and_regularization()

    def _rank_and_regularization(self) -> tuple[int, float | str]:
        rank = integer_or_word(self.options.rank, ("auto",), "--rank")
        strength = number_or_word(self.options.regularization, ("auto",), "--regularization")
        return rank if isinstance(rank, int) else IMPLICIT_RANK, strength

    def fit(self, source: Source) -> Fit:
        from ..common.version import __version__
        from ..estimators import ImplicitFactorization

        assert isinstance(source, Partitions)
        self.model = model = ImplicitFactorization(*self._rank_and_regularization(), random_state=self.options.seed)
        problem, _ = source.open()
        with counted_passes(problem, FITTING) as counter:
            model.fit(problem)
        users, items = (len(ids) for ids in self.ids)
        summary: dict[str, Any] = {
            "lorank": __version__,
            "class": "ImplicitFactorization",
            "shape": [users, items],
            "pairs": problem.m,
            "rank": model.rank,
            "regularization": model.regularization_,
            "zeros": model.zeros_,
            "sweeps": model.n_iter_,
            "curve": [vars(c) for c in model.curve_],
        }
        lines = [
            f"{counted(problem.m, 'pair')} of {counted(users, 'user')} and {counted(items, 'item')}",
            f"rank {model.rank}, regularization {model.regularization_:.3g}, weight of unobserved pairs {model.zeros_:.3g}, "
            f"{counted(model.n_iter_, 'sweep')}",
        ]
        if model.curve_:
            best = max(c.ndcg for c in model.curve_)
            lines.append(f"NDCG@20 on held-out pairs: {best:.4f}, the best of {counted(len(model.curve_), 'setting')}")
        summary |= counter.summary()
        return Fit(None, summary, [*lines, f"{counted(summary['partitions'], 'partition')}, {counter.text()}"])

    def prepare_ranking(self) -> None:
        pass

    @property
    def ids(self) -> tuple[np.ndarray, np.ndarray]:
        return self.model.user_ids_, self.model.item_ids_

    def recommend(self, row: np.ndarray, n: int, include_seen: bool, order: str | None) -> tuple[np.ndarray, np.ndarray]:
        check_order(order)
        items, scores = self.model.recommend(row, n, exclude_seen=not include_seen)
        return items[0], scores[0]

    def blocks(self, folder: Folder | None, include_seen: bool) -> Iterator[tuple[int, int, Any]]:
        """Ranges of users with their observed items, from partitions or from the model."""
        state, stored = self.model.state_, not include_seen and folder is None
        if stored:
            state.require_training()
        for first, last, pattern in super().blocks(folder, include_seen):
            yield first, last, state.seen(np.arange(first, last)) if stored else pattern

    def recommend_block(
        self, first: int, last: int, n: int, pattern: Any, include_seen: bool, order: str | None
    ) -> tuple[np.ndarray, np.ndarray]:
        check_order(order)
        from ..backends import get_backend

        state = self.model.state_
        empty = state.user_counts[first:last] == 0
        items, scores = state.best(get_backend(), state.user_factors[first:last], n, pattern, empty)
        return items, scores


def check_order(order: str | None) -> None:
    """Raise a UsageError for an order that implicit feedback does not have."""
    if order == "rating":
        raise UsageError("--order-by rating is for models of ratings: leave it out for implicit feedback")


def _bounds_and_intervals(some: np.ndarray, values: Any, loss: Any) -> dict[str, Any]:
    """Bounds for predictions if the values are a rating scale (at most 20 levels); no intervals for classes."""
    classes = loss is not None and loss.discrete
    bounds = (float(values.min()), float(values.max())) if 1 < len(some) <= 20 and not classes else None
    return {"bounds": bounds, "intervals": not classes}


def _rates(loss: Any, counts: np.ndarray, exposures: Any, column: str) -> tuple[np.ndarray, np.ndarray, Any]:
    """Counts divided by exposures, exposures as weights, and the loss for rates."""
    from ..backends import backend_of

    if loss is None or loss.name != "poisson":
        raise UsageError("--exposure is for counts: add --loss poisson, or leave it out")
    if exposures.dtype.kind == "M":
        raise ValueError(f"{column} holds dates: exposures are positive numbers")
    bad = ~((exposures > 0) & np.isfinite(exposures))
    if bad.any():
        k = int(np.flatnonzero(bad)[0])
        raise ValueError(f"{column} of observation {k + 1} is {exposures[k]:g}: exposures are positive numbers")
    loss.prepare(counts, backend_of(counts))  # raises an error for values that are not counts
    return counts / exposures, exposures, replace(loss, rates=True)
