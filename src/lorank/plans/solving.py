"""The front door: :func:`solve`, and the solvers that go by a name."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from ..common.checks import NOT_NEGATIVE, PATH, ParameterError, check, optional, whole
from ..common.fingerprint import fingerprint
from ..common.timer import Timer
from ..loop.callbacks import Callback, Progress
from ..loop.checkpoint import Checkpoint
from ..loop.result import ConvergenceWarning, History, OutlierWarning, RankTrial, Result, Status
from ..loop.runner import INTERRUPTED, Interrupted, Solver, limit_threads, run
from ..loop.state import State
from ..loop.stopping import A_RULE, Divergence, Iterations, RankCollapse, RelativeResidual, Rule, Stall
from ..losses.residual_tails import look_like_outliers
from ..problems import Problem
from ..problems.capabilities import HasObservations, HasSignal, TightFrame, require, supports
from ..starts.registry import STARTS, check_point, resolve_start
from .noise_test import NoiseFloor, learned_loss, noise_of
from .rank_search import describe_path, find_rank
from .registry import default_start, resolve_solver


def solve(
    problem: Problem,
    rank: int | Literal["auto"],
    solver: str | Solver = "auto",
    *,
    tol: float = 1e-6,
    max_iter: int = 500,
    start: Any = None,
    stop: Rule | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = False,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = 60.0,
    device: Any = None,
) -> Result:
    """Recover a matrix of rank ``rank`` from its measurements.

    Parameters
    ----------
    problem : Problem
        For example :class:`~lorank.Completion`.
    rank : int or "auto"
        ``"auto"`` tries 1, 2, 3, ... until the residual vanishes or, on noisy data, until measurements held back are predicted
        no better; then solves with all of them. ``result.rank_path`` shows what it tried.
    solver : str or Solver
        One of ``"auto"``, ``"rcg"``, ``"gauss-newton"``, ``"prgd"``, ``"adaptive-prgd"``, ``"rgd"``,
        ``"adaptive-rgd"``, ``"shampoo"``, ``"niht"``, ``"iht"`` (capitals do not matter), or an object such as
        ``RGD(RowColumn(), Constant(0.7))``.
    tol : float
        Success when ``|A X - y| <= tol |y|``; or, where noise does not allow that, when the misfit has come to rest and nothing
        stands out in the residual any more (status ``"noise"``; ``result.noise`` tells how much there is).
    max_iter : int
        At most so many iterations.
    start : str, FixedRank, (U, s, V) or callable, optional
        ``"spectral"``, ``"staged"``, ``"continuation"`` or ``"rescaled"``; by default what suits the solver.
    stop : Rule, optional
        Replaces the rule on the residual (and on stalls); limits on iterations and divergence remain.
    callbacks : sequence of callables ``callback(problem, state, clock)``
        Called after the start and after each iteration, outside the measured time. Return True to end the run.
    progress : bool
        Show a progress bar.
    seed : int
        For the random start of singular vector computations. Same seed: same bits, in completion whatever the number of
        threads, elsewhere for the same number (BLAS multiplies with as many as it has).
    checkpoint : path, optional
        A file for the best point so far. Where it is there already and belongs to the same problem, rank and solver, the run
        goes on from it; where it belongs to another, it is refused.
    checkpoint_every : float
        Seconds between writes.
    device : str or torch.device, optional
        Compute with PyTorch on that device, ``"cuda"`` for example. By default where the problem's data are: problems built
        from tensors stay on their device. The result's arrays are then tensors there; ``result.numpy()`` brings them back.

    Returns
    -------
    Result
        Ctrl-C returns the best point so far, with status ``"interrupted"``.

    Warns
    -----
    ConvergenceWarning
        Where the run ends before ``tol`` is reached, with advice. Not where ``stop`` says itself what counts as success, nor
        where a callback or Ctrl-C ended it.

    Raises
    ------
    ValueError
        Where a parameter is not what it should be, by name: a rank beyond the smaller side, a solver that there is not or
        that asks for what the problem cannot give, a checkpoint of another problem, a device that is not there.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> result = lr.solve(problem, rank=2)
    >>> result.converged
    True
    >>> truth.distance(result.X) < 1e-4 * truth.norm()
    True
    """
    if not isinstance(problem, Problem):
        raise ParameterError(
            "problem",
            f"must be a measurement model such as lorank.Completion, got {type(problem).__name__}: for a table with "
            "gaps use Completion.from_dense(array_with_nan), for a sparse matrix Completion.from_sparse(S)",
        )
    algorithm = resolve_solver(solver, problem, rank)
    _check_robust(algorithm, problem)
    require(problem, algorithm, *(getattr(algorithm, part, None) for part in ("metric", "reweighting")))
    check("tol", tol, NOT_NEGATIVE)
    check("max_iter", max_iter, whole(0))
    check("seed", seed, whole(0))
    check("checkpoint_every", checkpoint_every, NOT_NEGATIVE)
    check("checkpoint", checkpoint, optional(PATH))
    check("stop", stop, optional(A_RULE))
    if device is not None:
        problem = problem.to(device)
    if not _are_callbacks(callbacks):
        raise ParameterError("callbacks", "must be a list of functions of problem, state and clock")
    problem.check_scale()
    clock, rng = Timer(), np.random.default_rng(seed)
    path: tuple[RankTrial, ...] = ()
    if isinstance(rank, str) and rank == "auto":
        found = find_rank(algorithm.rank_problem(problem), tol, rng)
        rank, path = found.rank, found.path
        if found.interrupted is not None:
            return _interrupted(problem, found.interrupted, algorithm, clock, path)
        rng = np.random.default_rng(seed)
        algorithm = resolve_solver(solver, problem, rank)
    r: Any = problem.check_rank(rank)
    checked = default_start(problem) if start is None else None
    if start is None:
        start = checked or algorithm.default_start
    begin: Any = resolve_start(start, problem, r)
    if problem.y_norm == 0:
        return _zero(problem, r, algorithm)
    callbacks, keeper = list(callbacks), None
    if checkpoint is not None:
        keeper = Checkpoint(checkpoint, checkpoint_every, problem, r, fingerprint(algorithm))
        begin = keeper.resume(problem) or begin
        callbacks.append(keeper)
    rule = (RelativeResidual(tol) | NoiseFloor() | Stall()) if stop is None else stop
    rule = rule | Divergence() | RankCollapse() | Iterations(int(max_iter))
    with contextlib.ExitStack() as stack:
        stack.enter_context(limit_threads(problem))
        if progress:
            name = solver if isinstance(solver, str) else type(solver).__name__
            callbacks.append(stack.enter_context(Progress(tol, int(max_iter), name)))
        searched, clock = clock.seconds if path else 0.0, Timer()
        try:
            if not hasattr(begin, "manifold"):
                made = begin(problem, r, rng)
                begin = made if any(begin is own for own in STARTS.values()) else check_point(made, problem, r)
            if checked is not None:
                problem = checked.adjusted(problem)
            X = problem.project_feasible(begin)
        except KeyboardInterrupt as stopped:
            point = stopped.point if isinstance(stopped, Interrupted) else problem.zero(r)
            return _interrupted(problem, problem.project_feasible(point.padded(r)), algorithm, clock, path)
        ended = run(problem, algorithm, X, rule, callbacks=callbacks, clock=clock)
        X = problem.project_feasible(ended.state.X.padded(r))
        if keeper is not None and ended.n_iter:
            keeper.write(problem, X, ended.n_iter, ended.state.residual)
    status, history = ended.status, ended.history
    if history.notes:
        said = "; ".join(f"iteration {k}: {note}" for k, note in history.notes.items())
        status = Status(status, advice=f"{status.advice} On the way: {said}.", success=status.success)
    if checked is not None and checked.warning:
        status = Status(status, advice=f"{status.advice} {checked.warning}", success=status.success)
    if path:
        status = Status(status, advice=f"{status.advice} {describe_path(path, r, tol)}", success=status.success)
    ending = algorithm.finish(problem, X, ended)
    if ending.doubt:
        status = Status("stalled", advice=f"{status.advice} {ending.doubt}")
    if stop is None:
        outlying = _outlying(problem, algorithm, ended.state, status)
        if outlying:
            status = Status(status, advice=f"{status.advice} {outlying}", success=status.success)
            warnings.warn(outlying, OutlierWarning, stacklevel=2)
        _warn_unless_converged(status, ended.state.residual, tol)
    seconds = searched + clock.seconds
    G, residual = ended.state.gradient, ended.state.residual
    told = noise_of(G) if ending.noise is None else ending.noise, learned_loss(G), ending.outliers
    return Result(X, status, ended.n_iter, seconds, residual, history, algorithm, _signal(problem, X), path, *told)


def _signal(problem: Problem, X: Any) -> Any:
    return problem.signal(X) if supports(problem, HasSignal) else None


def _interrupted(problem: Problem, X: Any, algorithm: Solver, clock: Timer, path: tuple[RankTrial, ...]) -> Result:
    """What there is where Ctrl-C came before the first iteration."""
    residual = State.at(problem, X).residual
    history = History()
    history.append(0, clock.seconds, residual, float("nan"))
    return Result(X, INTERRUPTED, 0, clock.seconds, residual, history, algorithm, _signal(problem, X), path)


def _check_robust(algorithm: Solver, problem: Problem) -> None:
    if getattr(problem, "robust", False) and not algorithm.finds_outliers:
        raise ValueError(
            f"loss='robust' is solved by solver='auto' or lorank.robust.Robust(...), got {algorithm!r}: with other solvers "
            "use a robust loss such as 'cauchy'"
        )


def _outlying(problem: Problem, algorithm: Solver, state: State, status: Status) -> str:
    """A sentence on observations that look like outliers, where a fit by least squares has left more than ``tol``."""
    if getattr(problem, "robust", False) or status not in ("noise", "stalled"):
        return ""
    if not (supports(problem, HasObservations) and supports(problem, TightFrame)):
        return ""
    if getattr(algorithm, "safeguard", True) is None:  # it may go round and round, whatever the data
        return ""
    d, weights = state.gradient.residual, problem.observations.weights
    if weights is not None:  # they say how large a deviation may be
        d = d * weights**0.5
    share = look_like_outliers(d, problem.y, problem.dof(state.X.rank), problem.backend, status == "noise")
    if not share:
        return ""
    return (
        f"The data look as if some observations were grossly wrong: {share:.2%} of them are far from the fit, and least "
        "squares follow them. Give Completion loss='robust' to find them and fit the others."
    )


def _warn_unless_converged(status: Status, residual: float, tol: float) -> None:
    if status.success or status in ("interrupted", "callback"):
        return
    message = f"solve did not reach tol={tol:g} (status '{status}', relative residual {residual:.1e}). {status.advice}"
    warnings.warn(message, ConvergenceWarning, stacklevel=3)


def _are_callbacks(callbacks: Any) -> bool:
    if not isinstance(callbacks, Iterable) or callable(callbacks) or isinstance(callbacks, (str, np.ndarray)):
        return False
    return all(callable(one) and not isinstance(one, type) for one in callbacks)


def _zero(problem: Problem, rank: Any, algorithm: Solver) -> Result:
    """All measurements are zero, and so is the smallest matrix that fits them."""
    X, history = problem.zero(rank), History()
    status = Status("converged", advice="All measurements are zero, and so is X.", success=True)
    history.append(0, 0.0, 0.0, float("nan"))
    return Result(X, status, 0, 0.0, 0.0, history, algorithm, _signal(problem, X))
