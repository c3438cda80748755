"""Time series: interpolation, seasons, and cross-validation folds in runs of consecutive rows."""

from __future__ import annotations

import numpy as np

from .missingness import NO_FOLD

DECAY_STEPS = 6.0  # over which the weight of a neighbor in time decays
MIN_AUTOCORRELATION = 0.3  # at a period
MIN_PERIOD = 4  # rows
MAX_HIDDEN = 0.15  # share of a column in one fold
SHORT_GAP = 4  # rows: where gaps are no longer on average, fewer cells are held out, so that their neighbors stay observed
MIN_HIDDEN_ROWS = 15  # of a fold, up to MAX_HIDDEN
PLACES = 4  # tried for each run of a fold
MAX_ABSENT = 0.25  # rows absent from a regular grid of times, as a share of those present, up to which they are inserted
MAX_OFF_GRID = 0.2  # steps by which times are apart from whole steps: months are 28 to 31 days


def with_neighbors(table: np.ndarray, times: np.ndarray, period: int) -> np.ndarray:
    """The columns, their interpolation, the same weighted by distance and, with a period, their season, next to each other."""
    line, distance = interpolate(table, times)
    parts = [table, line, line * np.exp(-distance / (DECAY_STEPS * typical_step(times)))]
    if period:
        parts.append(seasonal(table, period, line))
    return np.hstack(parts)


