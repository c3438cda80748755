"""Random problems as in the paper's experiments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ..backends import Reference
from ..geometry import FixedRank
from ..operators import Completion

Factors = Literal["uniform", "gaussian", "ill-scaled"]


def _uniform(rng: np.random.Generator, n: int, r: int) -> np.ndarray:
    return rng.random((n, r))


def _gaussian(rng: np.random.Generator, n: int, r: int) -> np.ndarray:
    return rng.standard_normal((n, r))


FACTORS: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "uniform": _uniform,
    "gaussian": _gaussian,
    "ill-scaled": _gaussian,
}


def random_completion(
    n1: int,
    n2: int,
    rank: int,
    *,
    oversampling: float = 5.0,
    factors: Factors = "uniform",
    spread: float = 0.5,
    noise: float = 0.0,
    dtype: Any = np.float64,
    seed: int = 0,
    backend: str | Reference | None = None,
) -> tuple[Completion, FixedRank]:
    """A completion problem with a known solution ``X = left right^H``.

    Parameters
    ----------
    n1, n2, rank : int
    oversampling : float
        Observations for each degree of freedom, the paper's 1/q.
    factors : {"uniform", "gaussian", "ill-scaled"}
        Entries of the factors: uniform in [0, 1] (the paper's), standard normal, or standard normal with the rows of the
        left factor scaled by a lognormal.
    spread : float
        The lognormal's sigma, for ``"ill-scaled"``.
    noise : float
        Relative noise: ``noise |P(X)|`` is the norm of what is added to the observed entries.
    dtype : dtype
        Complex types make both parts random.
    seed : int

    Returns
    -------
    problem : Completion
    truth : FixedRank
    """
    if factors not in FACTORS:
        raise ValueError(f"factors must be one of {', '.join(map(repr, FACTORS))}, got {factors!r}")
    rng, dtype = np.random.default_rng(seed), np.dtype(dtype)
    draw = FACTORS[factors]
    left, right = draw(rng, n1, rank), draw(rng, n2, rank)
    if dtype.kind == "c":
        left, right = left + 1j * draw(rng, n1, rank), right + 1j * draw(rng, n2, rank)
    if factors == "ill-scaled":
        left = left * rng.lognormal(0.0, spread, (n1, 1))
    truth = FixedRank.from_factors(left, right)
    m = min(round(oversampling * (n1 + n2 - rank) * rank), n1 * n2)
    rows, cols = sample_pattern(rng, (n1, n2), m)
    values = truth.entries(rows, cols)
    if noise:
        w = rng.standard_normal(m) if dtype.kind != "c" else rng.standard_normal(m) + 1j * rng.standard_normal(m)
        values = values + noise * np.linalg.norm(values) / np.linalg.norm(w) * w
    return Completion(rows, cols, values.astype(dtype), (n1, n2), backend=backend), truth


def sample_pattern(rng: np.random.Generator, shape: tuple[int, int], m: int) -> tuple[np.ndarray, np.ndarray]:
    """``m`` different index pairs, uniformly at random, without an array of all of them."""
    n1, n2 = shape
    total = n1 * n2
    if not 0 <= m <= total:
        raise ValueError(f"cannot draw {m:,} different entries of a {n1} x {n2} matrix")
    if m > total // 3:
        keys = np.sort(rng.permutation(total)[:m])
    else:
        keys = np.unique(rng.integers(0, total, int(m * 1.25) + 10))
        while len(keys) < m:
            keys = np.union1d(keys, rng.integers(0, total, m))
        keys = np.sort(rng.permutation(keys)[:m])
    rows, cols = np.divmod(keys, n2)
    return rows, cols
