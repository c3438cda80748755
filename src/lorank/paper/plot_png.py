"""PNG figures of panels, drawn with matplotlib."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..experiments.tables import Tables
from ..io.figures import FAINT, INK, blank_figure, save_figure, style_axes
from . import EXPERIMENTS
from .panels import AT_LEAST, FAILED, FEWER, MEDIAN, Line, Panel, panels
from .styles import NOT_RUN, look_of, ordered

DASHED = (0, (4, 2))
MARKS = {AT_LEAST: r"$\uparrow$", MEDIAN: r"$\odot$", FEWER: "o", FAILED: "x"}


def draw_all(tables: Tables, out: Path) -> list[Path]:
    """Draw ``out/figures/NAME.png`` for each experiment with data; returns the paths."""
    written = []
    for name in EXPERIMENTS:
        found = panels(tables, name)
        if found:
            (out / "figures").mkdir(parents=True, exist_ok=True)
            written.append(save_figure(draw(found), out / "figures" / f"{name}.png"))
    return written


def draw(found: Sequence[Panel]) -> Any:
    """One figure of several panels."""
    maps = any(panel.map for panel in found)
    columns = 3 if len(found) == 3 or (maps and len(found) > 4) else 2
    columns = min(columns, len(found))
    figure, axes = _canvas(math.ceil(len(found) / columns), columns, width=4.3 if maps else 4.8)
    for axis, panel in zip(axes, found, strict=False):
        style_axes(axis, panel.x_label, panel.y_label, panel.title)
        _map(axis, panel) if panel.map else _lines(axis, panel)
    for axis in axes[len(found) :]:
        axis.set_visible(False)
    if maps:
        gaps = any(np.isnan(panel.map.grid).any() for panel in found if panel.map)
        words = "success in percent: white 100 %, black 0 %" + (", blue not run" if gaps else "")
        figure.suptitle(words, fontsize=10, color=INK)
    else:
        _legend(figure, found)
    return figure


def _lines(axis: Any, panel: Panel) -> None:
    for line in panel.lines:
        _averages(axis, line) if line.marks else _curve(axis, line)
    if panel.log_y:
        axis.margins(y=0.12)
        _log_y(axis)
    if panel.log_x:
        axis.set_xscale("log")
        values = [float(value) for line in panel.lines for value in line.x]
        if max(values, default=1) > 1:  # plain numbers for sizes and seconds, powers of ten for noise levels
            axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if panel.ticks:
        from matplotlib.ticker import FixedLocator

        axis.xaxis.set_major_locator(FixedLocator(list(panel.ticks)))
        axis.xaxis.set_minor_locator(FixedLocator([]))
    if panel.y_ticks:
        axis.set_yticks(list(panel.y_ticks), [f"{value:g}" for value in panel.y_ticks])
    if panel.zero:
        axis.set_ylim(0, None)
    if panel.y_range is not None:
        axis.set_ylim(*panel.y_range)
    if panel.level:
        axis.axhline(panel.level[0], color=FAINT, linewidth=1.2, linestyle=DASHED, zorder=1)


def _curve(axis: Any, line: Line) -> None:
    look = look_of(line.key)
    dash = "-" if line.faint or line.key.startswith("#") else look.dash
    width, alpha = (0.8, 0.25) if line.faint else (1.9, 1.0)
    axis.plot(line.x, line.y, color=look.colour, linestyle=dash, linewidth=width, alpha=alpha)


def _averages(axis: Any, line: Line) -> None:
    """A method's averages with bars from the minimum to the maximum over the tests."""
    look = look_of(line.key)
    if set(line.marks) != {FAILED}:
        axis.plot(line.x, line.y, color=look.colour, linestyle=look.dash, linewidth=1.8)
    for at, value, low, high, kind in zip(line.x, line.y, line.low, line.high, line.marks, strict=True):
        axis.plot([at, at], [low, high], color=look.colour, linewidth=1.0, alpha=0.6)
        marker = "x" if kind == FAILED else look.marker
        face = "white" if kind in (AT_LEAST, MEDIAN, FEWER) else look.colour
        shape = {"marker": marker, "markerfacecolor": face, "markersize": 6.5, "markeredgewidth": 1.4}
        axis.plot(at, value, color=look.colour, zorder=3, **shape)
        if kind == MEDIAN:
            axis.plot(at, value, marker=".", color=look.colour, markersize=3, zorder=4)
        if kind == AT_LEAST:
            arrow = {"arrowstyle": "<|-", "color": look.colour, "linewidth": 1.4}
            axis.annotate("", (at, value), (0, 17), textcoords="offset points", arrowprops=arrow)


