"""Panels of the figures as plain data, drawn by :mod:`.plot_png` and :mod:`.plot_page`."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..experiments.tables import BOUNDED, Case, Curve, Mean, Tables, average, group, methods, series, typical
from .styles import label, ordered
from .verdicts import amount, contraction, rate, theorem_label

Points = dict[Case, dict[str, Mean]]
MU = 0.995  # the constant of Theorem 1
FIT = 10**-1.4  # fitting error at which the paper compares; only the squared ratio reaches it
FIT_TICKS = (0.15, 0.16, 0.17, 0.18, 0.2, 0.22, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0, 2.0)
AT_LEAST, MEDIAN = "lower bound (runs stopped)", "median (some runs stopped)"
FEWER, FAILED = "fewer tests", "did not converge"
NAMED = {
    "error": "relative error",
    "iteration": "iterations",
    "residual": "fitting error",
    "heldout_rmse": "RMSE on held-out ratings",
    "noise": "noise level \N{GREEK SMALL LETTER SIGMA}",
    "oversampling": "1/q",
    "n1": "n",
}


@dataclass(frozen=True)
class Line:
    """A curve, or averages with bars.

    ``marks`` has the mark of each point (mostly empty) where points are averages over tests; it is empty for a curve along
    iterations. ``faint`` curves are further tests, drawn in the background of PNG figures.
    """

    key: str  # legend entry: a method, or "#k:text"
    x: Sequence[float] | np.ndarray
    y: Sequence[float] | np.ndarray
    hover: Sequence[str] | str = ""
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    marks: Sequence[str] = ()
    faint: bool = False


@dataclass(frozen=True)
class Map:
    """Success rates in percent, ranks x numbers of measurements; nan where no trial was run."""

    key: str
    grid: np.ndarray
    ranks: Sequence[int]
    numbers: Sequence[int]


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


def panels(tables: Tables, experiment: str) -> list[Panel]:
    """All panels of an experiment; none without data."""
    draw = PANELS.get(experiment)
    return draw(tables, experiment) if draw else []


# -- averages against a parameter --------------------------------------------------------------------------------------
def _size(tables: Tables, name: str) -> list[Panel]:
    """Time and iterations against n, one row per rank."""
    points = average(tables.of(name))
    rows = group(points, lambda case: (case.rank, case.oversampling)).values()
    return [
        _sweep(points, cases, "n1", quantity, cases[0].label("rank", "oversampling"))
        for cases in rows
        for quantity in ("seconds", "iterations")
    ]


def _against(x: str, quantities: Sequence[str], tables: Tables, name: str) -> list[Panel]:
    points = average(tables.of(name))
    return [_sweep(points, list(points), x, quantity, "") for quantity in (quantities if points else ())]


def _oversampling(tables: Tables, name: str) -> list[Panel]:
    """Time and iterations, and both enlarged near the smallest values, as in the paper's Figure 2."""
    found = _against("oversampling", ("seconds", "iterations"), tables, name)
    zoomed = []
    for panel in found:
        ends = [max(line.y) for line in panel.lines if line.key in ("prgd", "adaptive-prgd") and FAILED not in line.marks]
        if ends:
            zoomed.append(replace(panel, title=f"{panel.title}, enlarged", log_y=False, y_range=(0.0, 2 * min(ends))))
    return [*found, *zoomed]


def _sweep(points: Points, cases: Sequence[Case], x: str, quantity: str, title: str) -> Panel:
    """Averages against a parameter, with bars from the minimum to the maximum over the tests."""
    usual = max(len(mean.rows) for means in points.values() for mean in means.values())
    chosen = {case: points[case] for case in cases}
    lines = []
    for name in ordered(methods(chosen)):
        means = [mean for mean in series(chosen, name) if mean.of(quantity).mean > 0]
        for failed in (False, True):
            some = [mean for mean in means if mean.failed is failed]
            stats = [mean.of(quantity) for mean in some]
            at = [float(getattr(mean.case, x)) for mean in some]
            low, mean_, high = ([stat[k] for stat in stats] for k in (1, 0, 2))
            hover = [_hover(mean, quantity, mark(mean, usual, quantity)) for mean in some]
            marks = [mark(mean, usual, quantity) for mean in some]
            lines += [Line(name, at, mean_, hover, low, high, marks)] if some else []
    y_label = NAMED.get(quantity, quantity)
    values = sorted({float(getattr(case, x)) for case in cases})
    log_x = x != "oversampling" and len(values) > 1
    ticks = spaced(values) if x == "n1" else ()
    return Panel(f"{y_label}, {title}" if title else y_label, NAMED[x], y_label, lines, log_x=log_x, ticks=ticks)


def mark(mean: Mean, usual: int, quantity: str = "seconds") -> str:
    """The mark of a point, mostly empty: a lower bound, a median, fewer tests than usual, failed runs."""
    if mean.failed:
        return FAILED
    if mean.stopped and quantity in BOUNDED:
        return AT_LEAST if mean.at_least else MEDIAN
    return FEWER if mean.tests < usual else ""


def _hover(mean: Mean, quantity: str, kind: str) -> str:
    stat = mean.of(quantity)
    bound = {AT_LEAST: "at least ", MEDIAN: "median "}.get(kind, "")
    spread = f" ({amount(stat.low, quantity)} to {amount(stat.high, quantity)})" if mean.tests > 1 else ""
    unit = "" if quantity in ("seconds", "error") else f" {quantity}"
    figures = f"{bound}{amount(stat.mean, quantity)}{spread}{unit}"
    got = f"{mean.reached} of {len(mean.rows)} tests converged"
    return "<br>".join([f"<b>{html.escape(label(mean.method))}</b>", mean.case.label(), figures, got])


