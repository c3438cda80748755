"""Observations that count for less the older they are: times, half-lives, and the weights that come of them."""

from __future__ import annotations

import re
import warnings
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from ..common.checks import POSITIVE, counted, shown
from ..factorization.folds import held_out_error
from ..factorization.training_data import Memory
from ..losses import Ordinal
from .frames import column, column_names, is_frame

if TYPE_CHECKING:
    from .matrix_completion import MatrixCompletion

FAINTEST = 2.0**-10  # what is older than ten half-lives counts no less than this: weights must not lie too far apart
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0, "y": 365.25 * 86400.0}
SPAN = re.compile(r"([0-9]+(?:\.[0-9]*)?)\s*([a-z]+)")
SECONDS = (1e8, 1e11)  # Unix time in seconds, as it has been since 1973: what counts days or milliseconds is not among them
TRIED = 8  # half-lives at most, each half of the one before; the first is the time from the first observation to the last
PATIENCE = 2  # half-lives without a better error before the search ends,
LITTLE = 1e-3  # better by more than this, relatively


@dataclass(frozen=True)
class Times:
    """When observations were made.

    Attributes
    ----------
    at : (m,) array
        Of dates, seconds since 1970.
    dates : bool
        Whether they were given as dates.
    """

    at: np.ndarray
    dates: bool


@dataclass(frozen=True)
class Decay:
    """How much an observation counts by its time: ``2 ** ((t - last) / half_life)``, in units of the mean of all.

    Attributes
    ----------
    half_life : float
        In units of the times; of dates, in seconds.
    last : float
        The latest time so far.
    total : float
        The sum of all weights before they are divided by their mean.
    count : int
        Observations.
    dates : bool
    """

    half_life: float
    last: float
    total: float
    count: int
    dates: bool

    @classmethod
    def of(cls, half_life: float, times: Times) -> Decay:
        """Of the observations of a fit."""
        start = cls(half_life, float(times.at.max()), 0.0, 0, times.dates)
        return replace(start, total=float(start._raw(times.at).sum()), count=len(times.at))

    @property
    def scale(self) -> float:
        """One over the mean."""
        return self.count / self.total

    def weights(self, at: np.ndarray) -> np.ndarray:
        return self.scale * self._raw(at)

    def _raw(self, at: np.ndarray) -> np.ndarray:
        return np.maximum(np.exp2((at - self.last) / self.half_life), FAINTEST)

    def with_more(self, times: Times, memory: Memory) -> tuple[Decay, Memory]:
        """When there are more observations: those that are remembered have aged."""
        old = memory.entries.weights
        found, now = self.aged(times, np.ones(len(memory.entries.indices)) if old is None else old)
        return found, replace(memory, entries=memory.entries._replace(weights=now))

    def aged(self, times: Times, old: np.ndarray) -> tuple[Decay, np.ndarray]:
        """When there are more observations: the decay of all of them, and what the old weights have become."""
        if times.dates != self.dates:
            kinds = ("dates", "numbers") if self.dates else ("numbers", "dates")
            raise ValueError(f"times were {kinds[0]} in fit, and are {kinds[1]} now")
        last = max(self.last, float(times.at.max()))
        aged = 2.0 ** ((self.last - last) / self.half_life)
        found = replace(self, last=last)
        found = replace(
            found,
            total=max(self.total * aged, self.count * FAINTEST) + float(found._raw(times.at).sum()),
            count=self.count + len(times.at),
        )
        return found, np.where(old > 0, np.maximum(old * (aged * found.scale / self.scale), found.scale * FAINTEST), 0.0)

    def __str__(self) -> str:
        """The half-life with its unit, as far as it is known."""
        if self.dates:
            return duration(self.half_life)
        if SECONDS[0] <= self.last <= SECONDS[1]:
            return f"{self.half_life:,.6g}, which is {duration(self.half_life)} if times are seconds since 1970"
        return f"{self.half_life:,.6g} in units of the times"

    def plain(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)


def duration(seconds: float) -> str:
    """Seconds in the largest unit that they fill.

    >>> duration(90 * 86400), duration(5400), duration(86400), duration(1e8)
    ('90 days', '1.5 hours', '1 day', '3.17 years')
    """
    units = {"year": UNITS["y"], "day": UNITS["d"], "hour": UNITS["h"], "minute": UNITS["min"], "second": UNITS["s"]}
    name = next((name for name, unit in units.items() if seconds >= unit), "second")
    said = f"{seconds / units[name]:.3g}"
    return f"{said} {name}{'s' * (said != '1')}"


