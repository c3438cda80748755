"""Columns that follow each other in time: what neighbours in time say about a cell, as further columns beside it.

For every cell, known or not, the line between the known cells before and after it (leaving out itself) is one such column;
the same shrunk by the distance to them another; the cells a period before and after a third. A Gaussian of the columns and
these then weighs neighbours in time against the other columns of the same row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .folds import NEVER

NEAR = 6.0  # steps in which a neighbour in time loses most of what it says, where gaps are long
LAG = 0.3  # the least correlation at which a period counts
SHORTEST = 4  # periods
HIDDEN = 0.15  # the most of a column that a fold hides
SHORT = 4  # steps: where gaps are no longer on average, fewer cells are hidden, so that their neighbours stay known
ENOUGH = 15  # rows that a fold hides at the least, up to that share
PLACES = 4  # that are looked at for a run to be hidden in


@dataclass(frozen=True)
class Neighbours:
    """What to put beside a table whose rows are in the order of time.

    Attributes
    ----------
    period : int
        In rows; 0 where there is none.
    """

    period: int = 0

    def __call__(self, table: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Further columns of a table: an (n, 2 d) or (n, 3 d) array without gaps."""
        line, distance = between(table, times)
        parts = [line, line * np.exp(-distance / (NEAR * typical_step(times)))]
        if self.period:
            parts.append(seasonal(table, self.period, line))
        return np.hstack(parts)