def spaced(values: Iterable[float], apart: float = 1.4) -> list[float]:
    """The values on a logarithmic axis to be labelled, so far apart that labels do not overlap."""
    kept: list[float] = []
    for value in sorted(set(values), reverse=True):
        if not kept or kept[-1] >= apart * value:
            kept.append(value)
    return kept[::-1]


# -- curves along the iterations ---------------------------------------------------------------------------------------
def _movielens(tables: Tables, name: str) -> list[Panel]:
    """Fitting error and held-out error, one row per rank."""
    found = []
    ranks = group(tables.curves_of(name), lambda curve: curve.case.rank)
    level = math.sqrt(FIT), "squared: 10<sup>-1.4</sup>"
    for rank in sorted(ranks, key=lambda rank: rank or 0):
        curves = ranks[rank]
        fit = _curves(curves, "iteration", "residual", f"fitting error, r = {rank}", level=level)
        low = min(float(np.nanmin(line.y)) for line in fit.lines)
        high = max(float(curve.residual[0]) for curve in curves)  # above it there are only spikes
        ticks = [at for at in FIT_TICKS if low <= at <= high]
        found.append(replace(fit, y_ticks=ticks, y_range=(0.97 * min(low, level[0]), 1.05 * high)))
        if any(np.isfinite(curve.heldout_rmse).any() for curve in curves):
            title = f"{NAMED['heldout_rmse']}, r = {rank}"
            held = _curves(curves, "iteration", "heldout_rmse", title, log_y=False)
            low, high = (f(curve.heldout_rmse[0 if f is max else -1] for curve in curves) for f in (min, max))
            found.append(replace(held, y_range=(0.95 * float(low), 1.05 * float(high))))
    return found


def _phase(tables: Tables, name: str) -> list[Panel]:
    curves, y_label = tables.curves_of(name), "relative residual"
    wanted = (("iteration", "against iterations"), ("seconds", "against time")) if curves else ()
    return [_curves(curves, x, "residual", f"{y_label} {title}", y_label) for x, title in wanted]


def _curves(
    curves: Sequence[Curve],
    x: str,
    y: str,
    title: str,
    y_label: str = "",
    *,
    log_y: bool = True,
    level: tuple[float, str] | None = None,
) -> Panel:
    """Each method's median test against iterations or seconds, the others faint."""
    by_method = group(curves, lambda curve: curve.method)
    lines = []
    for name in ordered(list(by_method)):
        strong = typical(by_method[name])
        hover = f"<b>{html.escape(label(name))}</b><br>{NAMED.get(x, x)} %{{x:.4~g}}<br>%{{y:.4~g}}"
        lines += [
            Line(name, getattr(curve, x), getattr(curve, y), hover, faint=curve is not strong) for curve in by_method[name]
        ]
    ends = [float(getattr(curve, x)[-1]) for curve in curves if len(curve.iteration)]
    log_x = min(ends) > 0 and max(ends) > 20 * min(ends)
    return Panel(title, NAMED.get(x, x), y_label or NAMED[y], lines, log_x=log_x, log_y=log_y, level=level)


def _theorem(tables: Tables, name: str) -> list[Panel]:
    """The error and the contraction of each step; curves differ by point, not by method."""
    errors: list[Line] = []
    ratios: list[Line] = []
    for k, (case, curves) in enumerate(group(tables.curves_of(name), lambda curve: curve.case).items()):
        where = theorem_label(case)
        for curve in curves:
            ratio = contraction(curve)
            hover = f"{html.escape(where)}, test {curve.seed}<br>iteration %{{x}}<br>%{{y:.4~g}}"
            errors.append(Line(f"#{k}:{where}", curve.iteration, curve.error, hover))
            ratios.append(Line(f"#{k}:{where}", curve.iteration[1 : len(ratio) + 1], ratio, hover))
    if not errors:
        return []
    level = MU, f"\N{GREEK SMALL LETTER MU} = {MU}, Theorem 1"
    ratio_label = "error after / before the step"
    return [
        Panel("relative error", "iterations", "relative error", errors),
        Panel("contraction per step", "iterations", ratio_label, ratios, log_y=False, level=level, zero=True),
    ]


# -- map of success rates ----------------------------------------------------------------------------------------------
def _success(tables: Tables, name: str) -> list[Panel]:
    points = average(tables.of(name))
    return [
        Panel(label(method), "measurements m", "rank r", map=success_map(points, method), log_y=False)
        for method in ordered(methods(points))
    ]


def success_map(points: Points, method: str) -> Map:
    """A method's success rates."""
    means = series(points, method)
    ranks = sorted({mean.case.rank or 0 for mean in means})
    numbers = sorted({mean.case.m or 0 for mean in means})
    grid = np.full((len(ranks), len(numbers)), np.nan)
    for mean in means:
        grid[ranks.index(mean.case.rank or 0), numbers.index(mean.case.m or 0)] = rate(mean)
    return Map(method, grid, ranks, numbers)


PANELS: dict[str, Callable[[Tables, str], list[Panel]]] = {
    "completion-size": _size,
    "completion-oversampling": _oversampling,
    "completion-noise": partial(_against, "noise", ("error", "seconds", "iterations")),
    "movielens": _movielens,
    "sensing-oversampling": partial(_against, "oversampling", ("iterations", "seconds")),
    "sensing-success": _success,
    "phase-real": _phase,
    "phase-complex": _phase,
    "theorem": _theorem,
}
