"""Panels of figures as plain data, drawn by :mod:`.drawing`: averages, convergence curves, performance profiles, maps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from .styles import label, ordered_methods
from .tables import BOUNDED, SYMBOLS, Case, Curve, Mean, Row, Tables, average, group, methods, rate, series, varying

Points = dict[Case, dict[str, Mean]]
AT_LEAST, MEDIAN = "lower bound (runs stopped)", "median (some runs stopped)"
FEWER, FAILED, STATED = "fewer tests", "did not converge", "factor stated in the paper"
MAX_POINTS = 400  # points of a curve that are drawn
NAMED = {
    "error": "relative error",
    "iteration": "iterations",
    "residual": "relative residual",
    "heldout_rmse": "RMSE on held-out ratings",
    "noise": "noise level \N{GREEK SMALL LETTER SIGMA}",
    **SYMBOLS,
}


@dataclass(frozen=True)
class Line:
    """A curve with a band, or averages with bars from ``low`` to ``high``.

    ``marks`` has the mark of each point (mostly empty) where points are averages over tests; it is empty for a curve.
    """

    key: str  # legend entry: a method, or "#k:text"
    x: Sequence[float] | np.ndarray
    y: Sequence[float] | np.ndarray
    low: Sequence[float] | np.ndarray = ()
    high: Sequence[float] | np.ndarray = ()
    marks: Sequence[str] = ()
    steps: bool = False


@dataclass(frozen=True)
class Map:
    """Success rates in percent; nan where no trial was run."""

    key: str
    grid: np.ndarray
    rows: Sequence[float]
    columns: Sequence[float]


@dataclass(frozen=True)
class Panel:
    """One plot. ``level`` is a horizontal line with its name; ``ticks`` are the labelled values of x."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line] = ()
    map: Map | None = None
    log_x: bool = False
    log_y: bool = True
    level: tuple[float, str] | None = None
    ticks: Sequence[float] = ()
    zero: bool = False  # whether the y axis starts at 0
    y_ticks: Sequence[float] = ()
    y_range: tuple[float, float] | None = None  # visible range of y

    @property
    def keys(self) -> tuple[str, ...]:
        """Legend entries."""
        return (self.map.key,) if self.map else tuple(dict.fromkeys(line.key for line in self.lines))

    @property
    def marks(self) -> set[str]:
        return {mark for line in self.lines for mark in line.marks if mark}

    def only(self, keys: Iterable[str]) -> Panel:
        """The panel with some of its legend entries, or with all where none of them occurs."""
        kept = [line for line in self.lines if line.key in set(keys)]
        return replace(self, lines=kept) if kept else self


# -- figures of any experiment -----------------------------------------------------------------------------------------
def figures(tables: Tables, experiment: str) -> dict[str, list[Panel]]:
    """The figures that the runs of an experiment allow, by name.

    ``NAME-against-PARAMETER`` for each parameter with several values; ``success``, a map over two parameters; ``profile``,
    performance profiles; ``convergence``, medians and ranges over the seeds of runs that were traced.
    """
    rows = tables.of(experiment)
    if not rows:
        known = ", ".join(tables.experiments()) or "none"
        raise ValueError(f"no runs of the experiment {experiment!r}: the experiments with runs are {known}")
    points = average(rows)
    axes = [name for name in varying(points) if _is_number(points, name)]
    found = {f"against-{x}": _against(points, axes, x) for x in axes}
    if len(axes) > 1:
        found["success"] = maps(points, axes[0], axes[1])
    if len(methods(points)) > 1 and len({(row.case, row.seed) for row in rows}) > 1:
        found["profile"] = [profile(rows, quantity) for quantity in ("iterations", "seconds")]
    by_case = group(tables.curves_of(experiment), lambda curve: curve.case)
    found["convergence"] = [
        curves(some, x, "error" if np.isfinite(some[0].error).any() else "residual", case.label(*varying(points)))
        for case, some in by_case.items()
        for x in ("iteration", "seconds")
    ]
    return {name: panels for name, panels in found.items() if panels}


