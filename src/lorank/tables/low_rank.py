"""A transformer that fills the gaps of a table."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from ..common.checks import ParameterError
from ..factorization import Candidate, FactorModel, Fit, Settings, centred_problem, fit_factors, select, unfitted
from ..factorization.options import check_fit_options, check_rank, check_regularization
from ..factorization.selection import RANKS
from ..io.archive import save_model
from ..loop.result import History
from ..loop.runner import INTERRUPTED
from .standard import column_moments, standardised


class LowRankImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill the gaps (nan) of a table of numbers from what rows and columns have in common.

    Columns are standardised inside; each has a noise of its own. New rows are filled by fold-in, without fitting again.

    Parameters
    ----------
    rank : int or "auto"
        ``"auto"`` tries 0 (column means and row offsets alone), 1, 2, 3, 4, 6, 8, ... on held-out entries.
    regularization : float, "learned" or "auto"
        As for :class:`MatrixCompletion`; ``"auto"`` compares learned priors with a path of strengths on held-out entries.
    holdout : float
        The share of the entries held out to choose by.
    cv : int
        From 2 on: that many folds instead of one held-out share.
    n_jobs : int, optional
    random_state : int, RandomState or None
    device : str, optional
        Fit with PyTorch there, on ``"cuda"`` for example.
    tol : float
        Stop when further sweeps are expected to lower the error of what is filled in by less than this, relatively.
    max_iter : int

    Attributes
    ----------
    means_, scales_ : (n_features,) arrays
        Of the columns.
    components_ : (n_features, rank) array
        The columns' factors, in standardised units.
    rank_, regularization_, n_iter_, history_, curve_, model_
        As for :class:`MatrixCompletion`.

    Raises
    ------
    ValueError
        By ``fit`` and its kin, where the table or a parameter is not what it should be, by name; before ``fit`` (scikit-learn's
        NotFittedError) by all others.

    Examples
    --------
    >>> import numpy as np
    >>> from lorank import LowRankImputer
    >>> rng = np.random.default_rng(0)
    >>> table = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 6))
    >>> gaps = rng.random(table.shape) < 0.1
    >>> filled = LowRankImputer(rank=2).fit_transform(np.where(gaps, np.nan, table))
    >>> bool(np.sqrt(np.mean((filled - table)[gaps] ** 2)) < 0.5 * table[gaps].std())
    True
    """

    def __init__(
        self,
        rank: int | str = "auto",
        regularization: float | str = "auto",
        *,
        holdout: float = 0.1,
        cv: int = 1,
        n_jobs: int | None = None,
        random_state: Any = 0,
        device: str | None = None,
        tol: float = 1e-3,
        max_iter: int = 100,
    ) -> None:
        self.rank = rank
        self.regularization = regularization
        self.holdout = holdout
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any = None) -> LowRankImputer:
        """Learn what rows and columns have in common.

        Parameters
        ----------
        X : (n_rows, n_features) array or frame
            With nan in the gaps.
        """
        try:
            table = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2)
        except OverflowError as error:
            raise ParameterError("X", f"holds numbers beyond the range of float64: {error}") from None
        gaps = np.isnan(table)
        self.means_, self.scales_ = column_moments(table)
        rows, cols = np.nonzero(~gaps & (self.scales_ > 0)[None, :])
        if not len(rows):  # all gaps, or columns that never change: their means fill everything
            self._constant(table.shape)
            return self
        values = standardised(table, self.means_, np.where(self.scales_ > 0, self.scales_, 1.0))[rows, cols]
        settings, ranks, search = self._plan(table.shape)
        best: Fit | None = None
        self.curve_: list[Candidate] = []
        problem, mean = centred_problem(rows, cols, values, table.shape, device=settings.device)
        try:
            if (ranks is not None or search != "given") and len(rows) >= 10:
                choice = select(
                    rows,
                    cols,
                    values,
                    table.shape,
                    settings,
                    ranks=ranks,
                    search=search,
                    folds=self.cv,
                    share=self.holdout,
                    n_jobs=self.n_jobs,
                )
                best, settings, self.curve_ = choice.fit, choice.settings, choice.curve
            start = None if best is None else best.factors
            fit = best if best is not None and choice.interrupted else fit_factors(problem, mean, settings, start)
        except KeyboardInterrupt:
            fit = replace(best or unfitted(problem, mean, settings), status=INTERRUPTED)
        self._keep(fit.model.host())
        self.n_iter_, self.history_, self.status_ = max(fit.n_iter, 1), fit.history, fit.status
        self.regularization_ = "learned" if settings.regularization is None else settings.regularization
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The table with its gaps filled; what is there stays as it is."""
        check_is_fitted(self)
        table = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        gaps = np.isnan(table)
        if not gaps.any():
            return table.copy()
        known = ~gaps & (self.scales_ > 0)[None, :]
        units = np.where(self.scales_ > 0, self.scales_, 1.0)
        filled = np.tile(self.means_, (len(table), 1))
        if self.model_ is not None:
            where = np.flatnonzero(gaps.any(axis=1))
            standard = standardised(table[where], self.means_, units)
            indptr = np.concatenate([[0], np.cumsum(known[where].sum(axis=1))])
            _, cols = np.nonzero(known[where])
            factors = self.model_.fold_in(indptr, cols, standard[known[where]])
            guess = self.model_.mean + factors @ self.model_.cols.T
            filled[where] = self.means_ + np.where(self.scales_ > 0, guess * units, 0.0)
        return np.where(gaps, filled, table)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to a file that :func:`lorank.load` reads. No pickle; written in one go."""
        check_is_fitted(self)
        return save_model(self, path)

    def _plan(self, shape: tuple[int, int]) -> tuple[Settings, list[int] | None, str]:
        strength, top = check_regularization(self.regularization), min(shape)
        rank = check_rank(self.rank, shape[1])
        check_fit_options(self)
        ranks = [r for r in RANKS if r <= max(top - 1, 1)] if rank == "auto" else None
        settings = Settings(
            min(rank, top) if isinstance(rank, int) else 1,
            None if isinstance(strength, str) else strength,
            noise="columns",
            tol=float(self.tol),
            max_iter=int(self.max_iter),
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            device=None if self.device is None else str(self.device),
        )
        return settings, ranks, "both" if strength == "auto" else "given"

    def _constant(self, shape: tuple[int, int]) -> None:
        self._keep(None)
        self.curve_, self.n_iter_, self.history_, self.regularization_ = [], 1, History(), "learned"

    def _keep(self, model: FactorModel | None) -> None:
        self.model_, self.rank_ = model, 0 if model is None else model.rank
        self.components_ = np.zeros((len(self.means_), 0)) if model is None else model.cols[:, : model.rank]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
