"""The matplotlib style of all plots: colours, empty figures, axes, files. matplotlib is imported when a plot is drawn."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from .archive import atomic

# The colours of Okabe and Ito, distinct for all types of colour vision, two of them darker for a white background. Dashes
# distinguish the curves in grey, and where two of them coincide.
STYLES: tuple[tuple[str, Any], ...] = (
    ("#0072B2", "-"),
    ("#D55E00", "-"),
    ("#009E73", (0, (6, 1.5))),
    ("#B5568C", (0, (4, 1.2, 1, 1.2))),
    ("#000000", (0, (1.5, 2.5))),
    ("#A87C00", (0, (1, 1))),
    ("#56B4E9", (0, (6, 1.5))),
)
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
INK, FAINT, RULE = "#222222", "#8a8a8a", "#e6e6e6"
EITHER, EITHER_RULE, EITHER_BLUE = "#7a7f87", "#7a7f8740", "#2f86c9"  # readable on white and on black, for transparent grounds
TEXT_SIZE, SMALL = 11, 10
MAX_POINTS = 5000  # of a scatter plot

# Settings of matplotlib for pictures of the gallery and of benchmark pages, on a transparent ground as in ``result.plot()``.
STYLE: dict[str, Any] = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), EITHER),
    **dict.fromkeys(("axes.titlesize", "axes.labelsize"), TEXT_SIZE),
    **dict.fromkeys(("font.size", "xtick.labelsize", "ytick.labelsize", "legend.fontsize"), SMALL),
    "axes.titleweight": "bold",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": EITHER_RULE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "lines.linewidth": 2,
    "figure.constrained_layout.h_pad": 0.06,
}


def use_style(*_: Any) -> None:
    """Set ``STYLE`` and the colours of curves in matplotlib's parameters; sphinx-gallery calls it before each example."""
    import matplotlib
    from matplotlib.rcsetup import cycler

    colours = [{"#0072B2": EITHER_BLUE, "#000000": EITHER}.get(colour, colour) for colour, _ in STYLES]
    curves = cycler(color=colours, linestyle=[dashes for _, dashes in STYLES])
    settings: Any = {**STYLE, "axes.prop_cycle": curves}
    matplotlib.rcParams.update(settings)


def blank_figure(width: float, height: float, *, transparent: bool = False) -> Any:
    """A matplotlib figure without a window; width and height in inches.

    The ground is white or, for pages with a light and a dark theme, transparent. Notebooks show the figure as PNG.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f'plots need matplotlib: pip install "lorank[cli]" ({error})') from None
    figure = Figure(figsize=(width, height), dpi=120, facecolor="none" if transparent else "white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Any, path: str | os.PathLike[str]) -> Path:
    """Write a figure as PNG, PDF or SVG, by the suffix of the path; an interruption leaves the former file."""
    path = Path(path)
    dates: dict[str, Any] = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}  # the same figure, the same file
    kind = path.suffix[1:].lower()
    if kind not in dates:
        raise ValueError(f"the name of a figure must end in .png, .pdf or .svg, got {path.name!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as temporary, reproducible():
        figure.savefig(temporary, format=kind, metadata=dates[kind])
    return path


def reproducible() -> Any:
    """Settings of matplotlib for files: texts as text, and identifiers that depend on the content only."""
    import matplotlib

    return matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lorank", "pdf.fonttype": 42})


def style_axes(axes: Any, x_label: str, y_label: str = "", title: str = "", *, transparent: bool = False) -> None:
    """Labels, grid and spines of all plots."""
    ink, faint, rule = (EITHER, EITHER, EITHER_RULE) if transparent else (INK, FAINT, RULE)
    axes.set_facecolor("none" if transparent else "white")
    axes.set_xlabel(x_label, color=ink, fontsize=TEXT_SIZE)
    axes.set_ylabel(y_label, color=ink, fontsize=TEXT_SIZE)
    if title:
        axes.set_title(title, color=ink, fontsize=TEXT_SIZE, fontweight="bold")
    axes.grid(True, color=rule, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=ink, labelsize=SMALL, length=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(faint)


def legend(axes: Any, *, transparent: bool = False) -> None:
    """A legend without a frame, where there are labels."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=SMALL, labelcolor=EITHER if transparent else INK)


def draw_predictions(axes: Any, truth: np.ndarray, guess: np.ndarray) -> None:
    """Held-out values against predictions, and the diagonal."""
    some = np.unique(np.linspace(0, len(truth) - 1, min(len(truth), MAX_POINTS)).astype(int))
    rmse = float(np.sqrt(np.mean((truth - guess) ** 2)))
    style_axes(axes, "prediction", "held-out value", f"RMSE {rmse:.3g}", transparent=True)
    axes.plot(guess[some], truth[some], ".", color=EITHER_BLUE, markersize=3, alpha=0.5)
    ends = [min(truth.min(), guess.min()), max(truth.max(), guess.max())]
    axes.plot(ends, ends, color=GREEN, linewidth=1)
