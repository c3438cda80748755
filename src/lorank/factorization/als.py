"""Regularised alternating least squares, for data with noise: rows given columns, then columns given rows.

X is written as a product of factors, ``X = L R^T``. With offsets, ``L = [U, b, 1]`` and ``R = [V, 1, c]``, so that
``X = U V^T + b 1^T + 1 c^T``: offsets are factors like any other, with one coordinate held at 1 on the other side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..backends import Array, Arrays, backend_of
from ..common.checks import NOT_NEGATIVE, YES_OR_NO, check_parameters, instance, one_of, optional
from ..geometry import FixedRank
from ..geometry.factored_point import Unfactored
from ..loop.runner import Solver
from ..loop.state import State
from ..problems import Completion, Problem
from .feature_priors import Link

TINY = 1e-9  # of the size of values: in place of no penalty, so that equations have one solution
Penalty = Literal["nuclear", "frobenius"]


@dataclass(frozen=True)
class Factors:
    """What alternating solvers carry along.

    Attributes
    ----------
    rows, cols : (n1, k) and (n2, k) arrays
        L and R: with offsets, k is the rank + 2. These and the covariances are where the data are, the rest is NumPy's.
    row_cov, col_cov : arrays of k (k + 1) / 2 columns, or None
        Upper triangles of the covariances, where the solver knows them.
    row_prior, col_prior : (precision, shift)
        The last priors: a (k, k) matrix, and it times the prior's mean.
    noise : float
        The precision of the values, one over their noise's variance.
    row_noise, col_noise : arrays or None
        Factors on it for each row and each column, where the solver tells them apart.
    row_link, col_link : Link or None
        How the priors' means depend on features, where there are any.
    """

    rows: Array
    cols: Array
    row_prior: tuple[np.ndarray, np.ndarray]
    col_prior: tuple[np.ndarray, np.ndarray]
    noise: float = 1.0
    row_cov: Array | None = None
    col_cov: Array | None = None
    row_noise: np.ndarray | None = None
    col_noise: np.ndarray | None = None
    row_link: Link | None = None
    col_link: Link | None = None

    def point(self, backend: Arrays | None = None) -> FixedRank:
        """``L R^T``."""
        return Unfactored(self.rows, self.cols, backend or backend_of(self.rows))

    def distance(self, other: Factors, backend: Arrays) -> float:
        """``|L R^T - L' R'^T|_F`` by Gram products: good to about eight digits of the larger one."""
        mixed = np.sum(backend.gram(self.rows, other.rows) * backend.gram(self.cols, other.cols))
        return float(np.sqrt(max(self._square(backend) + other._square(backend) - 2 * mixed, 0.0)))

    def _square(self, backend: Arrays) -> float:
        """``|L R^T|_F^2``, kept: each point is the new one of a step, and the old one of the next."""
        found: float | None = vars(self).get("_squared")
        if found is None:
            found = float(np.sum(backend.gram(self.rows, self.rows) * backend.gram(self.cols, self.cols)))
            vars(self)["_squared"] = found
        return found

    def numpy(self, backend: Arrays) -> Factors:
        """The same in main memory."""
        covs = [None if a is None else backend.to_numpy(a) for a in (self.row_cov, self.col_cov)]
        rows, cols = backend.to_numpy(self.rows), backend.to_numpy(self.cols)
        return replace(self, rows=rows, cols=cols, row_cov=covs[0], col_cov=covs[1])


@dataclass(frozen=True)
class Alternating(Solver):
    """Minimise ``sum_t w_t (X - y)_t^2 / 2`` plus a penalty, exactly in each factor in turn.

    Parameters
    ----------
    regularization : float
        lambda.
    penalty : {"nuclear", "frobenius"}
        ``lambda (|U|_F^2 + |V|_F^2) / 2``, whose least value over all factors of X is the nuclear norm ``lambda sum(s)``; or
        ``lambda |X|_F^2 / 2``.
    offsets : bool
        Whether rows and columns have offsets.
    shrinkage : float
        The offsets' own penalty, ``shrinkage (|b|^2 + |c|^2) / 2``: that many observations of zero for each.
    scaling : float
        Rows are penalised in proportion to (their number of observations / the mean number) to this power, and so are columns.
        At 1/2, with the nuclear norm, this is the weighted trace norm, which suits data where some rows are seen far more
        often than others.
    initial : Factors, optional
        Go on from there.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> ridge = Alternating(regularization=0.1)
    >>> result = lr.solve(problem, rank=2, solver=ridge, stop=lr.stopping.RelativeChange(1e-3))
    >>> result.residual < 0.1
    True
    """

    regularization: float = 1.0
    penalty: Penalty = "nuclear"
    offsets: bool = False
    shrinkage: float = 5.0
    scaling: float = 0.0
    initial: Factors | None = None

    def __post_init__(self) -> None:
        check_parameters(
            self,
            regularization=NOT_NEGATIVE,
            penalty=one_of(("nuclear", "frobenius")),
            offsets=YES_OR_NO,
            shrinkage=NOT_NEGATIVE,
            scaling=NOT_NEGATIVE,
            initial=optional(instance(Factors, "the Factors of another fit")),
        )

    def start(self, problem: Problem, state: State) -> Factors:
        check_problem(problem, self)
        return self.initial or begin(problem, state, self.offsets)

    def step(self, problem: Problem, state: State) -> State:
        assert isinstance(problem, Completion)
        old: Factors = state.memory
        row_scale, col_scale = scales(problem, self.scaling)
        row_prior = self._prior(problem, old.cols, col_scale, 1)
        rows, _, _ = self._half(problem, False, old.cols, row_prior, row_scale)
        col_prior = self._prior(problem, rows, row_scale, 0)
        cols, _, squares = self._half(problem, True, rows, col_prior, col_scale)
        return advance(problem, state, Factors(rows, cols, row_prior, col_prior), float(squares.sum()))

    def _half(self, problem: Completion, columns: bool, other: Array, prior: Any, scale: Any) -> Any:
        fixed = held(other.shape[1], columns, self.offsets)
        return problem.observations.normal_equations(columns, other, *prior, scale=scale, fixed=fixed)

    def _prior(self, problem: Problem, other: Array, scale: np.ndarray | None, offset: int) -> tuple[np.ndarray, np.ndarray]:
        """The penalty on one side's factors as a prior: ``lambda I``, or ``lambda V^T V``."""
        backend, k = problem.backend, other.shape[1]
        rank, size = k - 2 * self.offsets, problem.y_norm / float(problem.m) ** 0.5 or 1.0  # strengths have the unit of values
        P = np.zeros((k, k))
        if self.penalty == "nuclear":
            P[:rank, :rank] = max(self.regularization, TINY * size) * np.eye(rank)
        else:
            v = other[:, :rank] if scale is None else other[:, :rank] * backend.asarray(np.sqrt(scale))[:, None]
            P[:rank, :rank] = self.regularization * backend.gram(v, v)
            P[:rank, :rank] += TINY * max(size, float(np.trace(P)) / max(rank, 1)) * np.eye(rank)
        if self.offsets:  # [U, b, 1] and [V, 1, c]
            at = rank if offset else rank + 1
            P[at, at] = max(self.shrinkage, TINY)
        return P, np.zeros(k)


