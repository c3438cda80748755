"""Columns of a table in units of their own: means and deviations of numbers of any size, without overflow."""

from __future__ import annotations

import warnings

import numpy as np

LARGEST = 1e300  # in size: beyond, differences of two numbers may overflow
SAFE = 1e-100, 1e100  # between these, squares and their sums are numbers
FAR = 1e15  # deviations: a new cell that is farther off is taken to be there, so that squares fit into single precision


def column_moments(table: np.ndarray, names: list[str] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of the columns; deviations of 0 where cells differ by rounding alone.

    Columns of very large or very small numbers are computed in units of a power of two, which rounds nothing.

    Parameters
    ----------
    table : (n, d) array
        With nan in the gaps. Columns without any value have mean 0, and a warning is given.
    names : list of str, optional
        Of the columns, for messages.
    """
    gaps = np.isnan(table)
    counts = (~gaps).sum(axis=0)
    if (counts == 0).any():
        empty = np.flatnonzero(counts == 0)
        warnings.warn(f"columns without any value are filled with 0: {', '.join(map(str, empty[:5]))}", stacklevel=4)
    safe = np.maximum(counts, 1)
    values = np.where(gaps, 0.0, table)
    largest = np.maximum(values.max(axis=0), -values.min(axis=0))
    if (largest > LARGEST).any():
        j = int(np.argmax(largest))
        name = j if names is None else repr(names[j])
        raise ValueError(f"column {name} holds numbers of size {largest[j]:.1e}: divide it by {largest[j]:.0e} first")
    odd = (largest > 0) & ((largest < SAFE[0]) | (largest > SAFE[1]))
    power = np.where(odd, np.frexp(largest)[1], 0)
    if odd.any():
        values = np.ldexp(values, -power)
    means = values.sum(axis=0) / safe
    scales = np.sqrt((np.where(gaps, 0.0, values - means) ** 2).sum(axis=0) / safe)
    scales[scales <= 1e-12 * np.maximum(np.abs(means), np.finfo(float).tiny)] = 0.0
    return np.ldexp(means, power), np.ldexp(scales, power)


def standardised(table: np.ndarray, means: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Cells in deviations from the mean; those beyond all bounds at a bound, so that products of them are numbers."""
    with np.errstate(over="ignore"):
        return np.asarray(np.clip((table - means) / scales, -FAR, FAR))
