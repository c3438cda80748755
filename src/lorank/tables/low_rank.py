"""Low-rank model of a table: a factor model with biases, whose rank and regularization are selected on held-out values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..common.checks import ParameterError
from ..factorization import Candidate, FactorModel, Fit, Settings, centred_problem, fit_factors, select, unfitted
from ..factorization.selection import RANKS
from ..loop.runner import INTERRUPTED

HOLDOUT = 0.1  # share of the values that rank and regularization are selected on
TOL = 1e-3  # expected relative reduction of the prediction error at which the fit stops
MAX_ITER = 100


@dataclass(frozen=True)
class LowRankModel:
    """Fitted low-rank model of a table whose columns have about mean 0 and variance 1."""

    factors: FactorModel
    regularization: float | str  # "learned": priors estimated from the data
    curve: list[Candidate]  # held-out errors of the ranks and regularizations tried
    n_iter: int
    status: str

    method: ClassVar = "low-rank"

    @property
    def rank(self) -> int:
        """Number of factors, without biases."""
        return self.factors.rank

    @property
    def components(self) -> np.ndarray:
        """Factors of the columns: a (d, rank) array."""
        return np.asarray(self.factors.col_factors)

    def fill(self, table: np.ndarray, times: np.ndarray | None = None, spread: bool = False) -> tuple[np.ndarray, None]:
        """The filled table; each row's factors are fitted to its observed values."""
        known = ~np.isnan(table)
        indptr = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
        rows = self.factors.fold_in(indptr, np.nonzero(known)[1], table[known])
        return np.where(known, table, self.factors.mean + rows @ self.factors.cols.T), None


def fit_low_rank(table: np.ndarray, rank: Any, regularization: Any, seed: int, device: str | None) -> LowRankModel:
    """Fit a low-rank model to a standardized table; the parameters are those of :class:`TableImputer`."""
    n, d = table.shape
    ranks = [r for r in RANKS if r <= max(min(n, d) - 1, 1)] if rank == "auto" else None
    if ranks is None and rank > d:
        raise ParameterError("rank", f"must be at most {d}, the number of columns that vary: got {rank}")
    settings = Settings(
        1 if rank == "auto" else int(min(rank, n, d)),
        None if isinstance(regularization, str) else float(regularization),
        noise="columns",
        tol=TOL,
        max_iter=MAX_ITER,
        seed=seed,
        device=None if device is None else str(device),
    )
    rows, cols = np.nonzero(~np.isnan(table))
    values = table[rows, cols]
    best: Fit | None = None
    curve: list[Candidate] = []
    problem, mean = centred_problem(rows, cols, values, table.shape, device=settings.device)
    try:
        interrupted = False
        if (ranks is not None or regularization == "auto") and len(rows) >= 10:
            search = "both" if regularization == "auto" else "given"
            choice = select(rows, cols, values, table.shape, settings, ranks=ranks, search=search, share=HOLDOUT)
            best, settings, curve, interrupted = choice.fit, choice.settings, choice.curve, choice.interrupted
        if best is not None and interrupted:
            fit = best
        else:
            fit = fit_factors(problem, mean, settings, None if best is None else best.factors)
    except KeyboardInterrupt:
        fit = replace(best or unfitted(problem, mean, settings), status=INTERRUPTED)
    learned = "learned" if settings.regularization is None else settings.regularization
    return LowRankModel(FactorModel(**fit.model.arrays()), learned, curve, max(fit.n_iter, 1), str(fit.status))
