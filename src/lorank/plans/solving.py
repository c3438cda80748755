"""The function :func:`solve`."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from ..common.checks import NOT_NEGATIVE, PATH, Expected, ParameterError, check, optional, whole
from ..common.fingerprint import fingerprint
from ..common.timer import Timer
from ..geometry import FixedRankManifold
from ..loop.callbacks import Callback, Progress
from ..loop.checkpoint import Checkpoint
from ..loop.result import ConvergenceWarning, History, OutlierWarning, Result, Status
from ..loop.runner import INTERRUPTED, Interrupted, Run, limit_threads, run
from ..loop.solver import Solver
from ..loop.state import State
from ..loop.stopping import A_RULE, Divergence, Iterations, RankCollapse, RelativeResidual, Rule, Stall
from ..losses.residual_tails import outlier_share
from ..problems import Completion, Problem
from ..problems.capabilities import HasEstimate, HasInitialPoint, HasObservations, HasSplit, TightFrame, require, supports
from ..problems.observed_core import observed_energies, undetermined
from ..starts.registry import STARTS, check_point, resolve_start, start_of_model
from .noise_test import NoiseFloor, learned_loss, noise_of
from .rank_search import Found, describe_path, find_rank
from .registry import default_start, resolve_solver
from .tensor_rank import find_tensor_rank


def _are_callbacks(callbacks: Any) -> bool:
    if not isinstance(callbacks, Iterable) or callable(callbacks) or isinstance(callbacks, (str, np.ndarray)):
        return False
    return all(callable(one) and not isinstance(one, type) for one in callbacks)


OPTIONS = {
    "tol": NOT_NEGATIVE,
    "max_iter": whole(0),
    "seed": whole(0),
    "checkpoint": optional(PATH),
    "checkpoint_every": NOT_NEGATIVE,
    "stop": optional(A_RULE),
    "callbacks": Expected("be a list of functions of problem, state and clock", _are_callbacks),
}
ALL_ZERO = Status("converged", advice="All measurements are zero, and so is X.", success=True)
LEAST_SHARE = 0.8  # of the expected energy in the observed entries
EMPTY_RATIO = 1e-3  # of a singular value to the one before, below which a direction may be empty
NEEDED = 100  # times the residual: images of directions above it are needed to fit the data


def solve(
    problem: Problem,
    rank: int | tuple[int, ...] | Literal["auto"] | None = None,
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
        The measurements, for example a :class:`~lorank.Completion`.
    rank : int, tuple of int or "auto"
        One number per mode for tensors; by default 1 for phase retrieval, and needed otherwise. ``"auto"`` begins with the
        number of components that stand out from noise (``result.spectrum``) and compares neighbouring ranks by the residual or,
        for noisy data, by the error on held-out measurements; then all measurements are fitted. ``result.rank_path`` lists the
        ranks. For tensors it is one number for all modes.
    solver : str or Solver
        ``"auto"`` or another name of :func:`lorank.solvers.families`, such as ``"rcg"``, ``"r3mc"``, ``"gauss-newton"``,
        ``"prgd"`` or ``"niht"`` (case-insensitive), or an object such as ``RGD(RowColumn(), Constant(0.7))``.
    tol : float
        Tolerance: success when ``|A X - y| <= tol |y|`` or, for noisy data, when the residual is stationary and white noise
        (status ``"noise"``; ``result.noise`` is its standard deviation).
    max_iter : int
        Largest number of iterations.
    start : str, FixedRank, (U, s, V) or callable, optional
        Initial point or its computation: ``"spectral"``, ``"staged"`` or ``"continuation"``; the default depends
        on the solver.
    stop : Rule, optional
        Stopping rule instead of those on the residual and on stalls. Limits on iterations and divergence remain.
    callbacks : sequence of callables ``callback(problem, state, clock)``
        Called after the start and after each iteration, outside the measured time. A callback that returns True ends the run.
    progress : bool
        Show a progress bar.
    seed : int
        Seed of the random initial vectors of singular value computations. Results are reproducible to the last bit, for
        completion with any number of threads, also of runs at the same time in one process; for sensing and phase retrieval,
        whose products use all BLAS threads, with the same number of BLAS threads and no other run at the same time.
    checkpoint : path, optional
        File for the best point so far. An existing file of the same problem, rank and solver is resumed; any other is refused.
    checkpoint_every : float
        Seconds between writes of the checkpoint.
    device : str or torch.device, optional
        Compute with PyTorch on that device, for example ``"cuda"``. By default the device of the problem's data. The arrays of
        the result are then tensors; ``result.numpy()`` converts them.

    Returns
    -------
    Result
        Ctrl-C returns the best point so far, with status ``"interrupted"``.

    Warns
    -----
    ConvergenceWarning
        If the run ends before ``tol`` is reached. Not with ``stop``, nor after a callback or Ctrl-C has ended the run.
    OutlierWarning
        If the residuals of a least-squares fit indicate outliers.

    Raises
    ------
    ValueError
        If a parameter is invalid, for example a rank larger than the matrix, an unknown solver or one that needs what the
        problem does not have, a checkpoint of another problem, or a missing device.

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
            "missing values use Completion.from_dense(array_with_nan), for a sparse matrix Completion.from_sparse(S)",
        )
    rank = problem.default_rank if rank is None else rank
    if rank is None:
        raise ParameterError("rank", f"is needed for {type(problem).__name__}: a whole number, or 'auto' to select it")
    algorithm = resolve_solver(solver, problem, rank)
    require(problem, algorithm, *algorithm.parts())
    given = {"tol": tol, "max_iter": max_iter, "seed": seed, "checkpoint": checkpoint, "checkpoint_every": checkpoint_every}
    for name, value in (given | {"stop": stop, "callbacks": callbacks}).items():
        check(name, value, OPTIONS[name])
    problem = problem if device is None else problem.to(device)
    problem.check_scale()
    clock, found = Timer(), Found(rank)  # type: ignore[arg-type]
    if isinstance(rank, str) and rank == "auto":
        inside, oversampling = algorithm.rank_search(problem)
        if _is_tensor(inside):
            found = find_tensor_rank(inside, tol, np.random.default_rng(seed), algorithm)
        else:
            found = find_rank(inside, tol, np.random.default_rng(seed), oversampling)
        if found.interrupted is not None:
            return _without_run(problem, found.interrupted, INTERRUPTED, algorithm, clock, found)
        algorithm = resolve_solver(solver, problem, found.rank)
    searched, r = clock.seconds if found.path else 0.0, problem.check_rank(found.rank)
    checked = default_start(problem) if start is None else None
    if start is None:
        start = checked or start_of_model(problem, algorithm.default_start)
    begin: Any = resolve_start(start, problem, r)
    if problem.y_norm == 0:
        return _without_run(problem, problem.zero(r), ALL_ZERO, algorithm)
    callbacks, keeper = list(callbacks), None
    if checkpoint is not None:
        keeper = Checkpoint(checkpoint, checkpoint_every, problem, r, fingerprint(algorithm))
        resumed = keeper.resume(problem)
        if resumed is not None:
            begin, checked = resumed, None
        callbacks.append(keeper)
    rule = (RelativeResidual(tol) | NoiseFloor() | Stall()) if stop is None else stop
    rule = rule | Divergence(algorithm.divergence) | RankCollapse() | Iterations(int(max_iter))
    clock = Timer()
    with contextlib.ExitStack() as stack:
        stack.enter_context(limit_threads(problem))
        if progress:
            name = solver if isinstance(solver, str) else type(solver).__name__
            callbacks.append(stack.enter_context(Progress(tol, int(max_iter), name)))
        try:
            X = _first_point(problem, begin, r, np.random.default_rng(seed))
        except KeyboardInterrupt as stopped:
            point = stopped.point if isinstance(stopped, Interrupted) else problem.zero(r)
            return _without_run(problem, problem.project_feasible(point.padded(r)), INTERRUPTED, algorithm, clock, found)
        if checked is not None:
            problem = checked.adjusted(problem)
        ended = run(problem, algorithm, problem.project_feasible(X), rule, callbacks=callbacks, clock=clock)
        X = problem.project_feasible(ended.state.X.padded(r))
        if keeper is not None and ended.n_iter:
            keeper.write(problem, X, ended.n_iter, ended.state.residual)
    loose = undetermined(problem, X.rank) if isinstance(problem, Completion) else None
    ending, G = algorithm.finish(problem, X, ended), ended.state.gradient
    remarks = ["" if checked is None else checked.warning, describe_path(found, found.rank, tol)]
    unused = _empty_directions(problem, X, max(tol, ended.state.residual))
    if not unused and ended.status == "noise":
        unused = _unobserved_directions(problem, X, ended.state.residual)
    remarks += ["" if loose is None else f"{loose}.", problem.remark(), unused]
    status = _advised(ended, remarks, ending.doubt)
    if stop is None:
        outlying = "" if ending.outliers is not None else _outlying(problem, algorithm, ended.state, status)
        status = _warned(status, outlying, ended.state.residual, tol)
    return Result(
        X=X,
        status=status,
        n_iter=ended.n_iter,
        seconds=searched + clock.seconds,
        residual=ended.state.residual,
        history=ended.history,
        solver=algorithm,
        estimate=_estimate(problem, X),
        rank_path=found.path,
        noise=noise_of(G) if ending.noise is None else ending.noise,
        loss=learned_loss(G),
        outliers=ending.outliers,
        undetermined=loose,
        spectrum=found.spectrum,
    )


def _is_tensor(problem: Problem) -> bool:
    """Whether ranks are tried one after the other, from the initial points of the model."""
    return not supports(problem, FixedRankManifold) and supports(problem, HasSplit) and supports(problem, HasInitialPoint)


def _first_point(problem: Problem, begin: Any, rank: Any, rng: np.random.Generator) -> Any:
    """The point that a start computes, or a given one; points of a user's own start are checked."""
    if hasattr(begin, "manifold"):
        return begin
    made = begin(problem, rank, rng)
    return made if any(begin is own for own in STARTS.values()) else check_point(made, problem, rank)


