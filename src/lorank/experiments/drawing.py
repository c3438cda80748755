"""Figures of panels, drawn with matplotlib: PNG, PDF and SVG files, and SVG elements of pages."""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..io.figures import FAINT, INK, blank_figure, reproducible, save_figure, style_axes
from ..report.html import Markup
from .figures import AT_LEAST, FAILED, FEWER, MEDIAN, STATED, Line, Panel
from .styles import NOT_RUN, Style, looks, ordered_methods
from .tables import plain

DASHED = (0, (4, 2))
MARKS = {AT_LEAST: r"$\uparrow$", MEDIAN: r"$\odot$", FEWER: "o", FAILED: "x", STATED: "_"}


def save(panels: Sequence[Panel], path: str | os.PathLike[str]) -> Path:
    """Draw panels and save them; the suffix of the path, .png, .pdf or .svg, is the format."""
    return save_figure(draw(panels), path)


def svg(panel: Panel, name: str, looks_: dict[str, Style], hidden: Collection[str] = ()) -> Markup:
    """A panel without legend as an SVG element. Groups have their legend entry as ``data-key``; some are hidden."""
    text = io.StringIO()
    with reproducible():
        draw([panel], legend=False, known=looks_).savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    found = text.getvalue()
    found = found[found.index("<svg") :]
    found = re.sub(r'<svg[^>]*?(viewBox="[^"]*")[^>]*>', r'<svg \1 role="img">', found, count=1)
    found = re.sub(r"<metadata>.*?</metadata>", "", found, flags=re.DOTALL)
    found = re.sub(r'id="key:([^"]*)"', lambda m: f'data-key="{m[1]}"' + (" hidden" if _plain(m[1]) in hidden else ""), found)
    found = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", found)
    return Markup(re.sub(r"\s*\n\s*", " ", found))


def _plain(text: str) -> str:
    import html

    return html.unescape(text)


def draw(found: Sequence[Panel], *, legend: bool = True, known: dict[str, Style] | None = None) -> Any:
    """One figure of several panels."""
    if not found:
        raise ValueError("no panels to draw: the experiment has no runs of the kind that the figure shows")
    styles = known or looks(ordered_methods(key for panel in found for key in panel.keys))
    maps = any(panel.map for panel in found)
    columns = 3 if len(found) == 3 or (maps and len(found) > 4) else 2
    columns = min(columns, len(found))
    figure, axes = _canvas(math.ceil(len(found) / columns), columns, width=4.3 if maps else 4.8)
    for axis, panel in zip(axes, found, strict=False):
        style_axes(axis, panel.x_label)
        axis.set_ylabel(panel.y_label, color=INK, fontsize=11)
        axis.set_title(panel.title if legend else "", color=INK, fontsize=11)
        _map(axis, panel) if panel.map else _lines(axis, panel, styles)
    for axis in axes[len(found) :]:
        axis.set_visible(False)
    if maps and legend:
        gaps = any(np.isnan(panel.map.grid).any() for panel in found if panel.map)
        words = "success in percent: white 100 %, black 0 %" + (", blue not run" if gaps else "")
        figure.suptitle(words, fontsize=10, color=INK)
    elif legend:
        _legend(figure, found, styles)
    return figure


def _lines(axis: Any, panel: Panel, styles: dict[str, Style]) -> None:
    for line in panel.lines:
        _averages(axis, line, styles[line.key]) if line.marks else _curve(axis, line, styles[line.key])
    if panel.log_y:
        axis.margins(y=0.12)
        _log_y(axis)
    if panel.log_x:
        axis.set_xscale("log")
        values = [float(value) for line in panel.lines for value in line.x]
        if max(values, default=1) > 1:  # plain numbers for sizes and seconds, powers of ten for noise levels
            axis.xaxis.set_major_formatter(lambda value, _: plain(value))
            _short_axis(axis.xaxis, max(values) / min(value for value in values if value > 0))
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


def _curve(axis: Any, line: Line, look: Style) -> None:
    """A curve with its band; one group of the SVG for each legend entry's parts."""
    drawn = {"color": look.colour, "gid": f"key:{line.key}"}
    style = {"drawstyle": "steps-post"} if line.steps else {}
    axis.plot(line.x, line.y, linestyle=look.dash, linewidth=1.9, **drawn, **style)
    if len(line.low):
        axis.fill_between(line.x, line.low, line.high, alpha=0.16, linewidth=0, **drawn)


def _averages(axis: Any, line: Line, look: Style) -> None:
    """A method's averages with bars from the minimum to the maximum over the tests."""
    drawn = {"color": look.colour, "gid": f"key:{line.key}"}
    if not {FAILED, STATED} & set(line.marks):
        axis.plot(line.x, line.y, linestyle=look.dash, linewidth=1.8, **drawn)
    for at, value, low, high, kind in zip(line.x, line.y, line.low, line.high, line.marks, strict=True):
        axis.plot([at, at], [low, high], linewidth=1.0, alpha=0.6, **drawn)
        marker = "x" if kind == FAILED else "_" if kind == STATED else look.marker
        face = "white" if kind in (AT_LEAST, MEDIAN, FEWER) else look.colour
        size = 16 if kind == STATED else 6.5
        shape = {"marker": marker, "markerfacecolor": face, "markersize": size, "markeredgewidth": 1.4}
        axis.plot(at, value, zorder=3, **shape, **drawn)
        if kind == MEDIAN:
            axis.plot(at, value, marker=".", markersize=3, zorder=4, **drawn)
        if kind == AT_LEAST:
            arrow = {"arrowstyle": "<|-", "color": look.colour, "linewidth": 1.4}
            note = axis.annotate("", (at, value), (0, 17), textcoords="offset points", arrowprops=arrow)
            note.set_gid(f"key:{line.key}")


def _map(axis: Any, panel: Panel) -> None:
    """A cell for each rank and number of measurements: white where all trials succeed, black where none does."""
    assert panel.map is not None
    grid, ranks, numbers = panel.map.grid, panel.map.rows, panel.map.columns
    axis.imshow(grid, cmap="gray", vmin=0, vmax=100, aspect="auto", origin="lower")
    axis.set_facecolor(NOT_RUN)
    for i, j in np.argwhere(np.isfinite(grid)):
        ink = "white" if grid[i, j] < 50 else INK
        axis.text(j, i, f"{grid[i, j]:.0f}", ha="center", va="center", fontsize=7.5, color=ink)
    axis.set_xticks(range(len(numbers)), [plain(m) for m in numbers], rotation=45 if len(numbers) > 6 else 0)
    axis.set_yticks(range(len(ranks)), [plain(rank) for rank in ranks])
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
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    if high < 1e3 * low:
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    _short_axis(axis.yaxis, high / low)


def _short_axis(axis: Any, ratio: float) -> None:
    """More labels on a logarithmic axis over less than three decades, and none on its minor ticks."""
    from matplotlib.ticker import LogLocator, NullFormatter

    if ratio < 1e3:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if ratio > 4 else tuple(range(1, 10)), numticks=12))
    axis.set_minor_formatter(NullFormatter())


def _legend(figure: Any, found: Sequence[Panel], styles: dict[str, Style]) -> None:
    """One legend for all panels, including the marks that occur."""
    entries = {}
    averages = any(line.marks for panel in found for line in panel.lines)
    for key in ordered_methods([key for panel in found for key in panel.keys]):
        look = styles[key]
        entries[look.label] = _handle(look.colour, look.dash, look.marker if averages else "")
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
