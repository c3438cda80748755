"""What the pattern of the observations allows, before anything is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..common.checks import ParameterError, check, counted, shown, whole
from ..geometry import FixedRank
from ..loop.result import Result
from ..losses.residual_tails import outlier_share, tails
from ..problems import Completion

LOOKED_AT = 250_000  # values, of more every so many-th, that quartiles are taken of
ROUNDS = 6  # of passes, from row to columns to rows, after which the parts are looked for in another way


@dataclass(frozen=True)
class Diagnosis:
    """What :func:`diagnose` found.

    Attributes
    ----------
    shape : (int, int)
    observations : int
    rank : int
    oversampling : float
        Observations for each degree of freedom of a matrix of that rank, 1/q; below 1 there are fewer than unknowns.
    empty_rows, empty_cols : int
        Rows and columns without any observation.
    thin_rows, thin_cols : int
        Rows and columns with fewer observations than the rank (but some).
    components : int
        Parts of the data that share no row or column with each other.
    largest : float
        The largest part's share of the observations.
    duplicates : int
        Observations of a pair that is there already.
    outliers : int
        Values further from the median than 20 times the middle half of the values is wide.
    tails : float or None
        Of a fit's residuals, where one was given: their root mean square over that of normal noise with the same median, 1 for
        normal noise; None without a fit.
    far : float
        The share of the observations that are further from that fit than noise ever is; with ``loss="robust"`` the share that
        was left out.
    unique : bool
        Whether nothing here rules out that the data determine the matrix.
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

    @property
    def unique(self) -> bool:
        thin = self.empty_rows or self.empty_cols or self.thin_rows or self.thin_cols
        return self.oversampling >= 1 and self.components <= 1 and not thin

    @property
    def findings(self) -> list[str]:
        """What was found, a sentence each, the gravest first."""
        r, said = self.rank, []
        if self.oversampling < 1:
            said.append(
                f"There are only {self.oversampling:.2g} observations for each degree of freedom at rank {r}: lower the rank."
            )
        elif self.oversampling < 2:
            said.append(
                f"With {self.oversampling:.2g} observations for each degree of freedom, rank {r} needs luck or regularisation."
            )
        if self.components > 1:
            said.append(
                f"The data fall into {self.components:,} parts that share no row or column, the largest with "
                f"{self.largest:.1%} of the observations: what one part says about another is the average alone."
            )
        for empty, thin, name in ((self.empty_rows, self.thin_rows, "row"), (self.empty_cols, self.thin_cols, "column")):
            if empty:
                said.append(f"{_count(empty, name)} no observation and can only get an average.")
            if thin:
                own = "its" if thin == 1 else "their"
                said.append(
                    f"{_count(thin, name)} fewer than {r} observations, too few for {counted(r, 'factor')} of {own} own."
                )
        if self.duplicates:
            said.append(f"{counted(self.duplicates, 'observation repeats', 'observations repeat')} a pair.")
        if self.outliers:
            said.append(f"{counted(self.outliers, 'value lies', 'values lie')} far from all others: check the units.")
        if self.far and self.tails is not None:
            said.append(
                f"{self.far:.2%} of the observations are far from the fit, whose residuals have heavy tails ({self.tails:.2g} "
                "times what normal noise has): loss='robust' finds outliers and fits the others."
            )
        elif self.far:
            said.append(f"{self.far:.2%} of the observations were left out as outliers.")
        return said

    @property
    def verdict(self) -> str:
        """In a word or two, then the findings."""
        if not self.findings:
            return f"Good: {self.oversampling:.3g} observations for each degree of freedom at rank {self.rank}."
        head = "Usable, with care." if self.oversampling >= 1 and self.largest > 0.5 else "Too few data."
        return " ".join([head, *self.findings])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "shape": list(self.shape), "unique": self.unique, "verdict": self.verdict}

    def __str__(self) -> str:
        n1, n2 = self.shape
        share = self.observations / (n1 * n2)
        return f"{n1:,} x {n2:,}, {counted(self.observations, 'observation')} ({share:.2%}). {self.verdict}"