def given_decay(half_life: Any, times: Times | None) -> Decay | None:
    """That of a half-life which is given, None where there is none; a ValueError where it is to be found, or lacks times."""
    if half_life is None:
        return None
    check_half_life(half_life)
    if isinstance(half_life, str) and half_life == "auto":
        raise ValueError("half_life='auto' is for MatrixCompletion: give a duration such as '90d', or a number")
    if times is None:
        raise ValueError(f"half_life={shown(half_life)} needs times=...: when was each pair observed? Or leave half_life out")
    return Decay.of(as_number(half_life, times), times)


def start_decay(
    model: MatrixCompletion,
    pairs: np.ndarray,
    values: np.ndarray,
    shape: tuple[int, int],
    weights: np.ndarray | None,
    times: Times | None,
) -> tuple[Decay | None, list[Any]]:
    """What a fit of the model begins with, None where nothing decays; and the half-lives that were tried, with their errors."""
    half_life, tried = model.half_life, list[Any]()
    if half_life is None:
        return None, []
    check_half_life(half_life)
    if times is None:
        raise ValueError(
            f"half_life={shown(half_life)} needs times=...: when was each observation made? Or leave half_life out"
        )
    if isinstance(half_life, str) and half_life == "auto":
        found, tried = _foretelling(model, pairs, values, shape, weights, times)
    else:
        found = as_number(half_life, times)
    return None if found is None else Decay.of(found, times), tried


def combined(weights: np.ndarray | None, decay: Decay | None, times: Times | None) -> np.ndarray | None:
    """Weights of observations times those of their age."""
    if decay is None or times is None:
        return weights
    found = decay.weights(times.at)
    return found if weights is None else weights * found


def check_half_life(half_life: Any) -> float | None:
    """Of a duration the seconds, of a number and of "auto" None; a ValueError for anything else."""
    seconds = None
    if isinstance(half_life, np.timedelta64):
        seconds = float(half_life / np.timedelta64(1, "s"))
    elif isinstance(half_life, timedelta):
        seconds = half_life.total_seconds()
    elif isinstance(half_life, str) and half_life != "auto":
        match = SPAN.fullmatch(half_life.strip().lower())
        if match is None or match[2] not in UNITS:
            raise ValueError(
                f"half_life={half_life!r} is no duration: write a number and one of {', '.join(UNITS)}, as in '90d', or 'auto'"
            )
        seconds = float(match[1]) * UNITS[match[2]]
    elif not isinstance(half_life, str) and not POSITIVE.holds(half_life):
        raise ValueError(f"half_life must be positive, a number or a duration such as '90d', or 'auto': got {shown(half_life)}")
    if seconds is not None and not (0 < seconds < np.inf):
        raise ValueError(f"half_life must be positive, got {shown(half_life)}")
    return seconds


def as_number(half_life: Any, times: Times) -> float:
    """In units of the times; a ValueError where they do not go together."""
    seconds = check_half_life(half_life)
    if seconds is None:
        if times.dates:
            raise ValueError(f"half_life={half_life!r} of what? The times are dates: say '{half_life}d' for days, or h, w, y")
        return float(half_life)
    low, high = float(times.at.min()), float(times.at.max())
    if not times.dates and not (SECONDS[0] <= low and high <= SECONDS[1]):
        raise ValueError(
            f"half_life={shown(half_life)} goes with dates, or with seconds since 1970: the times lie between {low:g} and "
            f"{high:g}. Pass dates, or a half_life in units of the times"
        )
    return seconds


def read_times(times: Any, X: Any, m: int) -> Times | None:
    """Times as numbers: those given, or the column of a data frame that is named.

    Parameters
    ----------
    times : (m,) array of numbers, dates or text that says dates, or a str
    X : what a fit is given
    m : int
        Observations.
    """
    if times is None:
        return None
    name = "times"
    if isinstance(times, str):
        if not is_frame(X):
            raise ValueError(
                f"times={times!r} names the column of a data frame, and X is {shown(X)}: pass the times themselves"
            )
        if times not in column_names(X):
            listed = ", ".join(map(repr, column_names(X)))
            raise ValueError(f"times={times!r}: the data frame has no such column; its columns are {listed}")
        name, times = f"the column {times!r}", column(X, times)
    if np.ma.isMaskedArray(times):
        raise ValueError(f"{name} is a masked array: every observation needs a time")
    try:
        a = np.asarray(times)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is no array: {error}") from None
    if a.shape != (m,):
        raise ValueError(f"{name} must have one time per observation: got shape {a.shape} for {counted(m, 'observation')}")
    dates = a.dtype.kind not in "biuf"
    found = _seconds(a, name) if dates else a.astype(float)
    bad = np.flatnonzero(~np.isfinite(found))
    if len(bad):
        raise ValueError(
            f"{name} of observation {bad[0]} is {a[bad[0]]}: every observation needs a time; leave out those without"
        )
    return Times(found, dates)