def _advised(ended: Run, remarks: Sequence[str], doubt: str) -> Status:
    """The status with the solver's notes and these remarks as advice, the last one on unused directions.

    There is no success with a doubt, nor in a fit of noise with empty or unobserved directions.
    """
    status, notes, unused = ended.status, ended.history.notes, remarks[-1] != "" and ended.status == "noise"
    transitions = "; ".join(f"Iteration {k}: {note}" for k, note in notes.items()) + "." * bool(notes)
    for text in (transitions, *remarks):
        status = status.with_advice(text) if text else status
    return Status("stalled", advice=f"{doubt} {status.advice}".strip()) if doubt or unused else status


def _warned(status: Status, outlying: str, residual: float, tol: float) -> Status:
    """The status with advice on outliers, after warnings about these and about a run that has not converged."""
    if outlying:
        status = status.with_advice(outlying)
        warnings.warn(outlying, OutlierWarning, stacklevel=3)
    if not status.success and status not in ("interrupted", "callback"):
        message = f"solve did not reach tol={tol:g} (status '{status}', relative residual {residual:.1e}). {status.advice}"
        warnings.warn(message, ConvergenceWarning, stacklevel=3)
    return status


def _empty_directions(problem: Problem, X: Any, residual: float) -> str:
    """A sentence on trailing singular values that are tiny, and that the data do not need; empty if there are none."""
    if not supports(problem, FixedRankManifold):
        return ""
    s = np.asarray(X.backend.to_numpy(X.s), float)
    gaps = np.flatnonzero(s[1:] < EMPTY_RATIO * s[:-1])
    if not len(gaps):
        return ""
    k = int(gaps[0]) + 1
    if np.linalg.norm(s[k:]) * problem.operator_scale**0.5 > NEEDED * residual * problem.y_norm:
        return ""
    return (
        f"Only {k} of {len(s)} directions are used: singular value {k + 1} is {s[k] / s[k - 1]:.0e} of the one before, and the "
        f"data do not need it. Use rank={k}."
    )


