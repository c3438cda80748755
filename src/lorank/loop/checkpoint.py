"""Checkpoints: save and resume interrupted runs."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.checks import NOT_NEGATIVE, check
from ..geometry import FixedRank
from ..io.archive import FileError, read_archive, write_archive
from ..problems import Problem

if TYPE_CHECKING:
    from ..common.timer import Timer
    from .state import State


class Checkpoint:
    """Callback that saves the best point to a file from time to time, and reads it back.

    The file has the point but not the solver's memory: a resumed run takes other steps than an uninterrupted one, to the same
    solution.

    Parameters
    ----------
    path : path
        File to write.
    every : float
        Seconds between writes; 0 writes after each iteration.
    problem : Problem
    rank : int
    solver : str
        Description of the solver. A file of another problem, rank or solver is refused.
    """

    def __init__(self, path: str | os.PathLike[str], every: float, problem: Problem, rank: int, solver: str) -> None:
        check("checkpoint_every", every, NOT_NEGATIVE)
        self.path, self.every, self.rank, self.solver = Path(path), float(every), rank, solver
        if not self.path.parent.is_dir():
            raise ValueError(f"checkpoint={self.path}: the folder {self.path.parent} does not exist")
        self.fingerprint = problem.fingerprint()
        self._last, self._best, self._before = time.monotonic(), float("inf"), 0

    def resume(self, problem: Problem) -> FixedRank | None:
        """The point in the file; None if there is no file."""
        if not self.path.exists():
            return None
        try:
            _, meta, arrays = read_archive(self.path, "checkpoint")
            own = {"fingerprint": self.fingerprint, "rank": _json(self.rank), "solver": self.solver}
            differ = [name for name, value in own.items() if meta[name] != value]
            self._before, self._best = int(meta["iteration"]), float(meta["residual"])
            X = problem.manifold.from_arrays(arrays, problem.backend)
        except (KeyError, TypeError) as error:
            raise FileError(f"{self.path} is not a checkpoint: {error!r}") from None
        if differ:
            what = {"fingerprint": "problem"}.get(differ[0], differ[0])
            raise FileError(
                f"{self.path} is a checkpoint of another {what}: delete it, or choose another path"
                + ("" if what == "problem" else f" (it has {what} {meta[what]!r}, this run {own[what]!r})")
            )
        try:
            return problem.manifold.check_point(X, problem.shape, self.rank, problem.dtype, problem.backend)
        except ValueError as error:
            raise FileError(f"{self.path} is not a checkpoint of this problem: {error}") from None

    def __call__(self, problem: Problem, state: State, clock: Timer) -> None:
        if time.monotonic() - self._last < self.every or not state.residual < self._best:
            return  # only better points are saved
        self.write(problem, state.X, state.iteration, state.residual)

    def write(self, problem: Problem, X: FixedRank, iteration: int, residual: float) -> None:
        """Write a point, atomically."""
        X = X.padded(self.rank)
        meta: dict[str, Any] = {
            "fingerprint": self.fingerprint,
            "rank": _json(self.rank),
            "solver": self.solver,
            "iteration": self._before + iteration,
            "residual": residual,
        }
        arrays = {name: problem.backend.to_numpy(a) for name, a in X.manifold.arrays(X).items()}
        self._last = time.monotonic()
        try:
            write_archive(self.path, "checkpoint", meta, arrays)
        except FileError as error:  # a full disk, say: the run is worth more than its checkpoint
            warnings.warn(f"checkpoint not saved, the run continues: {error}", stacklevel=2)
        else:
            self._best = residual


def _json(rank: Any) -> Any:
    """The rank as JSON represents it."""
    return list(rank) if isinstance(rank, tuple) else rank
