"""Random problems with known solutions, as in the paper's experiments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ..backends import Backend
from ..common.checks import (
    FLOAT_TYPE,
    NOT_NEGATIVE,
    POSITIVE,
    SHAPE,
    ParameterError,
    check,
    instance,
    one_of,
    optional,
    shown,
    whole,
)
from ..geometry import FixedRank
from ..phase import PhaseRetrieval
from ..phase.problem import RowNorms
from ..problems import Completion, Sensing
from ..problems.input_checks import finite_array

MAX_DRAWS = 10**9  # random numbers of a problem
Factors = Literal["uniform", "gaussian", "ill-scaled"]


FACTORS: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "uniform": lambda rng, n, r: rng.random((n, r)),
    "gaussian": lambda rng, n, r: rng.standard_normal((n, r)),
    "ill-scaled": lambda rng, n, r: rng.standard_normal((n, r)),
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
    backend: str | Backend | None = None,
) -> tuple[Completion, FixedRank]:
    """Random matrix completion problem with known solution ``X = left right^H``.

    Parameters
    ----------
    n1, n2, rank : int
        Shape and rank of X.
    oversampling : float
        Observations per degree of freedom, the paper's 1/q; by default 5.
    factors : {"uniform", "gaussian", "ill-scaled"}
        Distribution of the factors: uniform on [0, 1] (the default, and the paper's), standard normal, or standard normal with
        the rows of the left factor scaled by lognormal numbers.
    spread : float
        Standard deviation of the logarithms of these numbers, for ``"ill-scaled"``; by default 0.5.
    noise : float
        Norm of the added noise relative to the norm of the observed entries; by default 0.
    dtype : dtype
        For complex types real and imaginary parts are random.
    seed : int
    backend : str or backend, optional
        See :class:`~lorank.Completion`.

    Returns
    -------
    problem : Completion
    truth : FixedRank

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_completion(60, 50, rank=2, oversampling=4, noise=0.01)
    >>> problem.m, truth.rank
    (864, 2)
    """
    _check_sizes(n1, n2, rank)
    _check_draw(oversampling, noise, dtype, seed)
    check("factors", factors, one_of(FACTORS))
    check("spread", spread, NOT_NEGATIVE)
    rng, dtype = np.random.default_rng(seed), np.dtype(dtype)
    draw = FACTORS[factors]
    left, right = draw(rng, n1, rank), draw(rng, n2, rank)
    if dtype.kind == "c":
        left, right = left + 1j * draw(rng, n1, rank), right + 1j * draw(rng, n2, rank)
    if factors == "ill-scaled":
        left = left * rng.lognormal(0.0, spread, (n1, 1))
    truth = FixedRank.from_factors(left, right)
    m = min(max(1, round(min(oversampling, n1 * n2) * (n1 + n2 - rank) * rank)), n1 * n2)
    _check_size("n1, n2, rank and oversampling", m)
    rows, cols = sample_pattern(rng, (n1, n2), m)
    values = truth.entries(rows, cols)
    return Completion(rows, cols, _noisy(rng, values, noise).astype(dtype), (n1, n2), backend=backend), truth


def random_sensing(
    n1: int,
    n2: int,
    rank: int,
    *,
    m: int | None = None,
    oversampling: float = 3.0,
    normalized: bool = False,
    noise: float = 0.0,
    dtype: Any = np.float64,
    seed: int = 0,
    backend: str | Backend | None = None,
) -> tuple[Sensing, FixedRank]:
    """Random matrix sensing problem: Gaussian measurements of a matrix with Gaussian factors.

    Parameters
    ----------
    n1, n2, rank : int
        Shape and rank of the matrix.
    m : int, optional
        Number of measurements; by default ``oversampling`` per degree of freedom.
    oversampling : float
        Measurements per degree of freedom, the paper's 1/q; by default 3.
    normalized : bool
        Variance of the measurement matrices: 1/m (True), for which they have the restricted isometry property, or 1 (False,
        the default), as in the paper's experiments.
    noise : float
        Norm of the added noise relative to the norm of the measurements; by default 0.
    dtype : dtype
    seed : int
    backend : str or backend, optional
        See :class:`~lorank.Completion`.

    Returns
    -------
    problem : Sensing
    truth : FixedRank

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, truth = lr.datasets.random_sensing(10, 8, rank=1, m=100)
    >>> problem.shape, problem.m
    ((10, 8), 100)
    """
    _check_sizes(n1, n2, rank)
    _check_draw(oversampling, noise, dtype, seed)
    check("m", m, optional(whole(1)))
    rng, dtype = np.random.default_rng(seed), np.dtype(dtype)
    m = max(1, round(oversampling * (n1 + n2 - rank) * rank)) if m is None else m
    _check_size("m, n1 and n2", m * n1 * n2)
    truth = FixedRank.from_factors(_normal(rng, (n1, rank), dtype), _normal(rng, (n2, rank), dtype))
    A = _normal(rng, (m, n1 * n2), dtype)
    if dtype.kind == "c":
        A /= np.sqrt(2).astype(A.real.dtype)  # unit variance
    if normalized:
        A /= np.sqrt(m).astype(A.real.dtype)
    y = A.conj() @ truth.to_dense(limit=None).ravel()
    return Sensing(A, _noisy(rng, y, noise), (n1, n2), backend=backend), truth


def random_phase(
    n: int,
    *,
    m: int | None = None,
    oversampling: float = 6.0,
    noise: float = 0.0,
    dtype: Any = np.float64,
    seed: int = 0,
    row_norms: RowNorms = "auto",
    backend: str | Backend | None = None,
) -> tuple[PhaseRetrieval, np.ndarray]:
    """Random phase retrieval problem: intensities ``|A x|^2`` of a Gaussian signal, with a Gaussian A of unit variance.

    Parameters
    ----------
    n : int
        Length of the signal.
    m : int, optional
        Number of measurements; by default ``oversampling * n``.
    oversampling : float
        Measurements per entry of the signal; by default 6.
    noise : float
        Norm of the added noise relative to the norm of the intensities, by default 0; negative intensities are set to zero.
    dtype : dtype
        For complex types A and x are complex.
    seed : int
    row_norms
        See :class:`~lorank.PhaseRetrieval`.
    backend : str or backend, optional
        See :class:`~lorank.Completion`.

    Returns
    -------
    problem : PhaseRetrieval
    x : (n,) array

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, x = lr.datasets.random_phase(20, oversampling=5)
    >>> problem.m, x.shape
    (100, (20,))
    """
    check("n", n, whole(1))
    _check_draw(oversampling, noise, dtype, seed)
    check("m", m, optional(whole(1)))
    rng, dtype = np.random.default_rng(seed), np.dtype(dtype)
    m = max(1, round(oversampling * n)) if m is None else m
    _check_size("m and n", m * n)
    A, x = _normal(rng, (m, n), dtype), _normal(rng, (n,), dtype)
    if dtype.kind == "c":
        A /= np.sqrt(2).astype(A.real.dtype)
    y = np.maximum(_noisy(rng, np.abs(A @ x) ** 2, noise), 0)
    return PhaseRetrieval(A, y, row_norms=row_norms, backend=backend), x


def random_diffraction(
    signal: Any,
    *,
    masks: int = 8,
    noise: float = 0.0,
    seed: int = 0,
    row_norms: RowNorms = "auto",
    backend: str | Backend | None = None,
) -> tuple[PhaseRetrieval, np.ndarray]:
    """Phase retrieval problem of coded diffraction patterns with random octanary masks.

    An entry of a mask is b1 b2 with b1 one of 1, -1, i, -i and b2 either sqrt(1/2), with probability 0.8, or sqrt(3).

    Parameters
    ----------
    signal : (n,) or (h, w) array, or the shape of one
        For a shape, a complex Gaussian signal is drawn.
    masks : int
        Number of masks; by default 8.
    noise : float
        Norm of the added noise relative to the norm of the intensities, by default 0; negative intensities are set to zero.
    seed : int
    row_norms
        See :class:`~lorank.PhaseRetrieval`.
    backend : str or backend, optional
        See :class:`~lorank.Completion`.

    Returns
    -------
    problem : PhaseRetrieval
    x : (n,) or (h, w) array
        The signal.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Examples
    --------
    >>> import lorank as lr
    >>> problem, x = lr.datasets.random_diffraction((8, 6), masks=5)
    >>> problem.m, x.shape
    (240, (8, 6))
    """
    check("masks", masks, whole(1))
    _check_draw(1.0, noise, np.complex128, seed)
    rng = np.random.default_rng(seed)
    if isinstance(signal, (int, np.integer, tuple)):
        shape = signal if isinstance(signal, tuple) else (int(signal),)
        if not shape or not all(whole(1).holds(n) for n in shape):
            raise ParameterError("signal", f"must be an array or the shape of one: got {shown(signal)}")
        _check_size("masks and signal", masks * math.prod(shape))
        x = _normal(rng, shape, np.dtype(np.complex128))
    else:
        x = finite_array(signal, "signal")
        if not float(np.abs(x).max()) < 1e100:
            raise ParameterError("signal", "has entries above 1e100, whose intensities overflow: scale it")
        x = x.astype(np.result_type(x, np.complex64))
        shape = x.shape
    _check_size("masks and signal", masks * math.prod(shape))
    D = rng.choice(np.array([1, -1, 1j, -1j]), (masks, *shape))
    D *= rng.choice(np.sqrt([0.5, 3.0]), D.shape, p=[0.8, 0.2])
    D = D.astype(x.dtype)
    y = np.abs(np.fft.fftn(D * x, axes=tuple(range(1, D.ndim)))) ** 2
    y = np.maximum(_noisy(rng, y, noise), 0).astype(x.real.dtype)
    return PhaseRetrieval.coded_diffraction(D, y, row_norms=row_norms, backend=backend), x


def _check_sizes(n1: Any, n2: Any, rank: Any) -> None:
    for name, value in (("n1", n1), ("n2", n2), ("rank", rank)):
        check(name, value, whole(1))
    if rank > min(n1, n2):
        raise ParameterError("rank", f"must be at most {min(n1, n2)}, the smaller side of a {n1} x {n2} matrix: got {rank}")
    _check_size("n1, n2 and rank", (n1 + n2) * rank)


def _check_size(names: str, count: int) -> None:
    if count > MAX_DRAWS:
        raise ValueError(f"{names} require more than {MAX_DRAWS:,} random numbers: reduce them")


def _check_draw(oversampling: Any, noise: Any, dtype: Any, seed: Any) -> None:
    check("oversampling", oversampling, POSITIVE)
    check("noise", noise, NOT_NEGATIVE)
    check("dtype", dtype, FLOAT_TYPE)
    check("seed", seed, whole(0))


def _normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Standard normal entries; complex ones in both parts."""
    real = np.zeros(0, dtype).real.dtype.type
    a = rng.standard_normal(shape, real)
    return a if dtype.kind != "c" else (a + 1j * rng.standard_normal(shape, real)).astype(dtype)


def _noisy(rng: np.random.Generator, y: np.ndarray, noise: float) -> np.ndarray:
    if not noise:
        return y
    w = _normal(rng, y.shape, y.dtype)
    return y + (noise * np.linalg.norm(y) / np.linalg.norm(w) * w).astype(y.dtype)


def _distinct(keys: np.ndarray) -> np.ndarray:
    """Sorted distinct keys. ``numpy.unique`` hashes and is 30 times slower for a million keys."""
    keys = np.sort(keys)
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys


def sample_pattern(rng: np.random.Generator, shape: tuple[int, int], m: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw ``m`` distinct index pairs uniformly at random, without an array of all of them.

    Parameters
    ----------
    rng : numpy.random.Generator
    shape : (int, int)
        Shape of the matrix.
    m : int
        Number of pairs.

    Returns
    -------
    rows, cols : (m,) integer arrays
        In row-major order.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> import lorank as lr
    >>> rows, cols = lr.datasets.sample_pattern(np.random.default_rng(0), (100, 80), 500)
    >>> len(set(zip(rows.tolist(), cols.tolist())))
    500
    """
    check("rng", rng, instance(np.random.Generator, "a random generator such as numpy.random.default_rng(0)"))
    check("shape", shape, SHAPE)
    check("m", m, whole(0))
    n1, n2 = map(int, shape)
    total = n1 * n2
    if total > 2**62:
        raise ParameterError("shape", f"{n1} x {n2} has more entries than a 64-bit integer can index")
    if not 0 <= m <= total:
        raise ParameterError("m", f"must be at most {total:,}, the number of entries of a {n1} x {n2} matrix: got {m:,}")
    if m > total // 3:
        keys = np.sort(rng.permutation(total)[:m])
    else:
        keys = _distinct(rng.integers(0, total, int(m * 1.25) + 10))
        while len(keys) < m:
            keys = _distinct(np.concatenate([keys, rng.integers(0, total, m)]))
        keys = np.sort(rng.permutation(keys)[:m])
    rows, cols = np.divmod(keys, n2)
    return rows, cols
