"""Uneven sampling patterns: few rows and columns have most of the observations."""

from __future__ import annotations

import numpy as np


def uneven_pattern(
    rng: np.random.Generator,
    shape: tuple[int, int],
    m: int,
    *,
    powers: tuple[float, float] = (0.5, 0.7),
    least: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw about ``m`` distinct index pairs whose row and column frequencies follow power laws.

    Parameters
    ----------
    rng : Generator
    shape : (int, int)
    m : int
        Number of pairs. Pairs added to reach ``least`` make the pattern slightly larger.
    powers : (float, float)
        Exponents a of the frequencies ``k^-a`` of rows and of columns, in random order; 0 is uniform. By default 0.5 and 0.7.
    least : int
        Minimum number of observations of a row or column; by default 1.

    Returns
    -------
    rows, cols : integer arrays
        In row-major order.

    Raises
    ------
    ValueError
        If more than half of the entries, or of a row or column, are requested.

    Examples
    --------
    >>> import numpy as np, lorank as lr
    >>> rows, cols = lr.datasets.uneven_pattern(np.random.default_rng(0), (300, 200), 6000, least=5)
    >>> counts = np.bincount(rows)
    >>> bool(counts.min() >= 5), bool(counts.max() > 5 * np.median(counts))
    (True, True)
    """
    n1, n2 = shape
    if not (0 <= m <= n1 * n2 // 2 and 0 <= least <= min(shape) // 2):
        raise ValueError(
            f"m = {m:,} or least = {least} is too large for a {n1} x {n2} matrix: m may be at most half of the entries, least "
            "half of a row or column"
        )
    shares = [_shares(rng, n, power) for n, power in zip(shape, powers, strict=True)]
    keys = np.zeros(0, np.int64)
    while len(keys) < m:
        count = int(1.2 * (m - len(keys))) + 10
        rows, cols = (rng.choice(len(share), count, p=share) for share in shares)
        keys = np.union1d(keys, rows * n2 + cols)
    if len(keys) > m:
        keys = rng.permutation(keys)[:m]
    while True:
        rows, cols = np.divmod(keys, n2)
        lacks = [np.maximum(least - np.bincount(index, minlength=n), 0) for index, n in ((rows, n1), (cols, n2))]
        if not any(lack.any() for lack in lacks):
            keys.sort()
            rows, cols = np.divmod(keys, n2)
            return rows, cols
        of_rows, of_cols = (np.repeat(np.arange(len(lack)), lack) for lack in lacks)
        more_rows = of_rows * n2 + rng.choice(n2, len(of_rows), p=shares[1])
        more_cols = rng.choice(n1, len(of_cols), p=shares[0]) * n2 + of_cols
        keys = np.union1d(keys, np.concatenate([more_rows, more_cols]))


def _shares(rng: np.random.Generator, n: int, power: float) -> np.ndarray:
    share = np.arange(1.0, n + 1) ** -power
    return rng.permutation(share / share.sum())