def between(table: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The line through the known cells before and after each cell, at its time, and the way to them: their harmonic mean.

    That is how the variance of a random walk grows between two known points; beyond the last one it is twice the way to it.
    Beyond the first and last known cell the nearest one is repeated; a column without any other known cell has its mean, or 0.
    """
    n, d = table.shape
    line, distance = np.zeros((n, d)), np.full((n, d), np.inf)
    rows = np.arange(n)
    for j in range(d):
        known = np.flatnonzero(~np.isnan(table[:, j]))
        if not len(known):
            continue
        at = np.searchsorted(known, rows)  # the first known row that is not before
        own = np.zeros(n, bool)
        own[known] = True
        before, after = at - 1, at + own
        left, right = known[np.maximum(before, 0)], known[np.minimum(after, len(known) - 1)]
        has_left, has_right = before >= 0, after < len(known)
        left, right = np.where(has_left, left, right), np.where(has_right, right, left)
        span = times[right] - times[left]
        share = np.where(has_left & has_right, (times - times[left]) / np.where(span > 0, span, 1.0), 0.0)
        line[:, j] = table[left, j] * (1 - share) + table[right, j] * share
        lone = ~has_left & ~has_right
        line[lone, j] = 0.0
        back, ahead = np.where(has_left, times - times[left], np.inf), np.where(has_right, times[right] - times, np.inf)
        near, far = np.minimum(back, ahead), np.maximum(back, ahead)
        with np.errstate(invalid="ignore"):
            distance[:, j] = 2 * near / (1 + near / np.where(far > 0, far, 1.0))
    return line, np.where(np.isfinite(distance), distance, 1e9 * typical_step(times))


def seasonal(table: np.ndarray, period: int, otherwise: np.ndarray) -> np.ndarray:
    """The mean of the cells one period before and after, whichever are known, further periods where neither is."""
    out = np.full(table.shape, np.nan)
    for times in (1, 2, 3):
        lag = times * period
        if lag >= len(table):
            break
        before, after = np.full(table.shape, np.nan), np.full(table.shape, np.nan)
        before[lag:], after[:-lag] = table[:-lag], table[lag:]
        both = np.where(np.isnan(before), after, np.where(np.isnan(after), before, (before + after) / 2))
        out = np.where(np.isnan(out), both, out)
    return np.where(np.isnan(out), otherwise, out)


def profile(table: np.ndarray, period: int) -> np.ndarray:
    """The mean of each column at each place in the period, for every row: an (n, d) array; the column's mean where none is
    known.
    """
    n, d = table.shape
    phase, known = np.arange(n) % period, ~np.isnan(table)
    cell = phase[:, None] * d + np.arange(d)
    counts = np.bincount(cell[known], minlength=period * d).reshape(period, d)
    sums = np.bincount(cell[known], table[known], period * d).reshape(period, d)
    mean = sums.sum(axis=0) / np.maximum(counts.sum(axis=0), 1)
    return np.asarray(((sums + mean) / (counts + 1))[phase])


def find_period(table: np.ndarray, times: np.ndarray) -> int:
    """The lag, in rows, at which columns resemble themselves most after they had ceased to; 0 where there is none.

    Autocorrelations come from the columns with their gaps interpolated and their lines taken out.
    """
    n = len(table)
    if n < 4 * SHORTEST:
        return 0
    line = np.where(np.isnan(table), between(table, times)[0], table)
    t = np.linspace(-1, 1, n)
    line = line - line.mean(axis=0) - np.outer(t, (t @ line) / (t @ t))
    spectrum = np.abs(np.fft.rfft(line, 2 * n, axis=0)) ** 2
    auto = np.fft.irfft(spectrum, axis=0)[: n // 3 + 1]
    auto = auto[:, auto[0] > 0] / auto[0, auto[0] > 0]
    if not auto.shape[1]:
        return 0
    mean = auto.mean(axis=1) * (n / (n - np.arange(len(auto))))
    peaks = [k for k in range(SHORTEST, len(mean) - 1) if mean[k] >= mean[k - 1] and mean[k] > mean[k + 1] and mean[k] > LAG]
    peaks = [k for k in peaks if mean[k] > mean[:k].min() + 0.1]  # after a valley
    if not peaks:
        return 0
    highest = max(mean[k] for k in peaks)
    return int(next(k for k in peaks if mean[k] > 0.9 * highest))


def block_folds(missing: np.ndarray, folds: int, rng: np.random.Generator, dark: np.ndarray | None = None) -> np.ndarray:
    """Which fold each known cell is hidden in, in runs as long as the table's gaps: an (n, d) integer array, -1 where in none.

    Runs of all columns at once come in the share that they have among the gaps. Rows of ``dark``, an (n,) Boolean array, are
    left out: they are judged apart, and say nothing about other gaps.
    """
    if dark is not None and dark.any():
        fold = np.full(missing.shape, NEVER)
        fold[~dark] = block_folds(missing[~dark], folds, rng)
        return fold
    n, d = missing.shape
    fold = np.full((n, d), NEVER)
    everywhere = np.asarray(missing.all(axis=1))
    lengths = runs(everywhere)
    share = float(missing.mean())
    shared = float(everywhere.sum() * d / max(missing.sum(), 1))
    single = np.concatenate([runs(np.asarray(missing[:, j] & ~everywhere)) for j in range(d)])
    for k in range(folds):
        if shared > 0 and len(lengths):
            _hide(fold, k, lengths, list(range(d)), 0.8 * HIDDEN * shared, rng, missing)
        if shared < 1:
            own = single if len(single) else np.ones(1, int)
            most = HIDDEN if own.mean() > SHORT else min(max(share / 4, HIDDEN / 4, ENOUGH / n), HIDDEN)
            for j in range(d):
                _hide(fold, k, own, [j], most * (1 - shared), rng, missing)
    fold[missing] = NEVER
    return fold


def ends_of_runs(missing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where runs of True begin, and the first places after them."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], missing.astype(np.int8), [0]])))
    return edges[::2], edges[1::2]


def runs(missing: np.ndarray) -> np.ndarray:
    """Lengths of the runs of True."""
    first, after = ends_of_runs(missing)
    return after - first


def _hide(
    fold: np.ndarray, k: int, lengths: np.ndarray, cols: list[int], share: float, rng: np.random.Generator, missing: np.ndarray
) -> None:
    """Runs of these lengths at random places, until that share of the rows is hidden in fold k.

    Places where a run is whole are looked for: pieces of runs are shorter gaps, and easier ones.
    """
    n, hidden, tries = len(fold), 0, 0
    if len(cols) == 1 and lengths.mean() <= SHORT:  # all at once
        drawn = rng.choice(lengths, int(np.ceil(share * n / lengths.mean())))
        starts = rng.integers(0, np.maximum(n - drawn, 1))
        for step in range(int(lengths.max())):
            rows = starts[drawn > step] + step
            rows = rows[rows < n]
            fold[rows, cols[0]] = np.where(fold[rows, cols[0]] == NEVER, k, fold[rows, cols[0]])
        return
    while hidden < share * n and tries < 4 * n:
        length = int(min(rng.choice(lengths), n // 4 + 1))
        starts = rng.integers(0, max(n - length, 1), PLACES if length > SHORT else 1)
        taken = [int(((fold[at : at + length, cols] != NEVER) | missing[at : at + length, cols]).sum()) for at in starts]
        at = int(starts[int(np.argmin(taken))])
        part = fold[at : at + length, cols]
        fold[at : at + length, cols] = np.where(part == NEVER, k, part)
        hidden, tries = hidden + length, tries + 1


def typical_step(times: np.ndarray) -> float:
    steps = np.diff(times)
    steps = steps[steps > 0]
    return float(np.median(steps)) if len(steps) else 1.0
