"""The paper's figures, drawn from the tables as PNG."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from ..report.plots import FAINT, INK, write_atomically
from .styles import label, ordered, style
from .tables import BOUNDED, Case, Curve, Mean, Tables, average, group, load, methods, series, typical
from .verdicts import contraction, rate

Points = dict[Case, dict[str, Mean]]
MU = 0.995  # the constant of Theorem 1
FIT = 10**-1.4  # the fitting error at which the paper compares; it is reached only by the square of the ratio
SHADES = tuple(style(name).colour for name in ("prgd", "rgd", "shampoo", "niht", "rcg", "auto"))  # where not methods differ
NOT_RUN = "#bcd3e6"  # a box that was not run: blue, as a rate is never
AT_LEAST, MEDIAN = "at least (cut short)", "median (some cut short)"
FEWER, FAILED = "fewer tests", "did not get there"


def draw_all(out: Path) -> list[Path]:
    """Draw a figure for each experiment that has data.

    Parameters
    ----------
    out : Path
        The folder with the tables; pictures go to ``out/figures/NAME.png``.

    Returns
    -------
    list of Path
        What was written.
    """
    tables = load(out)
    written = []
    for name, draw in FIGURES.items():
        figure = draw(tables, name)
        if figure is not None:
            (out / "figures").mkdir(parents=True, exist_ok=True)
            picture = io.BytesIO()
            figure.savefig(picture, format="png")
            written.append(write_atomically(out / "figures" / f"{name}.png", picture.getvalue()))
    return written


# -- sweeps: averages against a parameter ------------------------------------------------------------------------------
def _size(tables: Tables, name: str) -> Any:
    """Time and iterations against n, a row for each rank."""
    points = average(tables.of(name))
    rows = group(points, lambda case: (case.rank, case.oversampling))
    panels = [
        (cases, quantity, cases[0].label("rank", "oversampling"))
        for cases in rows.values()
        for quantity in ("seconds", "iterations")
    ]
    return _sweep(points, panels, "n1", "n", columns=2)


def _oversampling(tables: Tables, name: str) -> Any:
    points = average(tables.of(name))
    panels = [(list(points), quantity, "") for quantity in ("iterations", "seconds")]
    return _sweep(points, panels, "oversampling", "1/q", columns=2, log_x=False)


def _noise(tables: Tables, name: str) -> Any:
    points = average(tables.of(name))
    panels = [(list(points), quantity, "") for quantity in ("error", "seconds", "iterations")]
    return _sweep(points, panels, "noise", "noise level \N{GREEK SMALL LETTER SIGMA}", columns=3)


def _sweep(
    points: Points, panels: Sequence[tuple[list[Case], str, str]], x: str, x_label: str, *, columns: int, log_x: bool = True
) -> Any:
    """Panels of averages against a parameter; logarithmic upwards, so that methods far apart can all be read."""
    if not points:
        return None
    figure, axes = _canvas(math.ceil(len(panels) / columns), columns)
    usual = max(len(mean.rows) for means in points.values() for mean in means.values())
    marks: set[str] = set()
    for axis, (cases, quantity, title) in zip(axes, panels, strict=True):
        chosen = {case: points[case] for case in cases}
        for method in ordered(methods(chosen)):
            marks |= _line(axis, series(chosen, method), x, quantity, usual)
        _dress(axis, x_label, {"error": "relative error"}.get(quantity, quantity), title)
        _scales(axis, [getattr(case, x) for case in cases], log_x=log_x)
    _legend(figure, _entries(methods(points), markers=True), marks)
    return figure


def _line(axis: Any, means: Sequence[Mean], x: str, quantity: str, usual: int) -> set[str]:
    """One method's averages, with bars from the smallest to the largest test. Returns the kinds of marks drawn."""
    look = style(means[0].method) if means else style("")
    drawn = [(float(getattr(mean.case, x)), mean.of(quantity), mean) for mean in means if mean.of(quantity).mean > 0]
    good = [(at, stat, mean) for at, stat, mean in drawn if not mean.failed]
    axis.plot(
        [at for at, _, _ in good],
        [stat.mean for _, stat, _ in good],
        color=look.colour,
        linestyle=look.dash,
        linewidth=1.8,
    )
    marks = set()
    for at, stat, mean in drawn:
        kind = mark(mean, usual, quantity)
        marks.add(kind)
        axis.plot([at, at], [stat.low, stat.high], color=look.colour, linewidth=1.0, alpha=0.6)
        marker = "x" if kind == FAILED else look.marker
        face = "white" if kind in (AT_LEAST, MEDIAN, FEWER) else look.colour
        axis.plot(
            at, stat.mean, marker=marker, color=look.colour, markerfacecolor=face, markersize=6.5, markeredgewidth=1.4, zorder=3
        )
        if kind == MEDIAN:
            axis.plot(at, stat.mean, marker=".", color=look.colour, markersize=3, zorder=4)
        if kind == AT_LEAST:
            arrow = {"arrowstyle": "<|-", "color": look.colour, "linewidth": 1.4}
            axis.annotate("", (at, stat.mean), (0, 17), textcoords="offset points", arrowprops=arrow)
    return marks - {""}


