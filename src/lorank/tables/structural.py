"""Structural time series model: level, slope and season that change at random, and noise.

``y(t) = level(t) + season(t) + noise``. The level moves by the slope and a random step, the slope by a random step, and the sum
of the season over one period is random too. The posterior means of all components solve one banded linear system, and its
determinant gives the likelihood: the results of a Kalman filter and smoother with diffuse initial states. The period is the one
with the largest marginal likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve_banded, cholesky_banded
from scipy.optimize import minimize

from .series import autocorrelation_peaks, interpolate, seasonal_profile

STARTS = (-1.0, -6.0, -3.0), (-8.0, 1.0, -3.0)  # logarithms of the variances of level, slope and season steps
LOG_BOUNDS = -13.0, 10.0
MAX_EVALUATIONS = 150
MAX_PERIOD = 60  # rows; longer seasons are subtracted as means of each phase
MAX_ROWS = 3000  # that the variances are fitted to
MAX_WORK = 1_500_000  # rows that the variances are fitted to, times squared period
RIDGE = 1e-9  # prior precision of all components, for series too short to determine them
MIN_OBSERVED = 8  # values beyond the diffuse initial states
GRID = *STARTS, (3.0, -4.0, -1.0), (-4.0, -8.0, -8.0)  # logarithms of variances with which periods are compared
FIRST_SEASON = 1.0  # logarithm of the variance of the first season
CALENDAR = 4, 7, 12, 24, 52  # quarters, days, months, hours and weeks
PENALTIES = 1.0, 4.0  # of the log likelihood for the periods of calendars, and for others

Terms = list[tuple[int, np.ndarray]]  # a matrix whose row t has entries at these offsets from level(t)


@dataclass(frozen=True)
class Structural:
    """Fitted variances of the random steps, in variances of the noise."""

    period: int  # rows; 0 without a season
    variances: np.ndarray  # (2,) or (3,): level, slope, season
    zero: float = -np.inf  # the model is of log(y - zero) where this is finite
    profile: int = 0  # period of a season that is subtracted first; 0 without

    def __call__(self, y: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Posterior means of level plus season, given the n - 1 times between rows."""
        values = y if np.isinf(self.zero) else np.log(np.where(y > self.zero, y - self.zero, np.nan))
        season = seasonal_profile(values[:, None], self.profile)[:, 0] if self.profile else 0.0
        mean = season + StructuralSystem(values - season, steps, self.period).solve(self.variances)[0]
        return np.asarray(mean if np.isinf(self.zero) else self.zero + np.exp(mean))


class StructuralSystem:
    """The banded linear system of a column with missing values (nan), for any variances.

    A ``proper`` season has a prior for its first values, whose variance is the last one.
    """

    def __init__(self, y: np.ndarray, steps: np.ndarray, period: int, proper: bool = False) -> None:
        n, self.size = len(y), 3 if period else 2
        self.known, self.y = ~np.isnan(y), np.nan_to_num(y)
        self.width = self.size * max(period - 1, 1) + 1
        root = np.sqrt(np.maximum(steps, 1e-6))
        self.terms: list[Terms] = [
            [(0, -1 / root), (1, -steps / root), (self.size, 1 / root)],
            [(1, -1 / root), (1 + self.size, 1 / root)],
        ]
        observed: Terms = [(0, self.known.astype(float))]
        if period:
            self.terms.append([(2 + self.size * k, np.ones(max(n - period + 1, 0))) for k in range(period)])
            observed.append((2, observed[0][1]))
            if proper:
                self.terms.append([(2, np.ones(min(period - 1, n)))])
        self.penalties = [self._gram(terms) for terms in self.terms]
        self.observations = self._gram(observed)
        self.observations[0] += RIDGE
        self.right = np.zeros((n, self.size))
        self.right[:, [0, 2] if period else [0]] = (self.y * self.known)[:, None]

    @property
    def diffuse(self) -> int:
        """Number of initial states without a prior."""
        return self.right.size - sum(len(terms[0][1]) for terms in self.terms)

    def solve(self, variances: np.ndarray) -> tuple[np.ndarray, float]:
        """Posterior means of level plus season, and the marginal log likelihood at the best variance of the noise."""
        H = self.observations + sum(K / v for K, v in zip(self.penalties, variances, strict=True))
        factor = cholesky_banded(H, lower=True, check_finite=False)
        x = cho_solve_banded((factor, True), self.right.ravel(), check_finite=False)
        states = x.reshape(self.right.shape)
        mean = states[:, 0] + (states[:, 2] if self.size == 3 else 0.0)
        squares = float(np.sum((self.y - mean)[self.known] ** 2))
        log_det = 2 * float(np.log(factor[0]).sum())
        for terms, v in zip(self.terms, variances, strict=True):
            moves = sum(a * x[i :: self.size][: len(a)] for i, a in terms)
            squares += float(moves @ moves) / v
            log_det += len(moves) * np.log(v)
        free = int(self.known.sum()) - self.diffuse
        return mean, -0.5 * (free * (np.log(2 * np.pi * max(squares, 1e-300) / max(free, 1)) + 1) + log_det)

    def _gram(self, terms: Terms) -> np.ndarray:
        """``D^T D`` as a lower band."""
        band = np.zeros((self.width, self.size * len(self.y)))
        for i, a in terms:
            for j, b in terms:
                if i >= j:
                    band[i - j, j :: self.size][: len(a)] += a * b
        return band


