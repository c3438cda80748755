"""Iteratively reweighted least squares (IRLS) for the smoothed log-determinant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..backends import Array
from ..common.checks import SHARE, Checked, parameter, whole
from ..geometry import FixedRank, Tangent
from ..geometry.truncated_svd import truncated_svd
from ..loop.solver import Solver
from ..loop.state import State
from ..problems import MatrixProblem
from ..problems.capabilities import HasWeights, TightFrame, supports
from .tangent_system import Damping, TangentSystem

NOTE_EVERY = 40  # iterations between notes on the same number of active directions
FREE = 0.1  # damping relative to the operator scale below which a direction counts as undamped


@dataclass(frozen=True)
class IRLSState:
    """The smoothing epsilon, the point with the extra directions, the last values of epsilon, the number of directions well
    above it, the largest number reported in a note, and the iteration of the last note.
    """

    epsilon: float
    point: FixedRank | None = None
    past: tuple[float, ...] = ()
    active: int = 0
    reported: int = 0
    noted_at: int = 0


@dataclass(frozen=True)
class IRLS(Checked, Solver):
    """Iteratively reweighted least squares for the smoothed log-determinant, with a slowly decreasing smoothing epsilon.

    ``sum log max(s_i, epsilon)``, a smooth surrogate of the rank, is majorized by a quadratic with weights ``1 / (s_i s_j)``,
    every s at least epsilon. Its minimizer among the matrices that fit the data is ``xi + A*(y - A xi)``, with xi the solution
    of a damped least squares problem on the tangent space at X. While epsilon is large, only the strongest directions are
    undamped; as it decreases, the others follow one by one. A slow decrease avoids local minima: with ``rate=0.95`` problems
    with 1.5 measurements per degree of freedom are solved.

    The iteration starts at the leading singular pairs of ``A* y`` and ignores the initial point. It ends near the solution
    (``state.finished``), when no direction is damped any more; :class:`GaussNewton` then converges fast. Notes in the history
    report the number of directions above epsilon.

    Parameters
    ----------
    rate : float
        Factor on epsilon in each iteration.
    tol : float
        Relative accuracy of the inner conjugate gradients.
    inner_max_iter : int
        Largest number of inner conjugate gradient steps.
    extra : int
        Additional directions beyond the rank, which absorb single large rows; X is returned without them.
    window : int
        Iterations within which epsilon must decrease by a tenth; otherwise the iteration is finished, because of noise or a
        matrix of higher rank.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> result = lr.solve(problem, rank=2, solver=lr.solvers.IRLS(rate=0.8), stop=lr.stopping.TruthDistance(truth, 1e-2))
    >>> result.converged
    True
    """

    rate: float = parameter(0.95, SHARE)
    tol: float = parameter(1e-2, SHARE)
    inner_max_iter: int = parameter(100, whole(1))
    extra: int = parameter(2, whole(0))
    window: int = parameter(12, whole(1))

    needs: ClassVar[tuple[type, ...]] = (MatrixProblem, TightFrame)

    def start(self, problem: MatrixProblem, state: State) -> IRLSState:
        if state.X.rank >= min(problem.shape):
            raise ValueError(
                f"IRLS needs a rank below {min(problem.shape)}, the smaller side of the matrix: got {state.X.rank}; lower the "
                "rank or use another solver"
            )
        return IRLSState(float("inf"), noted_at=state.iteration)

    def step(self, problem: MatrixProblem, state: State) -> State:
        memory, rank = state.memory, state.X.rank
        exact = problem.unweighted() if supports(problem, HasWeights) else problem  # the solution does not depend on weights
        width = min(rank + self.extra, min(problem.shape) - 1)
        xi = None if memory.point is None else self._smoothed(exact, memory.point, memory.epsilon)
        Y = _leading(exact, xi, width + 1)
        s = Y.backend.small(Y.s)
        epsilon, active = self._lower(s, memory.epsilon, exact)
        past = (*memory.past, epsilon)[-self.window - 1 :]
        stuck = len(past) > self.window and epsilon > 0.9 * past[0]
        free = epsilon < FREE * exact.operator_scale / _frame_constant(exact) * float(s[rank - 1])
        finished, active = stuck or free, min(active, rank)
        notes = not finished and (active > memory.reported or state.iteration >= memory.noted_at + NOTE_EVERY)
        reported, noted_at = (max(active, memory.reported), state.iteration) if notes else (memory.reported, memory.noted_at)
        memory = IRLSState(epsilon, _first(Y, width), past, active, reported, noted_at)
        new = replace(state.next(problem, problem.manifold.nearest(_first(Y, rank)), epsilon, memory), finished=finished)
        # Progress shows in epsilon, not in the residual: a note restarts the rules on stalls.
        note = f"smoothing {epsilon:.1e}: {active} of {rank} directions active"
        return replace(new, note=note, restarted=True) if notes else new

    def _smoothed(self, problem: MatrixProblem, X: FixedRank, epsilon: float) -> Tangent:
        """The tangent part of the next iterate: the minimizer of ``|A xi - y|^2`` plus the weighted penalty."""
        c = _frame_constant(problem)
        s = np.maximum(X.backend.small(X.s).astype(float), 1.001 * epsilon)
        core, side = epsilon**2 / (np.outer(s, s) - epsilon**2), epsilon / (s - epsilon)
        system = TangentSystem(problem, X, Damping(_like(X, c * core), _like(X, c * side)))
        here = Tangent(X, np.diag(X.backend.small(X.s)).astype(X.dtype), 0 * X.U, 0 * X.V)
        return system.solve(system.pull_back(problem.y), here, tol=self.tol, max_iter=self.inner_max_iter)[0]

    def _lower(self, s: Array, epsilon: float, problem: MatrixProblem) -> tuple[float, int]:
        """The next epsilon, and the number of singular values above three times that."""
        if not np.isfinite(epsilon):
            return float(s[-1]), 0
        above = s[s > epsilon]
        lower = self.rate * epsilon
        if len(above) < len(s) and (
            not len(above) or epsilon < FREE * problem.operator_scale / _frame_constant(problem) * above[-1]
        ):
            lower = min(lower, 1.05 * float(s[len(above)]))  # skip values of epsilon at which no direction is freed
        epsilon = max(lower, float(s[-1]))
        return epsilon, int((s > 3 * epsilon).sum())


def _leading(problem: MatrixProblem, xi: Tangent | None, count: int) -> FixedRank:
    """The leading singular triples of ``xi + A*(y - A xi)``; without xi those of ``A* y / c``."""
    backend, c = problem.backend, _frame_constant(problem)
    rng = np.random.default_rng(count)
    if xi is None:
        times, adjoint_times = problem.products(problem.y / c)
        start = adjoint_times(backend.random_normal(rng, (problem.shape[0], min(count + 5, *problem.shape)), problem.dtype))
        return truncated_svd(times, adjoint_times, start, count, backend, tol=1e-2, restarts=6)
    left, right = xi.factors()
    rest, adjoint_rest = problem.products((problem.y - problem.forward(left, right)) / c)
    more = min(count + 3, *problem.shape) - xi.X.rank
    # One product with the adjoint keeps rows and columns without data zero.
    start = backend.concat([xi.X.V, adjoint_rest(backend.random_normal(rng, (problem.shape[0], more), problem.dtype))])

    def times_sum(v: Array) -> Array:
        return backend.product(left, backend.gram(right, v)) + rest(v)

    def adjoint_sum(u: Array) -> Array:
        return backend.product(right, backend.gram(left, u)) + adjoint_rest(u)

    return truncated_svd(times_sum, adjoint_sum, start, count, backend, tol=1e-7, restarts=1)


def _first(X: FixedRank, rank: int) -> FixedRank:
    """The leading ``rank`` singular triples of X."""
    copy = X.backend.copy
    return FixedRank(copy(X.U[:, :rank]), X.backend.small(X.s)[:rank], copy(X.V[:, :rank]), X.backend)


def _frame_constant(problem: MatrixProblem) -> float:
    assert problem.frame_constant is not None
    return problem.frame_constant


def _like(X: FixedRank, a: np.ndarray) -> Any:
    return a.astype(X.real_dtype)
