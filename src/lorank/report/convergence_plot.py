"""Pictures of convergence."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .recorded_runs import Run

# Okabe and Ito's colours, told apart with any colour vision, two of them darkened for a white ground. Dashes tell the
# curves apart in grey, and where two of them coincide.
STYLES: tuple[tuple[str, Any], ...] = (
    ("#0072B2", "-"),
    ("#D55E00", "-"),
    ("#009E73", (0, (6, 1.5))),
    ("#B5568C", (0, (4, 1.2, 1, 1.2))),
    ("#000000", (0, (1.5, 2.5))),
    ("#A87C00", (0, (1, 1))),
    ("#56B4E9", (0, (6, 1.5))),
)
NAMES = {"prgd": "PRGD", "rgd": "RGD", "shampoo": "Shampoo", "niht": "NIHT", "iht": "IHT"}
INK, FAINT = "#222222", "#8a8a8a"


def blank_figure(width: float, height: float) -> Any:
    """A white figure of matplotlib, in inches, that belongs to no window; an ImportError says what brings matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f'pictures need matplotlib: pip install "lorank[cli]" ({error})') from None

    figure = Figure(figsize=(width, height), dpi=120, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def convergence_plot(runs: Sequence[Run], path: str | os.PathLike[str], *, tol: float | None = None, title: str = "") -> Path:
    """Draw the relative error against iterations and against seconds, and save the picture as a PNG.

    Parameters
    ----------
    runs : sequence of Run
    path : path
        Written in one go: it holds the whole picture, or what was there before.
    tol : float, optional
        Drawn as a line across. A dot ends a run that reached it, a cross one that did not.
    title : str

    Returns
    -------
    Path
    """
    figure = blank_figure(9, 4.2)
    left, right = figure.subplots(1, 2, sharey=True)
    left.set_yscale("log")
    left.set_ylim(_range(runs, tol))
    for axes, name, ways in (
        (left, "iterations", [run.iteration for run in runs]),
        (right, "seconds", [run.seconds for run in runs]),
    ):
        _log_x(axes, ways)
        for k, (run, x) in enumerate(zip(runs, ways, strict=True)):
            _curve(axes, x, run, k)
        _dress(axes, name, tol)
    left.set_ylabel("relative error", color=INK, fontsize=11)
    handles, labels = left.get_legend_handles_labels()
    if handles:
        legend = figure.legend(
            handles, labels, loc="outside upper center", ncols=7, frameon=False, fontsize=11, handlelength=2.6, title=title
        )
        legend.get_title().set(fontsize=12, color=INK)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return write_atomically(Path(path), picture.getvalue())


def _log_x(axes: Any, ways: Sequence[np.ndarray]) -> None:
    """A logarithmic axis, so that solvers a hundred times apart can all be read; starts stand at its left edge."""
    values = np.concatenate([np.ravel(x) for x in ways]) if ways else np.empty(0)
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return
    axes.set_xscale("log")
    axes.set_xlim(0.8 * values.min(), 1.3 * values.max())
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")


def _curve(axes: Any, x: np.ndarray, run: Run, k: int) -> None:
    keep = np.isfinite(run.error) & (run.error > 0) & np.isfinite(x)
    x, error = x[keep], run.error[keep]
    colour, dashes = STYLES[k % len(STYLES)]
    axes.plot(x, error, color=colour, linestyle=dashes, linewidth=2.0, label=NAMES.get(run.solver, run.solver))
    if len(x):
        # Each marker is a little smaller than the one before, so that markers in one place show as rings.
        size, marker = max(9.0 - k, 4.0), "o" if run.reached else "x"
        axes.plot(x[-1:], error[-1:], color=colour, marker=marker, markersize=size, markeredgewidth=1.8, linestyle="none")


def _range(runs: Sequence[Run], tol: float | None) -> tuple[float, float]:
    """From the smallest to the largest error, the tolerance included, with some air."""
    values = np.concatenate([np.ravel(1.0 if tol is None else tol), *(run.error for run in runs)])
    values = values[np.isfinite(values) & (values > 0)]
    return 0.6 * values.min(), 1.8 * values.max()


def _dress(axes: Any, name: str, tol: float | None) -> None:
    axes.set_xlabel(name, color=INK, fontsize=11)
    axes.grid(True, color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, labelsize=10, length=3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FAINT)
    if tol is not None:
        axes.axhline(tol, color=FAINT, linewidth=1.0, zorder=1)
        axes.annotate(
            "tolerance",
            (1, tol),
            (0, 3),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            ha="right",
            color="#6b6b6b",
            fontsize=9.5,
        )


def write_atomically(path: Path, content: bytes) -> Path:
    """Write a file so that a reader, or an interruption, never finds half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