def _map(axis: Any, panel: Panel) -> None:
    """A cell for each rank and number of measurements: white where all trials succeed, black where none does."""
    assert panel.map is not None
    grid, ranks, numbers = panel.map.grid, panel.map.ranks, panel.map.numbers
    axis.imshow(grid, cmap="gray", vmin=0, vmax=100, aspect="auto", origin="lower")
    axis.set_facecolor(NOT_RUN)
    for i, j in np.argwhere(np.isfinite(grid)):
        ink = "white" if grid[i, j] < 50 else INK
        axis.text(j, i, f"{grid[i, j]:.0f}", ha="center", va="center", fontsize=7.5, color=ink)
    axis.set_xticks(range(len(numbers)), [str(m) for m in numbers], rotation=45 if len(numbers) > 6 else 0)
    axis.set_yticks(range(len(ranks)), [str(rank) for rank in ranks])
    axis.grid(False)
    axis.hlines(np.arange(1, len(ranks)) - 0.5, -0.5, len(numbers) - 0.5, color="#9a9a9a", linewidth=0.5)
    axis.vlines(np.arange(1, len(numbers)) - 0.5, -0.5, len(ranks) - 0.5, color="#9a9a9a", linewidth=0.5)
    axis.set(xlim=(-0.5, len(numbers) - 0.5), ylim=(-0.5, len(ranks) - 0.5))


# -- axes and legends --------------------------------------------------------------------------------------------------
def _canvas(rows: int, columns: int, *, width: float, height: float = 3.5) -> tuple[Any, list[Any]]:
    figure = blank_figure(width * columns, height * rows + 0.5)
    return figure, list(figure.subplots(rows, columns, squeeze=False).ravel())


def _log_y(axis: Any) -> None:
    """A logarithmic axis with ticks at powers of ten, or at 1, 2, 5, 10, 20 where the range is short."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_yscale("log")
    low, high = axis.get_ylim()
    if high < 1e3 * low:
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high > 4 * low else tuple(range(1, 10)), numticks=12))
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.yaxis.set_minor_formatter(NullFormatter())


def _legend(figure: Any, found: Sequence[Panel]) -> None:
    """One legend for all panels, including the marks that occur."""
    entries = {}
    for key in ordered([key for panel in found for key in panel.keys]):
        look = look_of(key)
        averages = any(line.marks for panel in found for line in panel.lines)
        dash = "-" if key.startswith("#") else look.dash
        entries[look.label] = _handle(look.colour, dash, look.marker if averages else "")
    for panel in found:
        if panel.level:
            entries[re.sub(r"<sup>(.*)</sup>", r"$^{\1}$", panel.level[1])] = _handle(FAINT, DASHED, "")
    marks = set().union(*(panel.marks for panel in found))
    entries |= {kind: _handle(INK, "none", shape, hollow=True) for kind, shape in MARKS.items() if kind in marks}
    inches = 0.65 + 0.085 * max(len(text) for text in entries)  # approximate width of an entry
    rows = math.ceil(len(entries) / max(int(figure.get_figwidth() / inches), 1))
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside upper center",
        ncols=math.ceil(len(entries) / rows),
        frameon=False,
        fontsize=10,
        handlelength=2.8,
    )


def _handle(colour: str, dash: Any, marker: str, *, hollow: bool = False) -> Any:
    from matplotlib.lines import Line2D

    face = "white" if hollow and marker in ("o", "s") else colour
    return Line2D([], [], color=colour, linestyle=dash, linewidth=1.8, marker=marker, markersize=6.5, markerfacecolor=face)
