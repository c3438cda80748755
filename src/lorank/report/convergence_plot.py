"""Convergence plots: relative error against iterations and seconds, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..io.figures import EITHER, FAINT, INK, STYLES, blank_figure, style_axes

BLACK = "#000000"
NAMES = {"prgd": "PRGD", "rgd": "RGD", "shampoo": "Shampoo", "niht": "NIHT", "iht": "IHT"}


def draw_convergence(
    runs: Sequence[Any], figure: Any = None, *, tol: float | None = None, title: str = "", measure: str = "relative error"
) -> Any:
    """Draw the error against iterations and against seconds.

    Parameters
    ----------
    runs : sequence of :class:`~lorank.report.Run`
    figure : matplotlib figure, optional
        Where to draw; by default a new figure with a transparent ground.
    tol : float, optional
        Drawn as a horizontal line. A dot marks the end of a run that reached its goal, a cross the end of another one.
    title, measure : str
        Title of the legend, and label of the errors.

    Returns
    -------
    matplotlib figure
    """
    figure = blank_figure(9, 4.2, transparent=True) if figure is None else figure
    transparent = figure.get_facecolor()[3] == 0
    left, right = figure.subplots(1, 2, sharey=True)
    left.set_yscale("log")
    errors = np.concatenate([np.ravel([] if tol is None else tol), *(run.error for run in runs)])
    errors = errors[np.isfinite(errors) & (errors > 0)]
    if len(errors):
        left.set_ylim(0.6 * errors.min(), 1.8 * errors.max())
    for axes, name, abscissas in (
        (left, "iterations", [run.iteration for run in runs]),
        (right, "seconds", [run.seconds for run in runs]),
    ):
        _log_x(axes, abscissas)
        for k, (run, x) in enumerate(zip(runs, abscissas, strict=True)):
            _curve(axes, x, run, k, transparent)
        style_axes(axes, name, measure if axes is left else "", transparent=transparent)
        if tol is not None:
            _tolerance(axes, tol)
    handles, labels = left.get_legend_handles_labels()
    if handles:
        ink = EITHER if transparent else INK
        look = {"ncols": 7, "frameon": False, "fontsize": 11, "handlelength": 2.6, "labelcolor": ink}
        legend = figure.legend(handles, labels, loc="outside upper center", title=title, **look)
        legend.get_title().set(fontsize=12, color=ink)
    return figure


def _log_x(axes: Any, abscissas: Sequence[np.ndarray]) -> None:
    """A logarithmic axis, which shows solvers whose times differ by a factor of 100; iteration 0 is at its left edge."""
    values = np.concatenate([np.ravel(x) for x in abscissas]) if abscissas else np.empty(0)
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return
    axes.set_xscale("log")
    axes.set_xlim(0.8 * values.min(), 1.3 * values.max())
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")


def _curve(axes: Any, x: np.ndarray, run: Any, k: int, transparent: bool) -> None:
    keep = np.isfinite(run.error) & (run.error > 0) & np.isfinite(x)
    x, error = x[keep], run.error[keep]
    colour, dashes = STYLES[k % len(STYLES)]
    colour = EITHER if transparent and colour == BLACK else colour
    axes.plot(x, error, color=colour, linestyle=dashes, linewidth=2.0, label=NAMES.get(run.solver, run.solver))
    if len(x):
        # Markers become smaller from run to run, so that coinciding markers appear as rings.
        size, marker = max(9.0 - k, 4.0), "o" if run.reached else "x"
        axes.plot(x[-1:], error[-1:], color=colour, marker=marker, markersize=size, markeredgewidth=1.8, linestyle="none")


def _tolerance(axes: Any, tol: float) -> None:
    axes.axhline(tol, color=FAINT, linewidth=1.0, zorder=1)
    place = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "ha": "right"}
    axes.annotate("tolerance", (1, tol), (0, 3), color=FAINT, fontsize=9.5, **place)
