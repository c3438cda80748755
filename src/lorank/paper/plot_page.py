"""Plotly figures of panels; the page's script sets the colours of its theme."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..experiments.tables import plain
from .panels import AT_LEAST, FAILED, FEWER, MEDIAN, Line, Map, Panel
from .styles import NOT_RUN, label, look_of

BETWEEN = "#8d97a1"  # lines between the cells of a map
MAX_POINTS = 400  # points of a curve that are drawn
SHAPES = {FAILED: "x-thin-open", AT_LEAST: "{}-open", FEWER: "{}-open", MEDIAN: "{}-open-dot"}


def plotly_figure(panel: Panel) -> dict[str, Any]:
    """The panel as a plotly figure: ``data`` and ``layout``, and ``part``, the visible range of y."""
    traces = [_map(panel.map)] if panel.map else [_line(line) for line in panel.lines if not line.faint]
    figure: dict[str, Any] = {
        "data": traces,
        "layout": {
            "margin": {"l": 58, "r": 12, "t": 26, "b": 46},
            "showlegend": False,
            "hovermode": "closest",
            "xaxis": _axis(panel.x_label, panel.log_x, (value for trace in traces for value in trace["x"])),
            "yaxis": _axis(panel.y_label, panel.log_y, (value for trace in traces for value in trace["y"])),
        },
    }
    layout = figure["layout"]
    if panel.ticks:
        layout["xaxis"] |= {"tickvals": list(panel.ticks), "ticktext": [plain(value) for value in panel.ticks]}
    if panel.y_ticks:
        layout["yaxis"] |= {"tickvals": list(panel.y_ticks), "ticktext": [f"{value:g}" for value in panel.y_ticks]}
    if panel.y_range is not None:  # on a logarithmic axis plotly takes logarithms
        low, high = panel.y_range
        figure["part"] = {"linear": [low, high], "log": [math.log10(low), math.log10(high)] if low > 0 else None}
        layout["yaxis"]["range"] = figure["part"]["log" if panel.log_y else "linear"]
    if panel.zero:
        layout["yaxis"]["rangemode"] = "tozero"
    if panel.level:
        layout |= _level(*panel.level)
    if panel.map:
        for axis in ("xaxis", "yaxis"):
            layout[axis] |= {"type": "category", "showgrid": False}
        layout["plot_bgcolor"] = NOT_RUN if np.isnan(panel.map.grid).any() else BETWEEN
    return figure


def _axis(title: str, log: bool, values: Iterable[Any]) -> dict[str, Any]:
    """An axis with powers of ten for small numbers, and plain numbers otherwise."""
    lowest = min((value for value in values if isinstance(value, float) and value > 0), default=1.0)
    exponents = "power" if lowest < 1e-3 else "none"
    few = {"nticks": 4} if log else {}  # more ticks would label all nine digits of a decade
    kind = "log" if log else "linear"
    return {"title": {"text": title}, "type": kind, "automargin": True, "exponentformat": exponents, **few}


def _line(line: Line) -> dict[str, Any]:
    look = look_of(line.key)
    kept = thin(len(line.x)) if not line.marks else np.arange(len(line.x))
    x, y = ([_short(value) for value in np.asarray(values, float)[kept]] for values in (line.x, line.y))
    common = {"type": "scatter", "x": x, "y": y, "name": html.escape(look.label), "meta": line.key}
    dash = "solid" if line.key.startswith("#") else look.plotly_dash
    if not line.marks:
        return common | {
            "mode": "lines",
            "line": {"dash": dash, "width": 2.2},
            "hovertemplate": f"{line.hover}<extra></extra>",
        }
    failed = set(line.marks) == {FAILED}
    return common | {
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [_short(high - mean) for high, mean in zip(line.high, line.y, strict=True)],
            "arrayminus": [_short(mean - low) for low, mean in zip(line.low, line.y, strict=True)],
            "thickness": 1,
            "width": 0,
        },
        "mode": "markers" if failed else "lines+markers+text",
        "text": None if failed else ["\N{UPWARDS ARROW}" if kind == AT_LEAST else "" for kind in line.marks],
        "textposition": "top center",
        "textfont": {"size": 17},
        "cliponaxis": False,
        "line": {"dash": dash, "width": 2},
        "marker": {
            "size": 9,
            "symbol": [SHAPES.get(kind, "{}").format(look.symbol) for kind in line.marks],
            "line": {"width": 1.5},
        },
        "customdata": list(line.hover),
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def _map(found: Map) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "z": [[None if math.isnan(value) else round(value, 1) for value in row] for row in found.grid],
        "x": [str(m) for m in found.numbers],
        "y": [str(rank) for rank in found.ranks],
        "zmin": 0,
        "zmax": 100,
        "colorscale": [[0, "#000000"], [1, "#ffffff"]],
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
        "texttemplate": "%{z:.0f}",
        "textfont": {"size": 10},
        "hovertemplate": f"<b>{html.escape(label(found.key))}</b><br>r = %{{y}}, m = %{{x}}<br>%{{z:.0f}} %<extra></extra>",
        "meta": found.key,
    }


def _level(value: float, text: str) -> dict[str, Any]:
    """A dashed horizontal line, named in the corner, where curves do not cross the text."""
    across: dict[str, Any] = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value}
    corner = {"xref": "paper", "yref": "paper", "x": 0.99, "y": 0.99, "xanchor": "right", "yanchor": "top"}
    note = corner | {"showarrow": False, "text": f"dashed line, {text}"}
    return {"shapes": [across | {"line": {"width": 1.2, "dash": "dash"}}], "annotations": [note]}


def thin(length: int) -> np.ndarray:
    """Indices of at most ``MAX_POINTS`` points of a curve, including its ends."""
    return np.unique(np.linspace(0, length - 1, min(length, MAX_POINTS)).round().astype(int))


def _short(value: float) -> float | None:
    """Five digits, more than a screen can show; None for numbers that are not finite."""
    return float(f"{value:.5g}") if math.isfinite(value) else None