def _is_number(points: Points, name: str) -> bool:
    values = [getattr(case, name) for case in points]
    return len(set(values)) > 1 and all(isinstance(value, (int, float)) for value in values)


def _against(points: Points, axes: Sequence[str], x: str) -> list[Panel]:
    """Iterations and seconds against a parameter, one row for each combination of the others."""
    others = [name for name in axes if name != x]
    rows = group(points, lambda case: tuple(getattr(case, name) for name in others)).values()
    return [
        sweep(points, cases, x, quantity, cases[0].label(*others) if others else "")
        for cases in rows
        if len(cases) > 1
        for quantity in ("iterations", "seconds")
    ]


# -- averages against a parameter --------------------------------------------------------------------------------------
def sweep(points: Points, cases: Sequence[Case], x: str, quantity: str, title: str = "") -> Panel:
    """Averages against a parameter, with bars from the minimum to the maximum over the tests.

    Lower bounds by a time limit depend on the machine: panels of iterations leave them out.
    """
    usual = max(len(mean.rows) for means in points.values() for mean in means.values())
    chosen = {case: points[case] for case in cases}
    lines = []
    for name in ordered_methods(methods(chosen)):
        means = [mean for mean in series(chosen, name) if mean.of(quantity).mean > 0]
        means = [mean for mean in means if not (quantity == "iterations" and mean.at_least and mean.timed_out)]
        for failed in (False, True):
            some = [mean for mean in means if mean.failed is failed]
            stats = [mean.of(quantity) for mean in some]
            at = [float(getattr(mean.case, x)) for mean in some]
            low, mean_, high = ([stat[k] for stat in stats] for k in (1, 0, 2))
            lines += [Line(name, at, mean_, low, high, [mark(one, usual, quantity) for one in some])] if some else []
    y_label = NAMED.get(quantity, quantity)
    values = sorted({float(getattr(case, x)) for case in cases})
    log_x = x != "oversampling" and values[0] > 0 and values[-1] >= 2 * values[0]
    ticks = spaced(values) if log_x and values[0] >= 1 else ()
    return Panel(f"{y_label}, {title}" if title else y_label, NAMED.get(x, x), y_label, lines, log_x=log_x, ticks=ticks)


def mark(mean: Mean, usual: int, quantity: str = "seconds") -> str:
    """The mark of a point, mostly empty: a lower bound, a median, fewer tests than usual, failed runs."""
    if mean.failed:
        return FAILED
    if mean.stopped and quantity in BOUNDED:
        return AT_LEAST if mean.at_least else MEDIAN
    return FEWER if mean.tests < usual else ""


def spaced(values: Iterable[float], apart: float = 1.4) -> list[float]:
    """The values on a logarithmic axis to be labelled, so far apart that labels do not overlap."""
    kept: list[float] = []
    for value in sorted(set(values), reverse=True):
        if not kept or kept[-1] >= apart * value:
            kept.append(value)
    return kept[::-1]


# -- curves along the iterations ---------------------------------------------------------------------------------------
def curves(found: Sequence[Curve], x: str, y: str, title: str = "", y_label: str = "", *, log_y: bool = True) -> Panel:
    """The median over the seeds against iterations or seconds, with a band from the minimum to the maximum.

    A curve ends where half of its runs have ended; a run that has ended keeps its last value.
    """
    by_method = group(found, lambda curve: curve.method)
    lines = [_band(name, by_method[name], x, y, log_y) for name in ordered_methods(by_method)]
    ends = [float(line.x[-1]) for line in lines if len(line.x) and line.x[-1] > 0]
    log_x = bool(ends) and max(ends) > 20 * min(ends)
    return Panel(
        title, NAMED.get(x, x), y_label or NAMED.get(y, y), [line for line in lines if len(line.x)], None, log_x, log_y
    )