def interpolate(table: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Linear interpolation of each cell between the nearest observed ones, and the harmonic mean of the distances to them.

    The cell itself is left out. The variance of a random walk between two observations grows with that distance; beyond the
    last one it is twice the distance to it. The nearest value is repeated beyond the first and last observed cell; a column
    without any other observed cell is 0.
    """
    n, d = table.shape
    line, distance = np.zeros((n, d)), np.full((n, d), np.inf)
    rows = np.arange(n)
    for j in range(d):
        known = np.flatnonzero(~np.isnan(table[:, j]))
        if not len(known):
            continue
        at = np.searchsorted(known, rows)  # the first observed row that is not before
        own = np.zeros(n, bool)
        own[known] = True
        before, after = at - 1, at + own
        left, right = known[np.maximum(before, 0)], known[np.minimum(after, len(known) - 1)]
        has_left, has_right = before >= 0, after < len(known)
        left, right = np.where(has_left, left, right), np.where(has_right, right, left)
        span = times[right] - times[left]
        share = np.where(has_left & has_right, (times - times[left]) / np.where(span > 0, span, 1.0), 0.0)
        line[:, j] = table[left, j] * (1 - share) + table[right, j] * share
        line[~has_left & ~has_right, j] = 0.0
        back, ahead = np.where(has_left, times - times[left], np.inf), np.where(has_right, times[right] - times, np.inf)
        near, far = np.minimum(back, ahead), np.maximum(back, ahead)
        with np.errstate(invalid="ignore"):
            distance[:, j] = 2 * near / (1 + near / np.where(far > 0, far, 1.0))
    return line, np.where(np.isfinite(distance), distance, 1e9 * typical_step(times))


def seasonal(table: np.ndarray, period: int, otherwise: np.ndarray) -> np.ndarray:
    """Mean of the observed cells one period before and after, or two or three periods; ``otherwise`` where none is observed."""
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


def seasonal_profile(table: np.ndarray, period: int) -> np.ndarray:
    """Mean of each column at each phase of the period, for every row: an (n, d) array."""
    n, d = table.shape
    phase, known = np.arange(n) % period, ~np.isnan(table)
    cell = phase[:, None] * d + np.arange(d)
    counts = np.bincount(cell[known], minlength=period * d).reshape(period, d)
    sums = np.bincount(cell[known], table[known], period * d).reshape(period, d)
    mean = sums.sum(axis=0) / np.maximum(counts.sum(axis=0), 1)
    return np.asarray(((sums + mean) / (counts + 1))[phase])


def find_period(table: np.ndarray, times: np.ndarray) -> int:
    """Lag, in rows, of the first high peak of the mean autocorrelation after a valley; 0 where there is none.

    Missing values are interpolated and linear trends removed.
    """
    n = len(table)
    if n < 4 * MIN_PERIOD:
        return 0
    line = np.where(np.isnan(table), interpolate(table, times)[0], table)
    t = np.linspace(-1, 1, n)
    line = line - line.mean(axis=0) - np.outer(t, (t @ line) / (t @ t))
    spectrum = np.abs(np.fft.rfft(line, 2 * n, axis=0)) ** 2
    auto = np.fft.irfft(spectrum, axis=0)[: n // 3 + 1]
    auto = auto[:, auto[0] > 0] / auto[0, auto[0] > 0]
    if not auto.shape[1]:
        return 0
    mean = auto.mean(axis=1) * (n / (n - np.arange(len(auto))))
    inner = range(MIN_PERIOD, len(mean) - 1)
    peaks = [k for k in inner if mean[k] >= mean[k - 1] and mean[k] > mean[k + 1] and mean[k] > MIN_AUTOCORRELATION]
    peaks = [k for k in peaks if mean[k] > mean[:k].min() + 0.1]
    if not peaks:
        return 0
    highest = max(mean[k] for k in peaks)
    return int(next(k for k in peaks if mean[k] > 0.9 * highest))


def autocorrelation_peaks(y: np.ndarray, longest: int, number: int = 3) -> list[int]:
    """Lags of the highest positive peaks of the autocorrelation of a series without its linear trend."""
    n = len(y)
    t = np.linspace(-1, 1, n)
    y = y - y.mean()
    y = y - t * (t @ y) / (t @ t)
    auto = np.fft.irfft(np.abs(np.fft.rfft(y, 2 * n)) ** 2)[: min(n // 2, longest) + 2]
    auto = auto * (n / (n - np.arange(len(auto))))
    peaks = [k for k in range(2, len(auto) - 1) if auto[k] > 0 and auto[k] >= auto[k - 1] and auto[k] >= auto[k + 1]]
    return sorted(peaks, key=lambda k: -auto[k])[:number]


def block_folds(missing: np.ndarray, folds: int, rng: np.random.Generator, excluded: np.ndarray | None = None) -> np.ndarray:
    """Cross-validation fold of each observed cell, in runs as long as the table's gaps: an (n, d) array, -1 where in none.

    Runs of all columns at once have the share that they have among the gaps. Rows of the Boolean array ``excluded`` are in no
    fold.
    """
    if excluded is not None and excluded.any():
        fold = np.full(missing.shape, NO_FOLD)
        fold[~excluded] = block_folds(missing[~excluded], folds, rng)
        return fold
    n, d = missing.shape
    fold = np.full((n, d), NO_FOLD)
    everywhere = np.asarray(missing.all(axis=1))
    lengths = run_lengths(everywhere)
    share = float(missing.mean())
    shared = float(everywhere.sum() * d / max(missing.sum(), 1))
    single = np.concatenate([run_lengths(np.asarray(missing[:, j] & ~everywhere)) for j in range(d)])
    for k in range(folds):
        if shared > 0 and len(lengths):
            _hide_runs(fold, k, lengths, list(range(d)), 0.8 * MAX_HIDDEN * shared, rng, missing)
        if shared < 1:
            own = single if len(single) else np.ones(1, int)
            most = MAX_HIDDEN
            if own.mean() <= SHORT_GAP:
                most = min(max(share / 4, MAX_HIDDEN / 4, MIN_HIDDEN_ROWS / n), MAX_HIDDEN)
            for j in range(d):
                _hide_runs(fold, k, own, [j], most * (1 - shared), rng, missing)
    fold[missing] = NO_FOLD
    return fold


def run_bounds(missing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and one-past-last indices of the runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], missing.astype(np.int8), [0]])))
    return edges[::2], edges[1::2]


def run_lengths(missing: np.ndarray) -> np.ndarray:
    """Lengths of the runs of True."""
    first, after = run_bounds(missing)
    return after - first


def _hide_runs(
    fold: np.ndarray, k: int, lengths: np.ndarray, cols: list[int], share: float, rng: np.random.Generator, missing: np.ndarray
) -> None:
    """Put runs of these lengths at random places into fold k, until it has that share of the rows.

    Places without missing or held-out cells are preferred: shorter pieces of runs would be easier to predict.
    """
    n, hidden, tries = len(fold), 0, 0
    if len(cols) == 1 and lengths.mean() <= SHORT_GAP:  # all at once
        drawn = rng.choice(lengths, int(np.ceil(share * n / lengths.mean())))
        starts = rng.integers(0, np.maximum(n - drawn, 1))
        for step in range(int(lengths.max())):
            rows = starts[drawn > step] + step
            rows = rows[rows < n]
            fold[rows, cols[0]] = np.where(fold[rows, cols[0]] == NO_FOLD, k, fold[rows, cols[0]])
        return
    while hidden < share * n and tries < 4 * n:
        length = int(min(rng.choice(lengths), n // 4 + 1))
        starts = rng.integers(0, max(n - length, 1), PLACES if length > SHORT_GAP else 1)
        taken = [int(((fold[at : at + length, cols] != NO_FOLD) | missing[at : at + length, cols]).sum()) for at in starts]
        at = int(starts[int(np.argmin(taken))])
        part = fold[at : at + length, cols]
        fold[at : at + length, cols] = np.where(part == NO_FOLD, k, part)
        hidden, tries = hidden + length, tries + 1


def on_grid(table: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The table and times with a row of missing values for each absent time, and the places of its own rows.

    Without them a season would get out of step. Where times are irregular, or many are absent (weekends), nothing is
    inserted.
    """
    steps = np.diff(times) / typical_step(times)
    whole = np.rint(steps)
    absent = int((whole - 1).sum())
    if not 0 < absent <= MAX_ABSENT * len(times) or whole.min() < 1 or np.abs(steps - whole).max() > MAX_OFF_GRID:
        return table, times, np.arange(len(times))
    at = np.concatenate([[0], np.cumsum(whole)]).astype(int)
    return inserted(table, at, np.nan), np.interp(np.arange(at[-1] + 1), at, times), at


def inserted(rows: np.ndarray, at: np.ndarray, value: float) -> np.ndarray:
    """The rows at these places, and the value in all others."""
    found = np.full((int(at[-1]) + 1, *rows.shape[1:]), value, rows.dtype)
    found[at] = rows
    return found


def typical_step(times: np.ndarray) -> float:
    """Median of the positive time steps."""
    steps = np.diff(times)
    steps = steps[steps > 0]
    return float(np.median(steps)) if len(steps) else 1.0
