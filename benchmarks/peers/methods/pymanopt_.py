"""pymanopt's conjugate gradients on its manifold of fixed-rank matrices, with a gradient that stays on the observed entries.

As it comes, pymanopt's transport multiplies ``U S V^T B`` from the left, so that it forms an n x n array at every step.
``thin`` sets the parentheses the other way: not what a user gets, but what the method itself can do.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import time

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from data import Data

GRID = [
    {"beta": "HestenesStiefel", "start": "spectral"},
    {"beta": "PolakRibiere", "start": "spectral"},
    {"beta": "HestenesStiefel", "start": "random"},
]


class Done(Exception):
    """The tolerance is reached, or the budget spent."""


def version() -> str:
    return f"pymanopt {importlib.metadata.version('pymanopt')}"


def run(data: Data, setting: dict, threads: int, tolerances: list[float], budget: float, repeats: int) -> dict:
    out: dict = {"runs": [], "best": np.inf, "effort": 0.0}
    for _ in range(repeats):
        trace = _once(data, setting, min(tolerances), budget)
        reached = {}
        for tol in tolerances:
            first = next(((seconds, k) for k, (seconds, error) in enumerate(trace) if error <= tol), None)
            reached[str(tol)] = first and {"seconds": first[0], "steps": first[1]}
        out["runs"].append(reached)
        out["best"] = min(out["best"], *(error for _, error in trace))
        out["effort"] = max(out["effort"], trace[-1][0])
        if reached[str(max(tolerances))] is None:
            break  # it would only spend the budget again
    return out


def _once(data: Data, setting: dict, tol: float, budget: float) -> list[tuple[float, float]]:
    import pymanopt
    from pymanopt.manifolds import FixedRankEmbedded
    from pymanopt.manifolds.fixed_rank import _FixedRankPoint, _FixedRankTangentVector
    from pymanopt.optimizers import ConjugateGradient

    class Thin(FixedRankEmbedded):
        def _apply_ambient(self, vector, matrix):
            return vector[0] @ (vector[1] @ (vector[2].T @ matrix))

        def _apply_ambient_transpose(self, vector, matrix):
            return vector[2] @ (vector[1].T @ (vector[0].T @ matrix))

    clock, trace = Stopwatch(), []
    n1, n2 = data.shape
    manifold = (Thin if setting.get("thin") else FixedRankEmbedded)(n1, n2, data.rank)
    starts = np.searchsorted(data.rows, np.arange(n1 + 1))
    rows, cols, values = data.rows, data.cols, data.values

    def residual(u, s, vt) -> np.ndarray:
        left, right, out = u * s, np.ascontiguousarray(vt.T), np.empty_like(values)
        for k in range(0, len(values), 1 << 16):
            part = slice(k, k + (1 << 16))
            out[part] = np.einsum("ij,ij->i", left[rows[part]], right[cols[part]])
        return out - values

    @pymanopt.function.numpy(manifold)
    def cost(u, s, vt):
        return 0.5 * float(np.sum(residual(u, s, vt) ** 2))

    @pymanopt.function.numpy(manifold)
    def gradient(u, s, vt):
        with clock.paused():
            trace.append((clock.seconds(), data.error(u * s, vt.T)))
            if trace[-1][1] <= tol or trace[-1][0] > budget:
                raise Done
        g = scipy.sparse.csr_array((residual(u, s, vt), cols, starts), shape=data.shape)
        gv, gu = g @ vt.T, g.T @ u
        middle = u.T @ gv
        return _FixedRankTangentVector(gv - u @ middle, middle, gu - vt.T @ middle.T)

    np.random.seed(1)  # noqa: NPY002 (pymanopt draws from the global generator)
    if setting.get("start", "spectral") == "spectral":
        scale = n1 * n2 / len(values)
        matrix = scipy.sparse.csr_array((values * scale, cols, starts), shape=data.shape)
        u, s, vt = scipy.sparse.linalg.svds(matrix, k=data.rank, rng=np.random.default_rng(1))
        point = _FixedRankPoint(u[:, ::-1], s[::-1], vt[::-1])
    else:
        point = manifold.random_point()
    problem = pymanopt.Problem(manifold, cost, riemannian_gradient=gradient)
    optimizer = ConjugateGradient(
        beta_rule=setting.get("beta", "HestenesStiefel"),
        max_time=10 * budget,
        max_iterations=10**6,
        min_gradient_norm=0,
        min_step_size=0,
        verbosity=0,
    )
    with contextlib.suppress(Done):
        optimizer.run(problem, initial_point=point)
    return trace


class Stopwatch:
    """Seconds since it was made, less those spent in ``with paused()``."""

    def __init__(self) -> None:
        self.begin, self.idle = time.perf_counter(), 0.0

    def seconds(self) -> float:
        return time.perf_counter() - self.begin - self.idle

    def paused(self) -> Stopwatch:
        return self

    def __enter__(self) -> None:
        self._since = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.idle += time.perf_counter() - self._since
