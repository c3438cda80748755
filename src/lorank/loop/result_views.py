"""Views of a result: matplotlib figure and HTML table."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np

from ..io.figures import EITHER, EITHER_BLUE, GREEN, ORANGE, blank_figure, legend, style_axes

if TYPE_CHECKING:
    from .result import Result

WIDTH, HEIGHT = 4.4, 3.4  # of a panel, in inches
LOG_RATIO = 30.0  # largest value to smallest, above which an axis is logarithmic
CELL = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"


def plot_result(result: Result, figure: Any = None) -> Any:
    """Draw convergence, spectrum and, after a rank search, the ranks that were tried; see :meth:`Result.plot`."""
    panels = [_convergence, _spectrum, *([_ranks] if result.rank_path else [])]
    if figure is None:
        figure = blank_figure(WIDTH * len(panels), HEIGHT, transparent=True)
    for axes, panel in zip(figure.subplots(1, len(panels)), panels, strict=True):
        panel(axes, result)
        _scale(axes)
        legend(axes, transparent=True)
    return figure


def _scale(axes: Any) -> None:
    """A logarithmic axis for values of different magnitudes, a linear one from 0 otherwise."""
    values = np.concatenate([np.ravel(line.get_ydata()) for line in axes.lines if line.get_transform() == axes.transData])
    values = values[np.isfinite(values)]
    if len(values) and values.min() > 0 and values.max() > LOG_RATIO * values.min():
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])


def _convergence(axes: Any, result: Result) -> None:
    """Residual by iteration, also of the core while only that is solved, the noise floor, and the transitions of a plan."""
    history = result.history
    core = np.isfinite(history.core_residual) & (history.core_residual > 0)
    style_axes(axes, "iteration", "relative residual", f"{result.status}, {result.n_iter} iterations", transparent=True)
    positive = history.residual > 0
    axes.plot(
        history.iteration[positive],
        history.residual[positive],
        color=EITHER_BLUE,
        linewidth=2,
        label="residual" if result.status == "noise" or core.any() else None,
    )
    if core.any():
        label = "of the well-observed core"
        axes.plot(history.iteration[core], history.core_residual[core], color=ORANGE, linewidth=2, linestyle="--", label=label)
    if result.status == "noise":
        label = f"noise floor, std {result.noise:.3g}"
        axes.axhline(result.residual, color=GREEN, linestyle=(0, (4, 2)), label=label)
    for iteration in history.notes:
        axes.axvline(iteration, color=EITHER, linewidth=0.8, linestyle=(0, (1, 2)))


def _spectrum(axes: Any, result: Result) -> None:
    """Singular values of X, one curve for each mode of a tensor; after a rank search those of the data and the null edge."""
    style_axes(axes, "component", "singular value", "Spectrum", transparent=True)
    axes.xaxis.get_major_locator().set_params(integer=True)
    found = result.spectrum
    if found is not None:
        k = np.arange(1, len(found.values) + 1) + found.fitted
        axes.set_ylabel("singular value, normalized")
        axes.plot(k, found.values, "o", color=EITHER_BLUE, markersize=5, label="observations")
        axes.axhline(found.edge, color=ORANGE, linestyle=(0, (4, 2)), label="null edge (noise)")
        return
    curves = _singular_values(result.X)
    for mode, (values, mark) in enumerate(zip(curves, "os^Dv" * len(curves), strict=False)):
        values, label = values[values > 0], f"mode {mode}" if len(curves) > 1 else ""
        axes.plot(np.arange(1, len(values) + 1), values, mark + "-", markersize=5, linewidth=1, label=label or None)
        axes.lines[-1].set_color((EITHER_BLUE, ORANGE, GREEN)[mode % 3])


def _singular_values(X: Any) -> list[np.ndarray]:
    """Singular values of a matrix, or of the unfoldings of a tensor."""
    if hasattr(X, "s"):
        return [np.asarray(X.backend.to_numpy(X.s))]
    found: list[np.ndarray] = X.singular_values()
    return found


def _ranks(axes: Any, result: Result) -> None:
    ranks, residual, held_out = (np.array(column, float) for column in zip(*result.rank_path, strict=True))
    style_axes(axes, "rank", "relative error", f"Selected rank: {result.X.rank}", transparent=True)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.plot(ranks, residual, "o-", color=EITHER_BLUE, markersize=5, label="residual")
    if np.isfinite(held_out).any():
        axes.plot(ranks, held_out, "s--", color=ORANGE, markersize=5, label="held-out error")


def result_html(result: Result, facts: list[tuple[str, str]]) -> str:
    """A table of facts about a result, for notebooks."""
    rows = "".join(
        f'<tr><th style="{CELL}">{html.escape(name)}</th><td style="{CELL}">{html.escape(text)}</td></tr>'
        for name, text in facts
        if text
    )
    return f"<table>{rows}</table>"