def _band(key: str, found: Sequence[Curve], x: str, y: str, log_y: bool) -> Line:
    runs = []
    for curve in found:
        at, values = getattr(curve, x), getattr(curve, y)
        keep = np.isfinite(values) & np.isfinite(at) & ((values > 0) if log_y else True)
        if keep.any():
            runs.append((at[keep], np.log(values[keep]) if log_y else values[keep]))
    if not runs:
        return Line(key, (), ())
    ends = sorted(float(at[-1]) for at, _ in runs)
    longest = max(len(at) for at, _ in runs)
    begin = max(float(at[0]) for at, _ in runs)
    end = max(ends[len(ends) // 2], begin)
    if len(runs) == 1 or x == "iteration":
        grid = max(runs, key=lambda run: len(run[0]))[0]
        grid = grid[(grid >= begin) & (grid <= end)][thin(int(((grid >= begin) & (grid <= end)).sum()))]
    else:
        grid = np.linspace(begin, end, min(longest, MAX_POINTS))
    values = np.array([np.interp(grid, *run) for run in runs])
    middle, low, high = (np.exp(v) if log_y else v for v in (np.median(values, axis=0), values.min(axis=0), values.max(axis=0)))
    return Line(key, grid, middle, *((low, high) if len(runs) > 1 else ()))


def thin(length: int) -> np.ndarray:
    """Indices of at most ``MAX_POINTS`` points of a curve, including its ends."""
    return np.unique(np.linspace(0, length - 1, min(length, MAX_POINTS)).round().astype(int))


# -- performance profiles ----------------------------------------------------------------------------------------------
def profile(rows: Sequence[Row], quantity: str = "iterations") -> Panel:
    """Performance profile: the share of problems that a method solves within a factor of the cost of the best one.

    A problem is a point with a seed. A run that does not reach the tolerance has infinite cost.
    """
    found = group(rows, lambda row: (row.case, row.seed))
    names = ordered_methods(row.method for row in rows)
    cost = np.full((len(found), len(names)), math.inf)
    for k, some in enumerate(found.values()):
        for row in some:
            if row.reached:
                cost[k, names.index(row.method)] = max(row.get(quantity), 1e-12)
    best = cost.min(axis=1, keepdims=True)
    ratio = np.where(np.isfinite(cost), cost / np.where(np.isfinite(best), best, 1.0), math.inf)
    last = 1.1 * max(ratio[np.isfinite(ratio)].max(initial=1.0), 1.2)
    lines = []
    for k, name in enumerate(names):
        known = np.sort(ratio[np.isfinite(ratio[:, k]), k])
        shares = 100 * np.arange(1, len(known) + 1) / len(found)
        lines.append(
            Line(name, [1.0, *known, last], [100 * (known <= 1).sum() / len(found), *shares, shares[-1:].sum()], steps=True)
        )
    title = f"performance profile, {quantity}"
    return Panel(
        title, f"{quantity}, ratio to the best solver", "problems solved, %", lines, log_x=True, log_y=False, y_range=(0, 103)
    )


# -- maps of success rates ---------------------------------------------------------------------------------------------
def maps(points: Points, x: str, y: str) -> list[Panel]:
    """A map of success rates for each method over two parameters."""
    return [
        Panel(label(name), NAMED.get(x, x), NAMED.get(y, y), map=success_map(points, name, x, y), log_y=False)
        for name in ordered_methods(methods(points))
    ]


def success_map(points: Points, method: str, x: str = "m", y: str = "rank") -> Map:
    """A method's success rates; over further parameters they are averaged."""
    means = series(points, method)
    rows, columns = (sorted({getattr(mean.case, name) or 0 for mean in means}) for name in (y, x))
    grid = np.full((len(rows), len(columns)), np.nan)
    for i, j in product(range(len(rows)), range(len(columns))):
        here = [rate(mean) for mean in means if (getattr(mean.case, y), getattr(mean.case, x)) == (rows[i], columns[j])]
        if here:
            grid[i, j] = np.mean(here)
    return Map(method, grid, rows, columns)
