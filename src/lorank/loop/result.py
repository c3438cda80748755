"""Result of a run: status, history, rank trials and outliers; and warnings."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..common.checks import counted
from ..common.frames import frame_of
from ..geometry import FixedRank
from ..io.archive import save_model
from ..problems.observed_core import Undetermined


class ConvergenceWarning(UserWarning):
    """:func:`~lorank.solve` ended before the tolerance was reached. The message has the reason and advice.

    It is not raised with user-defined stopping rules (``stop=``).

    Examples
    --------
    >>> import warnings
    >>> import lorank as lr
    >>> problem, _ = lr.datasets.random_completion(60, 50, rank=2, oversampling=5)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", lr.ConvergenceWarning)
    ...     result = lr.solve(problem, rank=2, max_iter=3)
    >>> result.converged
    False
    """


class OutlierWarning(UserWarning):
    """Residuals of a least-squares fit indicate outliers. The message has their share and advice.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import lorank as lr
    >>> problem, _ = lr.datasets.random_completion(100, 80, rank=2, oversampling=8, factors="gaussian", noise=0.1)
    >>> values = np.array(problem.y)
    >>> values[::20] += 50.0
    >>> problem = lr.Completion(problem.rows, problem.cols, values, problem.shape)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     result = lr.solve(problem, rank=2)
    >>> any(issubclass(one.category, lr.OutlierWarning) for one in caught)
    True
    """


class Status(str):
    """Status of a run: a short name that compares as a string, with a sentence of advice.

    Parameters
    ----------
    name : str
        For example ``"converged"``.
    advice : str
        Explanation and advice.
    success : bool
        Whether the run reached its goal.

    Examples
    --------
    >>> status = Status("interrupted", advice="Stopped by Ctrl-C.", success=False)
    >>> status == "interrupted", status.advice
    (True, 'Stopped by Ctrl-C.')
    """

    advice: str
    success: bool

    def __new__(cls, name: str, *, advice: str = "", success: bool = False) -> Status:
        status = super().__new__(cls, name)
        status.advice, status.success = advice, success
        return status

    def with_advice(self, text: str) -> Status:
        """The same status with another sentence of advice."""
        return Status(self, advice=f"{self.advice} {text}", success=self.success)

    def __repr__(self) -> str:
        return f"<{self}: {self.advice}>"


def column(k: int, dtype: type) -> Any:
    """A property: the k-th column of ``self._rows`` as an array."""
    return property(lambda self: np.array([row[k] for row in self._rows], dtype))


class History:
    """History of a run as arrays ``iteration``, ``seconds``, ``residual``, ``step`` and ``core_residual``, and ``notes``.

    The residual is relative, ``|A X_t - y| / |y|``; the step is that to X_t (nan for a start). While the default solver
    computes with the well-observed core of the matrix only, X_t is zero elsewhere and the residual hardly falls;
    ``core_residual`` is that of the core then, and nan otherwise. ``notes`` maps iterations to remarks such as transitions of a
    plan.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> history = lr.solve(problem, rank=2).history
    >>> history.residual[0] > history.residual[-1]
    np.True_
    """

    columns = ("iteration", "seconds", "residual", "step", "core_residual")

    def __init__(self) -> None:
        self._rows: list[tuple[int, float, float, float, float]] = []
        self.notes: dict[int, str] = {}
        self._begun = 0

    def append(
        self,
        iteration: int,
        seconds: float,
        residual: float,
        step: float,
        core_residual: float = float("nan"),
        note: str = "",
        restarted: bool = False,
    ) -> None:
        self._rows.append((iteration, seconds, residual, step, core_residual))
        if note:
            self.notes[iteration] = note
        if restarted:
            self._begun = iteration

    iteration, seconds, residual, step, core_residual = (column(k, float if k else int) for k in range(5))

    def recent(self, count: int) -> list[float]:
        """The last residuals, at most ``count``, oldest first, since the last restart of the solver."""
        return [row[2] for row in self._rows[-count:] if row[0] >= self._begun]

    @property
    def first_residual(self) -> float:
        return self._rows[0][2]

    def to_dict(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in self.columns}

    def to_frame(self) -> Any:
        """The history as a data frame of pandas, or of polars where pandas is not installed.

        Its columns are ``iteration``, ``seconds``, ``residual``, ``step``, ``core_residual`` and ``note``.
        """
        notes = [self.notes.get(k, "") for k in self.iteration.tolist()]
        return frame_of(self.to_dict() | {"note": notes})

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        if not self._rows:
            return "History(empty)"
        return f"History({counted(len(self), 'entry', 'entries')}, residual {self._rows[0][2]:.2e} -> {self._rows[-1][2]:.2e})"


class RankTrial(NamedTuple):
    """A rank that was tried, its relative residual, and its relative error on held-out measurements (nan without them).

    For Hankel completion with squares the error is predicted from all samples, by the Bayesian information criterion.
    """

    rank: int
    residual: float
    held_out: float


@dataclass(frozen=True)
class Outliers:
    """Observations that a robust fit considers outliers.

    Attributes
    ----------
    mask : (m,) bool array
        Whether each observation is an outlier, in the order in which the observations were given to
        :class:`~lorank.Completion` with ``loss="robust"`` (row by row, as ``problem.rows`` and ``problem.cols``, otherwise).
    weights : (m,) array
        Biweights ``(1 - |d / limit|^2)^2`` of the deviations d, from 1 for a perfect fit to 0 at ``limit``.
    limit : float
        Deviation beyond which an observation is an outlier; inf without a search for outliers.

    Examples
    --------
    >>> import numpy as np
    >>> import lorank as lr
    >>> X = np.outer(np.arange(1.0, 21.0), np.arange(1.0, 16.0))
    >>> X[3, 7] = -500.0
    >>> result = lr.solve(lr.Completion.from_dense(X, loss="robust"), rank=1)
    >>> np.flatnonzero(result.outliers.mask), result.outliers.share
    (array([52]), 0.0033333333333333335)
    """

    mask: np.ndarray
    weights: np.ndarray = field(repr=False)
    limit: float

    @property
    def share(self) -> float:
        """Share of outliers among all observations."""
        return float(self.mask.mean()) if len(self.mask) else 0.0


@dataclass
class Result:
    """The recovered matrix, and how the run went.

    Attributes
    ----------
    X : FixedRank
        The matrix: ``X.U``, ``X.s``, ``X.V``; ``X.entries(rows, cols)``; ``X.to_dense()``.
    status : Status
        Compares as a string; ``status.advice`` has an explanation and advice.
    n_iter : int
        Number of iterations.
    seconds : float
        Time, with the start and without callbacks.
    residual : float
        ``|A X - y| / |y|`` at X.
    history : History
    solver : object
        The solver with its parameters.
    estimate : object or None
        What X represents in models of signals and states: :class:`~lorank.phase.Signal` in phase retrieval,
        :class:`~lorank.problems.exponentials.Exponentials` in Hankel completion,
        :class:`~lorank.problems.quantum_state.QuantumState` in tomography. Its attributes are those of the result as well:
        ``result.signal`` is ``result.estimate.signal``.
    rank_path : tuple of RankTrial
        ``rank="auto"``: the ranks that were tried, in increasing order.
    noise : float
        Estimated standard deviation of the noise of an observation of weight 1, adjusted for the degrees of freedom; with a
        robust loss, of the inliers. For classes and counts the dispersion, which is about 1 where the model holds. nan if there
        are no more data than degrees of freedom.
    loss : Loss or None
        The loss with its fitted parameters (a scale, thresholds); None for least squares.
    outliers : Outliers or None
        ``loss="robust"``: the outliers.
    undetermined : Undetermined or None
        In completion, the rows and columns with too few observations to be determined at this rank, whatever the solver; None
        where there are none.
    spectrum : Spectrum or None
        ``rank="auto"``: singular values of the count-normalized measurements, and the null edge above which they are structure
        (:func:`~lorank.starts.spectrum`).

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=6)
    >>> result = lr.solve(problem, rank=2)
    >>> str(result.status), result.converged
    ('converged', True)
    >>> len(str(result).splitlines())  # status, solver, advice
    3
    >>> result.X.shape
    (60, 50)
    >>> result.plot().savefig("run.png")  # doctest: +SKIP
    """

    X: FixedRank
    status: Status
    n_iter: int
    seconds: float
    residual: float
    history: History = field(repr=False)
    solver: Any = field(repr=False)
    estimate: Any = field(repr=False, default=None)
    rank_path: tuple[RankTrial, ...] = field(default=(), repr=False)
    noise: float = field(default=float("nan"), repr=False)
    loss: Any = field(default=None, repr=False)
    outliers: Outliers | None = field(default=None, repr=False)
    undetermined: Undetermined | None = field(default=None, repr=False)
    spectrum: Any = field(default=None, repr=False)

    def predict(self, rows: Any, cols: Any) -> np.ndarray:
        """Expected observations at index pairs: entries of X or, with a discrete loss, probabilities, expected classes or
        expected counts.
        """
        z = self.X.backend.to_numpy(self.X.entries(rows, cols))
        return z if self.loss is None else self.loss.mean(z)

    def numpy(self) -> Result:
        """The same result with NumPy arrays instead of tensors."""
        estimate = None if self.estimate is None else self.estimate.numpy()
        return replace(self, X=self.X.numpy(), estimate=estimate)

    if not TYPE_CHECKING:  # a type checker knows the fields alone

        def __getattr__(self, name: str) -> Any:
            estimate = vars(self).get("estimate")
            if estimate is None or name.startswith("_") or not hasattr(estimate, name):
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
            return getattr(estimate, name)

        def __dir__(self) -> list[str]:
            estimate = vars(self).get("estimate")
            return sorted({*object.__dir__(self), *(name for name in dir(estimate) if estimate and not name.startswith("_"))})

    @property
    def converged(self) -> bool:
        return self.status.success

    def plot(self, figure: Any = None) -> Any:
        """Plot the convergence with the noise floor, the spectrum and, with ``rank="auto"``, the ranks that were tried.

        The spectrum has the singular values of X or, with ``rank="auto"``, those of the normalized observations with the null
        edge, above which they are structure. The ground is transparent, for light and dark pages. Needs matplotlib.

        Parameters
        ----------
        figure : matplotlib figure, optional
            Where to draw; by default a new figure without a window.

        Returns
        -------
        matplotlib figure
            ``figure.savefig("run.png")`` writes it; notebooks show it.
        """
        from .result_views import plot_result

        return plot_result(self, figure)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the result to a file that :func:`lorank.load` reads, without pickle and atomically.

        The file has NumPy arrays, whatever the device; of ``solver`` it has the description.
        """
        return save_model(self, path)

    def _repr_html_(self) -> str:
        from .result_views import result_html

        outliers = 0 if self.outliers is None else int(self.outliers.mask.sum())
        facts = [
            ("status", str(self.status)),
            ("solution", str(self.X)),
            ("solver", short_name(self.solver)),
            ("iterations", f"{self.n_iter:,}"),
            ("seconds", f"{self.seconds:.3g}"),
            ("relative residual", f"{self.residual:.2e}"),
            ("noise (standard deviation)", f"{self.noise:.3g}" if self.status == "noise" else ""),
            ("ranks tried", ", ".join(str(trial.rank) for trial in self.rank_path)),
            ("outliers", f"{outliers:,} ({self.outliers.share:.2%})" if self.outliers is not None and outliers else ""),
            ("advice", self.status.advice),
        ]
        return result_html(self, facts)

    def __str__(self) -> str:
        times = f"{self.n_iter} iteration{'s' * (self.n_iter != 1)}"
        lines = [
            f"{self.status} after {times}, {self.seconds:.3g} s, relative residual {self.residual:.2e}",
            f"{self.X} by {short_name(self.solver)}",
        ]
        if self.outliers is not None and self.outliers.mask.any():
            lines.append(f"{counted(int(self.outliers.mask.sum()), 'observation')} ({self.outliers.share:.2%}) are outliers")
        return "\n".join([*lines, self.status.advice]).rstrip()


class SolverText(NamedTuple):
    """The solver of a result that was read from a file, as text."""

    full: str
    short: str

    def __repr__(self) -> str:
        return self.full


def short_name(solver: Any) -> str:
    """``Auto``, or ``RGD(RowColumn, Constant)``: the solver without its parameters."""
    if isinstance(solver, SolverText):
        return solver.short
    parts = [type(part).__name__ for name in ("metric", "step_rule") if (part := getattr(solver, name, None)) is not None]
    return type(solver).__name__ + (f"({', '.join(parts)})" if parts else "")