def diagnose(problem: Any, rank: int = 1, *, duplicates: int = 0, fit: Result | FixedRank | None = None) -> Diagnosis:
    """Say what the observations allow at a rank, and what a fit has left over.

    Parameters
    ----------
    problem : Completion, (m, 2) array of index pairs, SciPy sparse matrix or 2-D array with nan
    rank : int
    duplicates : int
        Repetitions that were merged before; those in an array of pairs are counted.
    fit : Result or FixedRank, optional
        A fit of these data: its residuals are looked at for heavy tails. The problem must be a Completion then.

    Returns
    -------
    Diagnosis

    Raises
    ------
    ValueError
        Where there is nothing to look at, or the rank is not between 1 and the smaller side.

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
        whole_thing = _inside(problem, ROUNDS) >= problem.m
        rows, cols, values = (problem.backend.to_numpy(a) for a in (problem.rows, problem.cols, problem.y))
        counts = [problem.backend.to_numpy(problem.observations.counts(side)) for side in (0, 1)]
        shape = (problem.shape[0], problem.shape[1])
        return _diagnose(rows, cols, values, shape, int(rank), duplicates, counts, whole_thing)
    elif hasattr(problem, "tocoo"):
        coo = problem.tocoo()
        if coo.ndim != 2:
            raise ParameterError("problem", f"must be a matrix of two dimensions, got shape {coo.shape}")
        rows, cols, values, shape = coo.row, coo.col, coo.data, coo.shape
    else:
        try:
            a = np.asarray(problem)
        except (TypeError, ValueError) as error:
            raise ParameterError("problem", f"is no array: {error}") from None
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
    """Of arrays; ``counts`` of rows and columns where they are known; ``connected`` are pairs of which it is known that none is
    repeated and all hang together.
    """
    n1, n2 = shape
    if not 1 <= rank <= min(shape):
        raise ParameterError("rank", f"must lie between 1 and {min(shape)}, got {rank}")
    by_row, by_col = (np.bincount(rows, minlength=n1), np.bincount(cols, minlength=n2)) if counts is None else counts
    different, sizes = (len(rows), np.array([len(rows)])) if connected else _parts(rows, cols, shape)
    return Diagnosis(
        shape,
        len(rows),
        rank,
        different / ((n1 + n2 - rank) * rank),
        *_empty_and_thin(by_row, by_col, rank),
        int((sizes > 0).sum()),
        float(sizes.max() / max(len(rows), 1)),
        duplicates + len(rows) - different,
        _outliers(values),
    )


def _empty_and_thin(by_row: np.ndarray, by_col: np.ndarray, rank: int) -> tuple[int, int, int, int]:
    """Rows and columns without any observation, and those with some, but fewer than the rank."""
    thin = [int(((counts > 0) & (counts < rank)).sum()) for counts in (by_row, by_col)]
    return int((by_row == 0).sum()), int((by_col == 0).sum()), thin[0], thin[1]


def _parts(rows: Any, cols: Any, shape: tuple[int, int]) -> tuple[int, np.ndarray]:
    """How many pairs differ, and the number of observations in each part that hangs together."""
    import scipy.sparse
    from scipy.sparse.csgraph import connected_components

    n1, n2 = shape
    pattern = scipy.sparse.csr_array((np.ones(len(rows), np.int8), (rows, cols)), shape=shape)
    pattern.sum_duplicates()
    graph = scipy.sparse.coo_array(pattern)
    edges = (np.ones(len(graph.row), np.int8), (graph.row, graph.col + n1))
    _, label = connected_components(scipy.sparse.csr_array(edges, shape=(n1 + n2, n1 + n2)), directed=False)
    return int(pattern.nnz), np.bincount(label[rows]) if len(rows) else np.zeros(1, int)


def _inside(problem: Completion, rounds: int | None = None) -> float:
    """Observations of the part around the most observed row, by passes from there on; at most so many rounds of them."""
    backend, passes = problem.backend, problem.observations
    counts = backend.astype(passes.counts(0), np.float64)[:, None]
    reached, size, before = backend.zeros((problem.shape[0], 1), np.float64), 1.0, 0.0
    reached[int(np.argmax(backend.to_numpy(counts)[:, 0])), 0] = 1
    while size > before and rounds != 0:
        columns = backend.astype(passes.gathered(reached, 1) > 0, np.float64)
        reached = backend.astype(passes.gathered(columns, 0) > 0, np.float64)
        before, size = size, float(reached.sum())
        rounds = None if rounds is None else rounds - 1
    return float((reached * counts).sum())


def _diagnose_there(problem: Completion, rank: int, duplicates: int) -> Diagnosis:
    """The same where the observations are, by passes over them: the part around the most observed row, and how many are left.

    Parts beyond it are counted as one: that there are any is what matters.
    """
    if not 1 <= rank <= min(problem.shape):
        raise ParameterError("rank", f"must lie between 1 and {min(problem.shape)}, got {rank}")
    backend, inside = problem.backend, _inside(problem)
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
    )


def _with_fit(found: Diagnosis, problem: Any, fit: Any) -> Diagnosis:
    """With what the residuals of a fit say."""
    X = fit.X if isinstance(fit, Result) else fit
    if not isinstance(problem, Completion) or not isinstance(X, FixedRank):
        raise ParameterError("fit", f"must be the result of lorank.solve for a Completion problem, got {shown(fit)}")
    if tuple(X.shape) != tuple(problem.shape):
        raise ParameterError("fit", f"has shape {tuple(X.shape)}, the problem {tuple(problem.shape)}")
    outliers = getattr(fit, "outliers", None)
    if outliers is not None:
        return replace(found, far=float(outliers.share))
    if problem.loss is not None and problem.loss.discrete:  # classes and counts have tails of their own
        return found
    d, weights = problem.observations.residual(X.U * X.s, X.V), problem.observations.weights
    if weights is not None:  # they say how large a deviation may be
        d = d * weights**0.5
    dof, backend = problem.dof(X.rank), problem.backend
    if backend.norm(d) <= 1e-6 * backend.norm(problem.y):  # exact but for rounding, which has tails of its own
        return found
    noise = not isinstance(fit, Result) or fit.status == "noise"
    return replace(found, tails=tails(d, dof, backend).ratio, far=outlier_share(d, problem.y, dof, backend, noise))


def _outliers(values: np.ndarray) -> int:
    if len(values) < 10 or values.dtype.kind == "c":
        return 0
    some = values[:: max(1, len(values) // LOOKED_AT)]
    low, middle, high = np.percentile(np.sort(some), [25, 50, 75])  # of sorted ones NumPy finds them several times faster
    if high == low:
        return 0
    return int(((values > middle + 20 * (high - low)) | (values < middle - 20 * (high - low))).sum())


def _count(n: int, name: str) -> str:
    return f"One {name} has" if n == 1 else f"{n:,} {name}s have"