def _unobserved_directions(problem: Problem, X: Any, residual: float) -> str:
    """A sentence on directions that are larger on unobserved entries by more than the noise; empty if there are none.

    A fit of too high a rank can agree with the data in the observed entries by directions that are large outside of them.
    """
    spare = problem.m - problem.dof(X.rank)
    if spare <= 0 or not (supports(problem, HasObservations) and supports(problem, FixedRankManifold)):
        return ""
    found = observed_energies(problem, X)
    hidden = {first: expected - seen for first, (seen, expected) in found.items() if seen < LEAST_SHARE * expected}
    first = max(hidden, key=hidden.__getitem__, default=0)
    if not hidden or hidden[first] <= residual**2 * problem.m / spare * found[0][1]:
        return ""
    share = found[first][0] / found[first][1]
    return (
        f"The last {X.rank - first} of {X.rank} directions are larger on unobserved than on observed entries (with {share:.0%} "
        f"of the expected energy in the observed ones), by more than the noise: the data do not determine a fit of rank "
        f"{X.rank}. Use a smaller rank or rank='auto'."
    )


def _estimate(problem: Problem, X: Any) -> Any:
    return problem.estimate(X) if supports(problem, HasEstimate) else None


def _without_run(
    problem: Problem, X: Any, status: Status, algorithm: Solver, clock: Timer | None = None, found: Found | None = None
) -> Result:
    """The result where there is nothing to iterate, or Ctrl-C came before the first iteration."""
    residual = State.at(problem, X).residual if problem.y_norm else 0.0
    history, seconds = History(), 0.0 if clock is None else clock.seconds
    history.append(0, seconds, residual, float("nan"))
    path = () if found is None else found.path
    return Result(X, status, 0, seconds, residual, history, algorithm, _estimate(problem, X), path)


def _outlying(problem: Problem, algorithm: Solver, state: State, status: Status) -> str:
    """A sentence on residuals that indicate outliers of a least-squares fit; empty if there are none."""
    if status not in ("noise", "stalled"):
        return ""
    if not (supports(problem, HasObservations) and supports(problem, TightFrame)):
        return ""
    if getattr(algorithm, "safeguard", True) is None:  # its residuals may be large for other reasons
        return ""
    d, weights = state.gradient.residual, problem.observations.weights
    if weights is not None:  # deviations in units of their standard deviation
        d = d * weights**0.5
    share = outlier_share(d, problem.y, problem.dof(state.X.rank), problem.backend, status == "noise")
    if not share:
        return ""
    return (
        f"{share:.2%} of the observations look like outliers, which distort a least-squares fit. Pass loss='robust' to "
        "Completion to find them and fit the others."
    )
