"""Diagnosis of sampling patterns: oversampling, empty rows, connected components, duplicates and outliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..common.blas_threads import one_blas_thread
from ..common.checks import ParameterError, check, counted, shown, whole
from ..geometry import FixedRank
from ..loop.result import Result
from ..losses.residual_tails import outlier_share, tails
from ..problems import Completion
from ..problems.observed_core import Undetermined, component, undetermined

QUARTILE_SAMPLE = 250_000  # values for the quartiles
MAX_BFS_ROUNDS = 6  # passes of the search for one component, after which SciPy finds all of them


@dataclass(frozen=True)
class Diagnosis:
    """Result of :func:`diagnose`.

    Attributes
    ----------
    shape : (int, int)
    observations : int
    rank : int
    oversampling : float
        Observations per degree of freedom of a matrix of that rank, 1/q; below 1 there are fewer than unknowns.
    empty_rows, empty_cols : int
        Numbers of rows and columns without observations.
    thin_rows, thin_cols : int
        Numbers of rows and columns with observations, but fewer than the rank.
    components : int
        Number of connected components: parts of the data that share no row or column.
    largest : float
        Share of the observations in the largest component.
    duplicates : int
        Number of repeated pairs.
    outliers : int
        Number of values further from the median than 20 interquartile ranges.
    tails : float or None
        Root mean square of a fit's residuals over that of normal noise with the same median absolute value; None without a
        fit.
    far : float
        Share of the observations that are outliers of that fit; with ``loss="robust"`` the share that was left out.
    undetermined : Undetermined or None
        Rows, columns and separate parts that a completion problem of this rank does not determine; None where there are none,
        or for other data than a Completion.
    standing_out : int or None
        Number of components that stand out from noise in the spectrum of a fit with ``rank="auto"``; None without one.
    unique : bool
        Whether the pattern does not rule out that the data determine the matrix.
    """

    shape: tuple[int, int]
    observations: int
    rank: int
    oversampling: float
    empty_rows: int
    empty_cols: int
    thin_rows: int
    thin_cols: int
    components: int
    largest: float
    duplicates: int
    outliers: int
    tails: float | None = None
    far: float = 0.0
    standing_out: int | None = None
    undetermined: Undetermined | None = field(default=None, compare=False)

    @property
    def unique(self) -> bool:
        thin = self.empty_rows or self.empty_cols or self.thin_rows or self.thin_cols or self.undetermined
        return self.oversampling >= 1 and self.components <= 1 and not thin

    @property
    def findings(self) -> list[str]:
        """Findings, one sentence each, the most severe first."""
        r, said = self.rank, []
        if self.oversampling < 1:
            said.append(
                f"There are only {self.oversampling:.2g} observations per degree of freedom at rank {r}: lower the rank."
            )
        elif self.oversampling < 2:
            said.append(f"With {self.oversampling:.2g} observations per degree of freedom, rank {r} needs regularization.")
        if self.components > 1:
            said.append(
                f"The data have {self.components:,} parts that share no row or column, the largest with "
                f"{self.largest:.1%} of the observations: between parts, only averages can be predicted."
            )
        for empty, thin, name in ((self.empty_rows, self.thin_rows, "row"), (self.empty_cols, self.thin_cols, "column")):
            if empty:
                said.append(f"{_count(empty, name)} no observation: only averages can be predicted.")
            if thin:
                said.append(f"{_count(thin, name)} fewer than {r} observations, too few for {counted(r, 'factor')}.")
        sparse = self.empty_rows + self.empty_cols + self.thin_rows + self.thin_cols
        if self.undetermined is not None and len(self.undetermined.rows) + len(self.undetermined.cols) > sparse:
            n1, n2 = len(self.undetermined.rows), len(self.undetermined.cols)
            said.append(
                f"Without rows and columns of too few observations, others have fewer than {r}, too: "
                f"{counted(n1, 'row')} and {counted(n2, 'column')} in all cannot be determined."
            )
        if self.duplicates:
            said.append(f"{counted(self.duplicates, 'observation repeats', 'observations repeat')} a pair.")
        if self.outliers:
            said.append(f"{counted(self.outliers, 'value is', 'values are')} extreme: check the units.")
        if self.far and self.tails is not None:
            said.append(
                f"{self.far:.2%} of the observations are outliers of the fit, whose residuals have heavy tails "
                f"({self.tails:.2g} times those of normal noise): loss='robust' detects and leaves out outliers."
            )
        elif self.far:
            said.append(f"{self.far:.2%} of the observations were left out as outliers.")
        if self.standing_out is not None and self.standing_out != r:
            said.append(self._spectrum_finding(self.standing_out))
        return said

    def _spectrum_finding(self, count: int) -> str:
        """A sentence on the number of components that stand out from noise, where it is not the rank."""
        found = f"{counted(count, 'component stands', 'components stand')} out from noise, not {self.rank}"
        if count < self.rank:
            return f"{found}: the others are weak, or hidden by larger ones."
        sides = sum(self.shape)
        oversampling = self.oversampling * self.rank * (sides - self.rank) / (count * (sides - count))
        if oversampling < 2:
            return f"{found}, but for all of them the data have only {oversampling:.2g} observations per degree of freedom."
        return f"{found}: a larger rank may predict better."

    @property
    def verdict(self) -> str:
        """Summary, followed by the findings."""
        if not self.findings:
            return f"Good: {self.oversampling:.3g} observations per degree of freedom at rank {self.rank}."
        head = "Usable, with care." if self.oversampling >= 1 and self.largest > 0.5 else "Too few data."
        return " ".join([head, *self.findings])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = self.undetermined
        numbers = {"rows": 0, "cols": 0} if found is None else {"rows": len(found.rows), "cols": len(found.cols)}
        own = {**vars(self), "shape": list(self.shape), "undetermined": numbers}
        return {**own, "unique": self.unique, "verdict": self.verdict}

    def __str__(self) -> str:
        n1, n2 = self.shape
        share = self.observations / (n1 * n2)
        return f"{n1:,} x {n2:,}, {counted(self.observations, 'observation')} ({share:.2%}). {self.verdict}"


@one_blas_thread
def diagnose(problem: Any, rank: int = 1, *, duplicates: int = 0, fit: Result | FixedRank | None = None) -> Diagnosis:
    """Diagnose a sampling pattern at a rank, and optionally the residuals of a fit.

    Parameters
    ----------
    problem : Completion, (m, 2) array of index pairs, SciPy sparse matrix or 2-D array with nan
    rank : int
    duplicates : int
        Number of repeated pairs that were merged before; those in an array of pairs are counted.
    fit : Result or FixedRank, optional
        A fit of these data, whose residuals are tested for heavy tails; needs a Completion.

    Returns
    -------
    Diagnosis

    Raises
    ------
    ValueError
        For data without observations, or a rank that is not between 1 and the smaller side.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> found = lr.diagnose(problem, rank=2)
    >>> found.components, found.unique
    (1, True)
    >>> lr.diagnose(problem, rank=2, fit=lr.solve(problem, rank=2)).far
    0.0
    """
    if fit is not None:
        return _with_fit(diagnose(problem, rank, duplicates=duplicates), problem, fit)
    check("rank", rank, whole(1))
    check("duplicates", duplicates, whole(0))
    values: np.ndarray
    if isinstance(problem, Completion) and not problem.backend.in_main_memory:
        return _diagnose_there(problem, int(rank), duplicates)
    if isinstance(problem, Completion):
        whole_thing = _component_size(problem, MAX_BFS_ROUNDS) >= problem.m
        rows, cols, values = (problem.backend.to_numpy(a) for a in (problem.rows, problem.cols, problem.y))
        counts = [problem.backend.to_numpy(problem.observations.counts(side)) for side in (0, 1)]
        shape = (problem.shape[0], problem.shape[1])
        found = _diagnose(rows, cols, values, shape, int(rank), duplicates, counts, whole_thing)
        return replace(found, undetermined=undetermined(problem, int(rank)))
    elif hasattr(problem, "tocoo"):
        coo = problem.tocoo()
        if coo.ndim != 2:
            raise ParameterError("problem", f"must be a matrix of two dimensions, got shape {coo.shape}")
        rows, cols, values, shape = coo.row, coo.col, coo.data, coo.shape
    else:
        try:
            a = np.asarray(problem)
        except (TypeError, ValueError) as error:
            raise ParameterError("problem", f"is not an array: {error}") from None
        if a.ndim == 2 and a.shape[1] == 2 and a.dtype.kind in "iu":
            if not len(a):
                raise ValueError("no observations: the array of pairs is empty")
            rows, cols, values, shape = a[:, 0], a[:, 1], np.zeros(0), tuple(a.max(0) + 1)
        elif a.ndim == 2 and a.size and a.dtype.kind in "fiu":
            if np.isinf(a).any():
                raise ParameterError("problem", "holds infinite values: mark gaps with nan")
            rows, cols = np.nonzero(~np.isnan(a))
            values, shape = a[rows, cols], a.shape
        else:
            raise ValueError(
                f"diagnose takes a Completion problem, pairs, a sparse matrix or a table with nan: got {shown(problem)}"
            )
    return _diagnose(rows, cols, values, (int(shape[0]), int(shape[1])), int(rank), duplicates)


def _diagnose(
    rows: Any,
    cols: Any,
    values: np.ndarray,
    shape: tuple[int, int],
    rank: int,
    duplicates: int,
    counts: Sequence[np.ndarray] | None = None,
    connected: bool = False,
) -> Diagnosis:
    """Diagnosis of arrays; ``connected`` pairs are known to be distinct and to form one component."""
    n1, n2 = shape
    if not 1 <= rank <= min(shape):
        raise ParameterError("rank", f"must lie between 1 and {min(shape)}, got {rank}")
    by_row, by_col = (np.bincount(rows, minlength=n1), np.bincount(cols, minlength=n2)) if counts is None else counts
    different, sizes = (len(rows), np.array([len(rows)])) if connected else _parts(rows, cols, shape)
    return Diagnosis(
        shape,
        len(rows),
        rank,
        different / ((max(int((by_row > 0).sum()), rank) + max(int((by_col > 0).sum()), rank) - rank) * rank),
        *_empty_and_thin(by_row, by_col, rank),
        int((sizes > 0).sum()),
        float(sizes.max() / max(len(rows), 1)),
        duplicates + len(rows) - different,
        _outliers(values),
    )


def _empty_and_thin(by_row: np.ndarray, by_col: np.ndarray, rank: int) -> tuple[int, int, int, int]:
    """Numbers of rows and columns without observations, and of those with fewer than the rank."""
    thin = [int(((counts > 0) & (counts < rank)).sum()) for counts in (by_row, by_col)]
    return int((by_row == 0).sum()), int((by_col == 0).sum()), thin[0], thin[1]


def _parts(rows: Any, cols: Any, shape: tuple[int, int]) -> tuple[int, np.ndarray]:
    """Number of distinct pairs, and number of observations in each connected component."""
    import scipy.sparse
    from scipy.sparse.csgraph import connected_components

    n1, n2 = shape
    pattern = scipy.sparse.csr_array((np.ones(len(rows), np.int8), (rows, cols)), shape=shape)
    pattern.sum_duplicates()
    graph = scipy.sparse.coo_array(pattern)
    edges = (np.ones(len(graph.row), np.int8), (graph.row, graph.col + n1))
    _, label = connected_components(scipy.sparse.csr_array(edges, shape=(n1 + n2, n1 + n2)), directed=False)
    return int(pattern.nnz), np.bincount(label[rows]) if len(rows) else np.zeros(1, int)


def _component_size(problem: Completion, rounds: int | None = None) -> float:
    """Number of observations in the component of the most observed row, by breadth-first search; at most so many rounds."""
    backend, counts = problem.backend, [problem.observations.counts(side)[:, None] for side in (0, 1)]
    rows, cols = (backend.astype(count > 0, np.float64) for count in counts)
    return float((component(problem.observations, backend, rows, cols, rounds)[0] * counts[0]).sum())


def _diagnose_there(problem: Completion, rank: int, duplicates: int) -> Diagnosis:
    """Diagnosis by passes over observations outside main memory; counts at most two components."""
    if not 1 <= rank <= min(problem.shape):
        raise ParameterError("rank", f"must lie between 1 and {min(problem.shape)}, got {rank}")
    backend, inside = problem.backend, _component_size(problem)
    by_row, by_col = (backend.to_numpy(problem.observations.counts(side)) for side in (0, 1))
    low, middle, high = backend.percentiles(problem.y, [25, 50, 75])
    far = 0 if high == low or problem.m < 10 else int((abs(problem.y - middle) > 20 * (high - low)).sum())
    return Diagnosis(
        (problem.shape[0], problem.shape[1]),
        problem.m,
        rank,
        problem.m / problem.dof(rank),
        *_empty_and_thin(by_row, by_col, rank),
        1 if inside >= problem.m else 2,
        max(inside, problem.m - inside) / problem.m,
        duplicates,
        far,
        undetermined=undetermined(problem, rank),
    )


def _with_fit(found: Diagnosis, problem: Any, fit: Any) -> Diagnosis:
    """The diagnosis with the residuals of a fit."""
    X = fit.X if isinstance(fit, Result) else fit
    if not isinstance(problem, Completion) or not isinstance(X, FixedRank):
        raise ParameterError("fit", f"must be the result of lorank.solve for a Completion problem, got {shown(fit)}")
    if tuple(X.shape) != tuple(problem.shape):
        raise ParameterError("fit", f"has shape {tuple(X.shape)}, the problem {tuple(problem.shape)}")
    if isinstance(fit, Result) and fit.spectrum is not None:
        found = replace(found, standing_out=fit.spectrum.count)
    outliers = getattr(fit, "outliers", None)
    if outliers is not None:
        return replace(found, far=float(outliers.share))
    if problem.loss is not None and problem.loss.discrete:  # residuals of classes and counts are not normal
        return found
    d, weights = problem.observations.residual(X.U * X.s, X.V), problem.observations.weights
    if weights is not None:  # weights are inverse variances
        d = d * weights**0.5
    dof, backend = problem.dof(X.rank), problem.backend
    if backend.norm(d) <= 1e-6 * backend.norm(problem.y):  # rounding errors have heavy tails
        return found
    noise = not isinstance(fit, Result) or fit.status == "noise"
    return replace(found, tails=tails(d, dof, backend).ratio, far=outlier_share(d, problem.y, dof, backend, noise))


def _outliers(values: np.ndarray) -> int:
    if len(values) < 10 or values.dtype.kind == "c":
        return 0
    some = values[:: max(1, len(values) // QUARTILE_SAMPLE)]
    low, middle, high = np.percentile(np.sort(some), [25, 50, 75])  # NumPy is several times faster on sorted arrays
    if high == low:
        return 0
    return int(((values > middle + 20 * (high - low)) | (values < middle - 20 * (high - low))).sum())


def _count(n: int, name: str) -> str:
    return f"One {name} has" if n == 1 else f"{n:,} {name}s have"