def check_problem(problem: Problem, solver: object) -> None:
    """Alternating solvers fit real entries: a ValueError for anything else."""
    name = type(solver).__name__
    if not isinstance(problem, Completion):
        raise ValueError(f"{name} fits observed entries, and this is a {type(problem).__name__} problem: use solver='auto'")
    if problem.dtype.kind == "c":
        raise ValueError(
            f"{name} fits real entries, and these are complex: use solver='auto' or lorank.solvers.RCG(), or fit real and "
            "imaginary parts each on their own"
        )


def total_weight(problem: Problem) -> float:
    """The sum of the weights of the observations: their number, where they have none."""
    weights = problem.observations.weights if isinstance(problem, Completion) else None
    return float(problem.m if weights is None else weights.sum())


def begin(problem: Problem, state: State, offsets: bool) -> Factors:
    """Factors of the starting point, balanced; with offsets of zero beside them where asked for."""
    X, backend = state.X, problem.backend
    root = backend.astype(X.s, np.float64) ** 0.5
    rows, cols = (backend.astype(a, np.float64) * root for a in (X.U, X.V))
    if offsets:
        zeros, ones = ([backend.zeros((n, 1), np.float64) + one for n in X.shape] for one in (0.0, 1.0))
        rows = backend.concat([rows, zeros[0], ones[0]])
        cols = backend.concat([cols, ones[1], zeros[1]])
    k = rows.shape[1]
    prior = (np.eye(k), np.zeros(k))
    return Factors(rows, cols, prior, prior)


def held(width: int, columns: bool, offsets: bool) -> int:
    """The coordinate that is held at 1; -1 for none."""
    return -1 if not offsets else width - 2 if columns else width - 1


def scales(problem: Completion, power: float) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Factors on the penalties of rows and of columns."""
    if power == 0:
        return None, None
    counts = (problem.backend.to_numpy(problem.observations.counts(side)) for side in (0, 1))
    rows, cols = ((np.maximum(c, 1) / max(c[c > 0].mean(), 1)) ** power for c in counts)
    return rows, cols


def advance(problem: Problem, state: State, factors: Factors, squares: float) -> State:
    """The state at new factors; ``squares`` is the sum of the squared residuals, the step how far X has moved."""
    residual = float(np.sqrt(max(squares, 0.0))) / (problem.y_norm or 1.0)
    X, moved = factors.point(problem.backend), factors.distance(state.memory, problem.backend)
    return State(state.iteration + 1, X, problem.gradient(X), residual, moved, state.X, factors)
