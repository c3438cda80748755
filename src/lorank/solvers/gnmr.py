"""Gauss-Newton on two factors (GNMR) and rank 2r iterative least squares (R2RILS)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from ..backends import Array, Arrays
from ..common.checks import SHARE, Checked, one_of, parameter, whole
from ..geometry import FixedRank, Tangent, Weights, riemannian_gradient
from ..loop.solver import Solver
from ..loop.state import State
from ..problems import MatrixProblem
from .least_squares import require_two_factors
from .tangent_system import Damping, TangentSystem

VARIANTS = {"updating": -1.0, "averaging": 0.0, "setting": 1.0}  # the paper's alpha


class Factors(NamedTuple):
    """Two factors; the point they belong to need not have them balanced."""

    left: Array
    right: Array


@dataclass(frozen=True)
class GNMR(Checked, Solver):
    """Gauss-Newton matrix recovery (Zilber and Nadler): linear least squares for both factors, solution of least norm.

    The "updating" variant adds the minimizer of ``|A((L + dL) R^H + L dR^H) - y|`` of least norm ``|dL|^2 + |dR|^2`` to L and
    R. The others minimize the norm of another part of the new factors; for balanced factors all three agree. Compared with
    :class:`GaussNewton`, which solves the same system on the tangent space, the next X has the term ``dL dR^H`` and no damping.

    Parameters
    ----------
    variant : "updating", "averaging" or "setting"
        The paper's alpha: -1, 0 or 1.
    tol : float
        Relative accuracy of the conjugate gradients. They begin at zero, and a low accuracy keeps steps short along
        directions that the measurements hardly determine.
    inner_max_iter : int
        Largest number of conjugate gradient steps.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.GNMR()).converged
    True
    """

    variant: Literal["updating", "averaging", "setting"] = parameter("updating", one_of(tuple(VARIANTS)))
    tol: float = parameter(1e-2, SHARE)
    inner_max_iter: int = parameter(500, whole(1))

    needs: ClassVar[tuple[type, ...]] = (MatrixProblem,)
    divergence: ClassVar[float] = 1e6  # single steps of undamped Gauss-Newton may go far off

    def start(self, problem: MatrixProblem, state: State) -> Factors:
        require_two_factors(self, problem, state)
        root = state.X.s**0.5
        return Factors(state.X.U * root, state.X.V * root)

    def step(self, problem: MatrixProblem, state: State) -> State:
        X, (L, R), alpha = state.X, state.memory, VARIANTS[self.variant]
        rhs = -riemannian_gradient(X, state.gradient, Weights())
        xi, _ = _system(problem, X, state).solve(rhs, tol=self.tol, max_iter=self.inner_max_iter)
        core = X.backend.add_diagonal(xi.M, (1 + alpha) * X.backend.small(X.s))
        dL, dR = least_norm_factors(Tangent(X, core, xi.Up, xi.Vp), L, R)
        kept = (1 - alpha) / 2
        L, R = kept * L + dL, kept * R + dR
        return state.next(problem, FixedRank.from_factors(L, R, backend=X.backend), 1.0, Factors(L, R))


@dataclass(frozen=True)
class R2RILS(Checked, Solver):
    """Rank 2r iterative least squares (Bauch, Nadler and Zilber).

    ``|A(L B^H + C R^H) - y|`` is minimized over B and C of least norm, and X is the best approximation of rank r to
    ``L B^H + C R^H``, which has rank 2r. The next L and R are the averages of the old ones and of C and B, with columns of norm
    1 before and after.

    Parameters
    ----------
    tol : float
        Accuracy of the conjugate gradients relative to the residual of X.
    inner_max_iter : int
        Largest number of conjugate gradient steps.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> lr.solve(problem, rank=2, solver=lr.solvers.R2RILS()).converged
    True
    """

    tol: float = parameter(1e-4, SHARE)
    inner_max_iter: int = parameter(500, whole(1))

    needs: ClassVar[tuple[type, ...]] = (MatrixProblem,)

    def start(self, problem: MatrixProblem, state: State) -> Factors:
        require_two_factors(self, problem, state)
        return Factors(state.X.U, state.X.V)

    def step(self, problem: MatrixProblem, state: State) -> State:
        X, (L, R), backend = state.X, state.memory, problem.backend
        U, V = backend.orthonormalize(L), backend.orthonormalize(R)
        at = FixedRank(U, np.ones(X.rank, X.real_dtype), V, backend)  # only the spans matter
        system = _system(problem, at, state)
        y = problem.y if state.gradient.curvature is None else state.gradient.curvature * problem.y
        # From zero: directions that the measurements hardly determine would accumulate from X to X.
        accuracy = self.tol * min(state.residual, 1.0)
        xi, _ = system.solve(system.pull_back(y), tol=accuracy, max_iter=self.inner_max_iter)
        C, B = least_norm_factors(xi, L, R)
        sides = ((L, C), (R, B))
        L, R = (_unit_columns(a + _unit_columns(b, backend), backend) for a, b in sides)
        new = FixedRank.from_factors(*xi.factors(), rank=X.rank, backend=backend)
        return state.next(problem, new, 1.0, Factors(L, R))


def least_norm_factors(xi: Tangent, L: Array, R: Array) -> Factors:
    """DL and dR with ``dL R^H + L dR^H = xi`` and the least ``|dL|^2 + |dR|^2``, for L and R that span the same as U and V.

    All solutions are ``dL + L K``, ``dR - R K^H``; the best K solves the Sylvester equation
    ``L^H L K + K R^H R = dR^H R - L^H dL``.
    """
    X, backend = xi.X, xi.X.backend
    Up, Vp = backend.asarrays(xi.Up, xi.Vp)
    a, b = _inverse(backend.gram(X.U, L)), _inverse(backend.gram(X.V, R))
    core = backend.small(xi.M) @ b.conj().T  # U^H dL
    (p, P), (q, Q) = (np.linalg.eigh(backend.gram(F, F)) for F in (L, R))
    total = p[:, None] + q[None, :]
    right = P.conj().T @ (-backend.gram(L, X.U) @ core) @ Q
    K = P @ np.divide(right, total, out=np.zeros_like(right), where=total > 0) @ Q.conj().T
    dL = backend.product(X.U, core) + backend.product(Up, b.conj().T) + backend.product(L, K.astype(X.dtype))
    dR = backend.product(Vp, a.conj().T) - backend.product(R, K.conj().T.astype(X.dtype))
    return Factors(dL, dR)


def _inverse(a: np.ndarray) -> np.ndarray:
    """The inverse; without directions that are zero up to rounding."""
    return np.linalg.pinv(a, rcond=10 * len(a) * float(np.finfo(a.dtype).eps)).astype(a.dtype)


def _unit_columns(a: Array, backend: Arrays) -> Array:
    norms = np.sqrt(np.diag(backend.gram(a, a)).real)
    return a / backend.values(np.where(norms > 0, norms, 1).astype(norms.dtype))


def _system(problem: MatrixProblem, X: FixedRank, state: State) -> TangentSystem:
    return TangentSystem(problem, X, Damping.constant(X, 0.0), state.gradient.curvature)