def select_period(y: np.ndarray, steps: np.ndarray, zero: float) -> int:
    """Period with the largest marginal likelihood, of the values or of ``log(y - zero)``; 0 for none.

    Candidates are peaks of the autocorrelations of the series without its trend and of its differences, halves and thirds of
    these, and the periods of calendars.
    """
    rows = min(len(y), MAX_WORK // MAX_PERIOD**2)
    y, steps = y[:rows], steps[: rows - 1]
    known = ~np.isnan(y)
    number = int(known.sum())
    if number < 2 * MIN_OBSERVED:
        return 0
    times = np.concatenate([[0.0], np.cumsum(steps)])
    line = np.where(known, y, interpolate(y[:, None], times)[0][:, 0])
    peaks = autocorrelation_peaks(line, MAX_PERIOD) + autocorrelation_peaks(np.diff(line), MAX_PERIOD)
    candidates = {*peaks, *(peak // k for peak in peaks for k in (2, 3) if peak % k == 0), *CALENDAR}
    forms = [(y, 0.0)]
    if y[known].min() > zero:
        logs = np.log(y - zero)
        forms.append((logs, -float(np.nansum(logs))))  # the Jacobian

    def evidence(period: int) -> float:
        found = []
        for values, shift in forms:
            system = StructuralSystem(values, steps, period, proper=True)
            spread = max(float(np.nanstd(values)), 1e-12)
            shift -= system.diffuse * np.log(spread)  # the prior of level and slope has density one in these units
            found += [_log_likelihood(system, np.array([*logs, FIRST_SEASON][: len(system.terms)])) + shift for logs in GRID]
        return max(found) - (PENALTIES[period not in CALENDAR] if period else 0.0)

    longest = min(rows // 3, number - MIN_OBSERVED - 2)
    return max([0, *(period for period in sorted(candidates) if 2 <= period <= longest)], key=evidence)


def fit_structural(y: np.ndarray, steps: np.ndarray, period: int, zero: float) -> list[Structural]:
    """Maximum likelihood models of a column, and of ``log(y - zero)`` where that is more likely; none for too few values."""
    profile = period if period > MAX_PERIOD else 0
    period = 0 if profile else period
    rows = min(len(y), MAX_ROWS, MAX_WORK // max(period, 1) ** 2)
    y, steps = y[:rows], steps[: rows - 1]
    known = y[~np.isnan(y)]
    if 2 * period >= rows or len(known) < period + 2 + MIN_OBSERVED:
        return []
    likelihood, model = _fit(y, steps, period, -np.inf, profile)
    if known.min() > zero:
        more, logs = _fit(y, steps, period, zero, profile)
        if more > likelihood:
            return [model, logs]
    return [model, model]


def _fit(y: np.ndarray, steps: np.ndarray, period: int, zero: float, profile: int) -> tuple[float, Structural]:
    """Log likelihood up to a constant, and the model that maximizes it."""
    shift = 0.0  # the Jacobian of the logarithm
    if np.isfinite(zero):
        y = np.log(y - zero)
        shift = -float(np.nansum(y))
    if profile:
        y = y - seasonal_profile(y[:, None], profile)[:, 0]
    system = StructuralSystem(y, steps, period)

    start = max((np.array(values[: system.size]) for values in STARTS), key=lambda logs: _log_likelihood(system, logs))
    simplex = np.vstack([start, start + 3 * np.eye(len(start))])
    options = {"initial_simplex": simplex, "maxfev": MAX_EVALUATIONS, "xatol": 0.1, "fatol": 0.02}
    found = minimize(lambda logs: -_log_likelihood(system, logs), start, method="Nelder-Mead", options=options)
    return shift - float(found.fun), Structural(period, np.exp(np.clip(found.x, *LOG_BOUNDS)), zero, profile)


def _log_likelihood(system: StructuralSystem, logs: np.ndarray) -> float:
    """At logarithms of variances, less the squares by which they exceed their bounds."""
    inside = np.clip(logs, *LOG_BOUNDS)
    try:
        return system.solve(np.exp(inside))[1] - float(np.sum((logs - inside) ** 2))
    except np.linalg.LinAlgError:
        return -np.inf
