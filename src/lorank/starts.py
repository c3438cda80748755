"""Starting points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .backends import Array, as_owned
from .geometry import FixedRank
from .linalg import truncated_svd
from .operators import Gradient, Problem
from .parameter_checks import FUNCTION, POSITIVE, check_parameters, whole


class Start(Protocol):
    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank: ...


@dataclass(frozen=True)
class Spectral:
    """``X_0 = H_r(A* y) / gain``: one step of iterative hard thresholding from zero, as in the paper.

    Where that fits the data worse than the zero matrix does (far too few measurements), X_0 is scaled down to the best fit.

    Parameters
    ----------
    tol : float
        Accuracy of the singular vectors, relative to the largest singular value.
    restarts : int
        The most restarts of the Krylov method.
    depth : int
        Its blocks between restarts.
    """

    tol: float = 1e-3
    restarts: int = 6
    depth: int = 2

    def __post_init__(self) -> None:
        check_parameters(self, tol=POSITIVE, restarts=whole(1), depth=whole(1))

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        zero = FixedRank.zero(problem.shape, rank, problem.dtype, problem.backend)
        G = problem.gradient(zero)  # -A* y
        X = leading(problem, G, rank, rng, self.tol, self.restarts, self.depth)
        X = FixedRank(X.U, X.s / problem.gain, X.V, problem.backend)
        if problem.gradient(X).residual_norm > problem.y_norm:
            left = X.U * X.s
            step = -problem.backend.inner(problem.forward(left, X.V), G.dual) / G.image_energy(left, X.V)
            X = FixedRank(X.U, X.s * step, X.V, problem.backend)
        return X


ROUGHLY = Spectral(tol=1e-2, restarts=4, depth=1)  # for what is fitted further anyway


@dataclass(frozen=True)
class Staged:
    """Rank 1 first, then the rest at once: the leading singular pairs of what rank 1 leaves over.

    Where one direction dominates (a mean, say), the trailing singular vectors of ``A* y`` are mostly that direction's sampling
    noise. Fitted first, it leaves a residual that shows the others. Where the measurements see all directions alike
    (:attr:`Problem.isotropic`) there is nothing to gain, and this is the spectral start.

    Parameters
    ----------
    iterations : int
        Conjugate gradient steps at rank 1, where the model has no way of its own (:meth:`Problem.rank_one`), or rows and
        columns differ much in size: the heaviest would be fitted too well.
    """

    iterations: int = 3

    def __post_init__(self) -> None:
        check_parameters(self, iterations=whole(0))

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        if problem.isotropic and rank > 1:
            return Spectral()(problem, rank, rng)
        if rank == 1:
            return ROUGHLY(problem, 1, rng)
        rough, unit = problem.single()
        alike = problem.balanced() is None
        X = rough.rank_one(rng) if alike else None
        if X is None:
            X = fit(rough, ROUGHLY(rough, 1, rng), self.iterations, self.iterations)
        tol = 0.2 * (rank - 1) ** 0.5 if alike else 0.2  # each pair to a fifth on average, or all of them together
        return grow(rough, X, rank - 1, rng, tol=tol, dtype=problem.dtype, unit=unit)


@dataclass(frozen=True)
class Continuation:
    """Rank by rank: each rank fitted until it settles, then the leading singular pair of what it leaves over.

    Dearer than :class:`Staged`, and surer where singular values differ much in size: a small one stands out only once all
    larger ones are fitted well.

    Parameters
    ----------
    settle : int
        A rank is settled when its residual has fallen by less than a tenth over so many conjugate gradient steps,
    max_steps : int
        or after so many.
    """

    settle: int = 5
    max_steps: int = 30

    def __post_init__(self) -> None:
        check_parameters(self, settle=whole(1), max_steps=whole(0))

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        X = ROUGHLY(problem, 1, rng)
        while X.rank < rank:
            X = grow(problem, fit(problem, X, self.settle, self.max_steps), 1, rng)
        return X


@dataclass(frozen=True)
class BalancedStart:
    """A start in the units of the balanced problem, where there is one (:meth:`Problem.balanced`)."""

    start: Start = Staged()

    def __post_init__(self) -> None:
        check_parameters(self, start=FUNCTION)

    def __call__(self, problem: Problem, rank: int, rng: np.random.Generator) -> FixedRank:
        balanced = problem.balanced()
        if balanced is None:
            return self.start(problem, rank, rng)
        return balanced.back(self.start(balanced.problem, rank, rng))


def fit(problem: Problem, X: FixedRank, settle: int, max_steps: int, *, tol: float = 0.0, fall: float = 0.9) -> FixedRank:
    """X after conjugate gradient steps at its rank: until ``settle`` of them leave more than ``fall`` of the residual, or the
    relative residual is ``tol`` or rounding, and at most ``max_steps``.
    """
    from .metrics import Counts
    from .solvers.loop import State
    from .solvers.rcg import RCG

    solver, state = RCG(Counts()), State.at(problem, X)
    state = state.remember(solver.start(problem, state))
    residuals, tol = [state.residual], max(tol, 100 * float(np.finfo(X.dtype).eps))
    while residuals[-1] > tol and len(residuals) <= max_steps:
        if len(residuals) > settle and residuals[-1] > fall * residuals[-1 - settle]:
            break
        state = solver.step(problem, state)
        residuals.append(state.residual)
    return state.X


def grow(
    problem: Problem,
    X: FixedRank,
    more: int,
    rng: np.random.Generator,
    *,
    tol: float = 0.2,
    dtype: Any = None,
    unit: float = 1.0,
) -> FixedRank:
    """X with ``more`` further singular pairs: the leading ones of the negative gradient, with the step that fits them best.
    The point comes back times ``unit``, in that dtype, by default the problem's.
    """
    backend, G = problem.backend, problem.gradient(X)
    Y = leading(problem, G, more, rng, tol=tol, restarts=5, depth=1)
    left = Y.U * Y.s
    energy = G.image_energy(left, Y.V)
    step = -backend.inner(problem.forward(left, Y.V), G.dual) / energy if energy > 0 else 0.0
    both = backend.concat([X.U * X.s, left * step]), backend.concat([X.V, Y.V])
    left, right = (backend.astype(a, dtype or problem.dtype) for a in both)
    return FixedRank.from_factors(left * unit, right, backend=backend)


def leading(
    problem: Problem, G: Gradient, rank: int, rng: np.random.Generator, tol: float, restarts: int, depth: int = 2
) -> FixedRank:
    """The leading singular triples of ``-G``."""

    def times(v: Array) -> Array:
        return -G.times(v)

    def adjoint_times(u: Array) -> Array:
        return -G.adjoint_times(u)

    backend, block = problem.backend, min(rank + min(rank, max(5, rank // 4)), *problem.shape)
    # Through the operator once, so that rows and columns without data are zero from the start.
    first = adjoint_times(backend.random_normal(rng, (problem.shape[0], block), problem.dtype))
    return truncated_svd(times, adjoint_times, first, rank, backend, tol=tol, restarts=restarts, depth=depth)


STARTS: dict[str, Start] = {
    "spectral": Spectral(),
    "staged": Staged(),
    "continuation": Continuation(),
    "balanced": BalancedStart(),
}


def resolve_start(start: Any, problem: Problem, rank: int) -> Start | FixedRank:
    """A start from a name, a callable or a point."""
    if isinstance(start, str):
        if start not in STARTS:
            raise ValueError(f"unknown start {start!r}: choose one of {', '.join(map(repr, STARTS))}, or pass a point")
        return STARTS[start]
    if isinstance(start, tuple) and len(start) == 3:
        U, s, V = (as_owned(a) for a in start)
        start = FixedRank(U, s, V)
    if isinstance(start, FixedRank):
        return check_point(start, problem, rank)
    if callable(start) and not isinstance(start, type):
        return start
    got = f"the class {start.__name__} itself: write {start.__name__}()" if isinstance(start, type) else type(start).__name__
    raise ValueError(f"start must be a name, a FixedRank point, a triple (U, s, V) or a start such as Spectral(), got {got}")


def check_point(X: Any, problem: Problem, rank: int) -> FixedRank:
    """The point in the problem's dtype and backend, or a ValueError that says what is wrong with it."""
    if not isinstance(X, FixedRank):
        raise ValueError(f"a start must give a FixedRank point, got {type(X).__name__}")
    if not all(hasattr(a, "ndim") for a in (X.U, X.s, X.V)):
        U, s, V = (np.asarray(a) for a in (X.U, X.s, X.V))
        X = FixedRank(U, s, V)
    if X.U.ndim != 2 or X.V.ndim != 2 or X.s.ndim != 1:
        shapes = ", ".join(str(tuple(a.shape)) for a in (X.U, X.s, X.V))
        raise ValueError(f"a point is U (n1 x r), s (r) and V (n2 x r), got shapes {shapes}")
    if any(X.backend.dtype(a).kind not in "fciu" for a in (X.U, X.s, X.V)):
        raise ValueError("start must hold numbers")
    if X.shape != problem.shape:
        raise ValueError(
            f"start is a {X.shape[0]} x {X.shape[1]} matrix, the problem's is {problem.shape[0]} x {problem.shape[1]}"
        )
    if not X.rank == X.U.shape[1] == X.V.shape[1] == rank:
        raise ValueError(f"start has rank {X.rank} (U {X.U.shape[1]}, V {X.V.shape[1]} columns), asked for is rank {rank}")
    if not X.is_finite():
        raise ValueError("start holds nan or inf")
    if any(X.backend.is_complex(a) for a in (X.U, X.V)) and problem.dtype.kind != "c":
        raise ValueError("start is complex and the problem is real")
    s = X.backend.to_numpy(X.s)
    if np.iscomplexobj(s) or (s < 0).any() or (np.diff(s) > 0).any():
        raise ValueError("start.s must be real, not negative and in decreasing order: see FixedRank.from_factors")
    for name, factor in (("U", X.U), ("V", X.V)):
        off = np.abs(X.backend.to_numpy(X.backend.gram(factor, factor)) - np.eye(rank)).max()
        if off > 1e-3:
            raise ValueError(
                f"start.{name} has no orthonormal columns (off by {off:.1e}): make a point with "
                "FixedRank.from_factors(left, right)"
            )
    backend, real = problem.backend, np.zeros(0, problem.dtype).real.dtype
    return FixedRank(
        backend.asarray(X.U, problem.dtype), backend.asarray(X.s, real), backend.asarray(X.V, problem.dtype), backend
    )
