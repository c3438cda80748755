"""Known cells that are hidden in turn, in the shape of the gaps that the table has.

A model that fills hidden cells shows there what it would do in true gaps: which model is better, what it leaves over, how
sure it is.
"""

from __future__ import annotations

import numpy as np

NEVER = -1


def cell_folds(missing: np.ndarray, folds: int, rng: np.random.Generator) -> np.ndarray:
    """Which fold each known cell is hidden in: an (n, d) integer array, -1 where it is in none.

    Cells are dealt out one by one. Where a few patterns of gaps come again and again (a form that was left out, a sensor that
    was not there), rows without gaps take the pattern of a row that has some, all in one fold.

    Parameters
    ----------
    missing : (n, d) Boolean array
    folds : int
    rng : numpy.random.Generator
    """
    n, d = missing.shape
    fold = np.where(missing, NEVER, rng.integers(0, folds, (n, d)))
    with_gaps, whole = np.flatnonzero(missing.any(axis=1)), np.flatnonzero(~missing.any(axis=1))
    if len(with_gaps) and len(whole) >= 0.1 * n and _repeated(missing[with_gaps]):
        pattern = missing[rng.choice(with_gaps, len(whole))]
        fold[whole] = np.where(pattern, rng.integers(0, folds, len(whole))[:, None], NEVER)
    return fold


def _repeated(missing: np.ndarray) -> bool:
    """Whether patterns of more than one gap are much fewer than the rows that have them."""
    missing = missing[missing.sum(axis=1) > 1]
    if len(missing) < 10:
        return False
    packed = np.packbits(missing, axis=1)
    return len(np.unique(packed, axis=0)) < 0.1 * len(missing)