def mark(mean: Mean, usual: int, quantity: str = "seconds") -> str:
    """What a reader must know of a point, mostly nothing: a lower bound, over fewer tests than usual, of failed runs."""
    if mean.failed:
        return FAILED
    if mean.cut and quantity in BOUNDED:
        return AT_LEAST if mean.at_least else MEDIAN
    return FEWER if mean.tests < usual else ""


# -- curves: along the iterations --------------------------------------------------------------------------------------
def _movielens(tables: Tables, name: str) -> Any:
    """The fit, and the error on ratings held out, a row for each rank."""
    ranks = group(tables.curves_of(name), lambda curve: curve.case.rank)
    held_out = any(np.isfinite(curve.heldout_rmse).any() for curve in tables.curves_of(name))
    panels = [
        (ranks[rank], "iteration", quantity, f"r = {rank}")
        for rank in sorted(ranks, key=lambda rank: rank or 0)
        for quantity in ("residual", *(("heldout_rmse",) if held_out else ()))
    ]
    return _ways(panels, columns=2 if held_out else 1)


def _phase(tables: Tables, name: str) -> Any:
    curves = tables.curves_of(name)
    return _ways([(curves, x, "residual", "") for x in ("iteration", "seconds")] if curves else [], columns=2)


NAMED = {
    "residual": "fitting error",
    "heldout_rmse": "RMSE on ratings held out",
    "iteration": "iterations",
    "error": "relative error",
}


def _ways(panels: Sequence[tuple[list[Curve], str, str, str]], *, columns: int) -> Any:
    """Panels of runs along their iterations or seconds: the typical test strong, the others faint."""
    if not panels:
        return None
    figure, axes = _canvas(math.ceil(len(panels) / columns), columns)
    for axis, (curves, x, quantity, title) in zip(axes, panels, strict=True):
        by_method = group(curves, lambda curve: curve.method)
        for method in ordered(list(by_method)):
            found = by_method[method]
            chosen, look = typical(found), style(method)
            for curve in found:
                strong = curve is chosen
                axis.plot(
                    getattr(curve, x),
                    getattr(curve, quantity),
                    color=look.colour,
                    linestyle=look.dash if strong else "-",
                    linewidth=1.9 if strong else 0.8,
                    alpha=1.0 if strong else 0.25,
                )
        phase = curves[0].experiment.startswith("phase")
        _dress(axis, NAMED.get(x, x), "relative residual" if phase else NAMED[quantity], title)
        if quantity != "heldout_rmse":
            _log_y(axis)
        ends = [float(getattr(curve, x)[-1]) for curve in curves if len(curve.iteration)]
        if min(ends) > 0 and max(ends) > 20 * min(ends):
            axis.set_xscale("log")
            axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    names = [curve.method for curves, *_ in panels for curve in curves]
    entries = _entries(names, markers=False)
    if "movielens" in {curve.experiment for curves, *_ in panels for curve in curves}:
        entries["squared fitting error of $10^{-1.4}$"] = _handle(FAINT, (0, (4, 2)), "")
        for axis, (_, _, quantity, _) in zip(axes, panels, strict=True):
            if quantity == "residual":
                axis.axhline(math.sqrt(FIT), color=FAINT, linewidth=1.2, linestyle=(0, (4, 2)), zorder=1)
    _legend(figure, entries, set())
    return figure