def _seconds(a: np.ndarray, name: str) -> np.ndarray:
    """Dates as seconds since 1970, nan where there is none; those of a time zone in that of Greenwich."""
    if a.dtype.kind == "O":
        a = np.array([_date(x, k, name) for k, x in enumerate(a.tolist())], "datetime64[us]")
    elif a.dtype.kind in "UT":
        a = np.array([_date(str(x), k, name) for k, x in enumerate(a.tolist())], "datetime64[us]")
    if a.dtype.kind != "M":
        raise ValueError(f"{name} must be numbers or dates, got {a.dtype}")
    found = a.astype("datetime64[us]")
    return np.where(np.isnat(found), np.nan, found.astype(np.int64) / 1e6)


def _date(x: Any, k: int, name: str) -> np.datetime64:
    differs = x != x
    if x is None or not isinstance(differs, (bool, np.bool_)) or differs:  # nan, NaT, and pandas' NA, which says NA to all
        return np.datetime64("NaT", "us")
    if isinstance(x, str):
        try:
            x = datetime.fromisoformat(x.strip())
        except ValueError:
            raise ValueError(f"{name} of observation {k} is {x!r}: no date such as 2024-05-31 or 2024-05-31 17:45:00") from None
    if isinstance(x, datetime):
        if x.tzinfo is not None:
            x = x.astimezone(UTC).replace(tzinfo=None)
        return np.datetime64(x.isoformat(), "us")
    if isinstance(x, date):
        return np.datetime64(x, "us")
    raise ValueError(f"{name} of observation {k} is {shown(x)}: times are all numbers, or all dates")


def _foretelling(
    model: MatrixCompletion,
    pairs: np.ndarray,
    values: np.ndarray,
    shape: tuple[int, int],
    weights: np.ndarray | None,
    times: Times,
) -> tuple[float | None, list[Any]]:
    """The half-life whose fit to earlier observations foretells the latest ones best, and all that were tried."""
    trial = clone(model).set_params(half_life=None, intervals=False, handle_unknown="ignore")
    trial._sides = model._sides
    order = np.argsort(times.at, kind="stable")
    order = order if weights is None else order[weights[order] > 0]  # what has no weight was not observed
    before, after = np.split(order, [len(order) - max(1, round(model.holdout * len(order)))])
    if len(before) < 2:
        raise ValueError(
            f"half_life='auto' holds out the latest of {counted(len(order), 'observation')}, and leaves {len(before)}, "
            "too few to fit: give a half_life, or leave it out"
        )
    earlier = Times(times.at[before], times.dates)

    def error(half_life: float | None) -> float:
        decay = None if half_life is None else Decay.of(half_life, earlier)
        part = combined(None if weights is None else weights[before], decay, earlier)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of parts of the data: the fit itself says what there is to say
            trial._fit(pairs[before], values[before], shape, part)
        trial.set_params(rank=trial.rank_, regularization=trial.regularization_)  # as they were chosen first
        told = after  # a class that was never seen before is not foretold by anything
        if isinstance(trial.loss_, Ordinal):
            told = after[np.isin(values[after], trial.classes_)]
        y = values[told] if trial.loss_ is None else trial.loss_.encoded(values[told])
        z = trial.model_.predict(pairs[told, 0], pairs[told, 1])
        return held_out_error(trial.loss_, z, y, None if weights is None else weights[told], model.bounds)

    tried: list[Any] = [(None, error(None))]
    best, worse, span = 0, 0, float(np.ptp(earlier.at))
    for k in range(TRIED if span > 0 else 0):
        tried.append((span / 2**k, error(span / 2**k)))
        better = tried[-1][1] < (1 - LITTLE) * tried[best][1]
        best, worse = (len(tried) - 1, 0) if better else (best, worse + 1)
        if worse == PATIENCE:
            break
    return tried[best][0], tried
