"""Figures of the paper's experiments: which panels of :mod:`lorank.experiments.figures` each of them has."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from ..experiments.drawing import save
from ..experiments.figures import FAILED, STATED, Line, Panel, Points, curves, maps, sweep
from ..experiments.tables import Case, Tables, average, group
from . import EXPERIMENTS
from .checks import compared
from .claims import stated_factors
from .verdicts import contraction, nearest, theorem_label

MU = 0.995  # the constant of Theorem 1
FIT = 10**-1.4  # fitting error at which the paper compares; only the squared ratio reaches it
FIT_TICKS = (0.15, 0.16, 0.17, 0.18, 0.2, 0.22, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0, 2.0)


def panels(tables: Tables, experiment: str) -> list[Panel]:
    """All panels of an experiment; none where its runs allow none. ValueError without runs."""
    if experiment not in tables.experiments():
        known = ", ".join(tables.experiments()) or "none"
        raise ValueError(f"no runs of the experiment {experiment!r}: the experiments with runs are {known}")
    return PANELS[experiment](tables, experiment)


def draw_all(tables: Tables, out: Path) -> list[Path]:
    """Draw ``out/figures/NAME.png`` for each experiment with data, with the methods that the paper compares."""
    written = []
    for name in EXPERIMENTS:
        if name in tables.experiments() and (found := panels(tables, name)):
            some = [panel for panel in found if not panel.map or panel.map.key in compared(name)]
            shown = found if name == "theorem" else [panel.only(compared(name)) for panel in some or found]
            written.append(save(shown, out / "figures" / f"{name}.png"))
    return written


def _size(tables: Tables, name: str) -> list[Panel]:
    """Time and iterations against n, one row per rank."""
    points = average(tables.of(name))
    rows = group(points, lambda case: (case.rank, case.oversampling)).values()
    return [
        _sweep(name, points, cases, "n1", quantity, cases[0].label("rank", "oversampling"))
        for cases in rows
        for quantity in ("seconds", "iterations")
    ]


def _against(x: str, quantities: Sequence[str], tables: Tables, name: str) -> list[Panel]:
    points = average(tables.of(name))
    return [_sweep(name, points, list(points), x, quantity) for quantity in quantities]


def _sweep(name: str, points: Points, cases: Sequence[Case], x: str, quantity: str, title: str = "") -> Panel:
    """Averages, with the factors that the paper states as dashes: its factor times the average of the faster method."""
    panel = sweep(points, cases, x, quantity, title)
    marks = []
    for fast, slow, of, factor, near in stated_factors(name):
        case = nearest([case for case in cases if fast in points[case]], near)
        if case is None or of != quantity or any(getattr(case, key) != near[key] for key in ("rank",) if key in near):
            continue
        value = factor * points[case][fast].of(quantity).mean
        if value > 0:
            marks.append(Line(slow, [float(getattr(case, x))], [value], [value], [value], [STATED]))
    return replace(panel, lines=[*panel.lines, *marks])


def _oversampling(tables: Tables, name: str) -> list[Panel]:
    """Time and iterations, and both enlarged near the smallest values, as in the paper's Figure 2."""
    found = _against("oversampling", ("seconds", "iterations"), tables, name)
    zoomed = []
    for panel in found:
        plain = [line for line in panel.lines if not {FAILED, STATED} & set(line.marks)]
        ends = [max(line.y) for line in plain if line.key in ("prgd", "adaptive-prgd")]
        if ends:
            zoomed.append(replace(panel, title=f"{panel.title}, enlarged", log_y=False, y_range=(0.0, 2 * min(ends))))
    return [*found, *zoomed]


def _movielens(tables: Tables, name: str) -> list[Panel]:
    """Fitting error and held-out error, one row per rank."""
    found = []
    ranks = group(tables.curves_of(name), lambda curve: curve.case.rank or 0)
    for rank in sorted(ranks):
        some, level = ranks[rank], (math.sqrt(FIT), "squared fitting error of 10^(-1.4)")
        fit = curves(some, "iteration", "residual", f"fitting error, r = {rank}", "fitting error")
        low = min(float(np.nanmin(line.y)) for line in fit.lines)
        high = max(float(curve.residual[0]) for curve in some)  # above it there are only spikes
        ticks = [at for at in FIT_TICKS if low <= at <= high]
        found.append(replace(fit, level=level, y_ticks=ticks, y_range=(0.97 * min(low, level[0]), 1.05 * high)))
        held = curves(some, "iteration", "heldout_rmse", f"RMSE on held-out ratings, r = {rank}", log_y=False)
        if held.lines:
            low, high = (float(f(curve.heldout_rmse[0 if f is max else -1] for curve in some)) for f in (min, max))
            found.append(replace(held, y_range=(0.95 * low, 1.05 * high)))
    return found


def _phase(tables: Tables, name: str) -> list[Panel]:
    found = tables.curves_of(name)
    wanted = (("iteration", "against iterations"), ("seconds", "against time")) if found else ()
    return [curves(found, x, "residual", f"relative residual {title}") for x, title in wanted]


def _theorem(tables: Tables, name: str) -> list[Panel]:
    """The error and the contraction of each step; curves differ by point, not by method."""
    errors: list[Line] = []
    ratios: list[Line] = []
    for k, (case, found) in enumerate(group(tables.curves_of(name), lambda curve: curve.case).items()):
        for curve in found:
            ratio = contraction(curve)
            errors.append(Line(f"#{k}:{theorem_label(case)}", curve.iteration, curve.error))
            ratios.append(Line(f"#{k}:{theorem_label(case)}", curve.iteration[1 : len(ratio) + 1], ratio))
    level, label = (MU, f"\N{GREEK SMALL LETTER MU} = {MU}, Theorem 1"), "error after / before the step"
    return [
        Panel("relative error", "iterations", "relative error", errors),
        Panel("contraction per step", "iterations", label, ratios, log_y=False, level=level, zero=True),
    ][: 2 * bool(errors)]


def _success(tables: Tables, name: str) -> list[Panel]:
    return maps(average(tables.of(name)), "m", "rank")


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