def _theorem(tables: Tables, name: str) -> Any:
    """The error along the iterations, and each step's ratio against the constant of the theorem."""
    curves = tables.curves_of(name)
    if not curves:
        return None
    figure, (left, right) = _canvas(1, 2)
    entries = {}
    for (case, found), colour in zip(group(curves, lambda curve: curve.case).items(), cycle(SHADES), strict=False):
        entries[case.label("n1", "rank", "m")] = _handle(colour, "-", "")
        for curve in found:
            ratio = contraction(curve)
            left.plot(curve.iteration, curve.error, color=colour, linewidth=1.5, alpha=0.8)
            right.plot(curve.iteration[1 : len(ratio) + 1], ratio, color=colour, linewidth=1.5, alpha=0.8)
    left.set_yscale("log")
    entries[f"\N{GREEK SMALL LETTER MU} = {MU}, Theorem 1"] = _handle(INK, (0, (4, 2)), "")
    right.axhline(MU, color=INK, linewidth=1.2, linestyle=(0, (4, 2)))
    right.set_ylim(0, None)
    _dress(left, "iterations", "relative error", "")
    _dress(right, "iterations", "error after a step / before it", "")
    _legend(figure, entries, set())
    return figure


# -- the map of success rates ------------------------------------------------------------------------------------------
def _success(tables: Tables, name: str) -> Any:
    """A grey box for each rank and number of measurements: white where all trials succeed, black where none does."""
    points = average(tables.of(name))
    found = ordered(methods(points))
    if not found:
        return None
    columns = 2 if len(found) in (2, 4) else min(len(found), 3)
    figure, axes = _canvas(math.ceil(len(found) / columns), columns, width=4.3, height=3.5)
    for axis, method in zip(axes, found, strict=False):
        grid, ranks, numbers = success_map(points, method)
        axis.imshow(grid, cmap="gray", vmin=0, vmax=100, aspect="auto", origin="lower")
        axis.set_facecolor(NOT_RUN)
        for i, j in np.argwhere(np.isfinite(grid)):
            text, ink = f"{grid[i, j]:.0f}", "white" if grid[i, j] < 50 else INK
            axis.text(j, i, text, ha="center", va="center", fontsize=7.5, color=ink)
        axis.set_xticks(range(len(numbers)), [str(m) for m in numbers], rotation=45 if len(numbers) > 6 else 0)
        axis.set_yticks(range(len(ranks)), [str(rank) for rank in ranks])
        _dress(axis, "measurements m", "rank r", label(method))
        axis.grid(False)
        axis.hlines(np.arange(1, len(ranks)) - 0.5, -0.5, len(numbers) - 0.5, color="#9a9a9a", linewidth=0.5)
        axis.vlines(np.arange(1, len(numbers)) - 0.5, -0.5, len(ranks) - 0.5, color="#9a9a9a", linewidth=0.5)
        axis.set(xlim=(-0.5, len(numbers) - 0.5), ylim=(-0.5, len(ranks) - 0.5))
    for axis in axes[len(found) :]:
        axis.set_visible(False)
    gaps = any(np.isnan(success_map(points, method)[0]).any() for method in found)
    words = "success in percent: white 100 %, black 0 %" + (", blue not run" if gaps else "")
    figure.suptitle(words, fontsize=10, color=INK)
    return figure


def success_map(points: Points, method: str) -> tuple[np.ndarray, list[int], list[int]]:
    """Success rates in percent, ranks x numbers of measurements; nan where nothing was run."""
    means = series(points, method)
    ranks = sorted({mean.case.rank or 0 for mean in means})
    numbers = sorted({mean.case.m or 0 for mean in means})
    grid = np.full((len(ranks), len(numbers)), np.nan)
    for mean in means:
        grid[ranks.index(mean.case.rank or 0), numbers.index(mean.case.m or 0)] = rate(mean)
    return grid, ranks, numbers


# -- dress -------------------------------------------------------------------------------------------------------------
def _canvas(rows: int, columns: int, *, width: float = 4.8, height: float = 3.5) -> tuple[Any, list[Any]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows + 0.5), dpi=120, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(rows, columns, squeeze=False).ravel())


def _dress(axis: Any, x_label: str, y_label: str, title: str) -> None:
    axis.set_xlabel(x_label, color=INK, fontsize=10.5)
    axis.set_ylabel(y_label, color=INK, fontsize=10.5)
    axis.set_title(title, color=INK, fontsize=11)
    axis.grid(True, color="#e6e6e6", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(colors=INK, labelsize=9.5, length=3)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_color(FAINT)


def _scales(axis: Any, values: Sequence[float], *, log_x: bool) -> None:
    axis.margins(y=0.12)
    _log_y(axis)
    if log_x and len(set(values)) > 1 and min(values) > 0:
        axis.set_xscale("log")
        if max(values) > 1:  # sizes: say them as they are; noise levels stay powers of ten
            axis.xaxis.set_major_locator(_fixed(spaced(values)))
            axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.xaxis.set_minor_locator(_fixed([]))


def spaced(values: Iterable[float], apart: float = 1.4) -> list[float]:
    """Of the places on a logarithmic axis those to be labelled: not so close that labels would run into each other."""
    kept: list[float] = []
    for value in sorted(set(values), reverse=True):
        if not kept or kept[-1] >= apart * value:
            kept.append(value)
    return kept[::-1]


def _log_y(axis: Any) -> None:
    """Powers of ten; 1, 2, 5, 10, 20 where the range is short."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_yscale("log")
    low, high = axis.get_ylim()
    if high < 1e3 * low:
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high > 4 * low else tuple(range(1, 10)), numticks=12))
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.yaxis.set_minor_formatter(NullFormatter())


def _fixed(values: Sequence[float]) -> Any:
    from matplotlib.ticker import FixedLocator

    return FixedLocator(list(values))


def _legend(figure: Any, found: dict[str, Any], marks: set[str]) -> None:
    """One legend for all panels, with the marks that occur."""
    for kind, shape in ((AT_LEAST, r"$\uparrow$"), (MEDIAN, r"$\odot$"), (FEWER, "o"), (FAILED, "x")):
        if kind in marks:
            found[kind] = _handle(INK, "none", shape, hollow=True)
    inches = 0.65 + 0.085 * max(len(text) for text in found)  # about what an entry takes
    rows = math.ceil(len(found) / max(int(figure.get_figwidth() / inches), 1))
    figure.legend(
        list(found.values()),
        list(found),
        loc="outside upper center",
        ncols=math.ceil(len(found) / rows),
        frameon=False,
        fontsize=10,
        handlelength=2.8,
    )


def _entries(names: Sequence[str], *, markers: bool) -> dict[str, Any]:
    """What methods look like, for a legend."""
    looks = [style(name) for name in ordered(list(names))]
    return {look.label: _handle(look.colour, look.dash, look.marker if markers else "") for look in looks}


def _handle(colour: str, dash: Any, marker: str, *, hollow: bool = False) -> Any:
    from matplotlib.lines import Line2D

    face = "white" if hollow and marker in ("o", "s") else colour
    return Line2D([], [], color=colour, linestyle=dash, linewidth=1.8, marker=marker, markersize=6.5, markerfacecolor=face)


FIGURES: dict[str, Callable[[Tables, str], Any]] = {
    "completion-size": _size,
    "completion-oversampling": _oversampling,
    "completion-noise": _noise,
    "movielens": _movielens,
    "sensing-oversampling": _oversampling,
    "sensing-success": _success,
    "phase-real": _phase,
    "phase-complex": _phase,
    "theorem": _theorem,
}
