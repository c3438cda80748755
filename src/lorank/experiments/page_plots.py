"""The page's interactive curves: plotly figures, one a panel, in colours that the page sets by its theme."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .figures import AT_LEAST, FAILED, FEWER, FIT, MEDIAN, MU, NOT_RUN, mark, spaced, success_map
from .styles import Style, label, ordered, style
from .tables import Case, Curve, Mean, Tables, average, group, methods, plain, series, typical
from .verdicts import amount, contraction

BETWEEN = "#8d97a1"  # boxes of a map
MOST = 400  # points of a curve: more cannot be told apart
SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
NAMED = {"seconds": "seconds", "iterations": "iterations", "error": "relative error", "iteration": "iterations"}


@dataclass(frozen=True)
class Panel:
    """A plot with its title; ``keys`` are the legend entries that it shows, ``marks`` what its points need explained."""

    title: str
    figure: Any
    keys: tuple[str, ...]
    marks: frozenset[str] = frozenset()
    logs: bool = True  # whether linear and logarithmic axes can be chosen


def panels(tables: Tables, experiment: str) -> list[Panel]:
    """All panels of an experiment; none where there is nothing to show."""
    draw = PANELS.get(experiment)
    return draw(tables, experiment) if draw else []


def look_of(key: str) -> Style:
    """The look of a legend entry: a method's, or one of the spare looks for entries that are no methods."""
    if key.startswith("#"):
        spare = ("prgd", "rgd", "shampoo", "niht", "rcg", "auto")
        return style(spare[int(key[1:].split(":")[0]) % len(spare)])._replace(label=key.split(":", 1)[1])
    return style(key)


# -- sweeps ------------------------------------------------------------------------------------------------------------
def _size(tables: Tables, name: str) -> list[Panel]:
    points = average(tables.of(name))
    found = []
    for cases in group(points, lambda case: (case.rank, case.oversampling)).values():
        title = cases[0].label("rank", "oversampling")
        found += [_sweep(points, cases, "n1", quantity, "n", title) for quantity in ("seconds", "iterations")]
    return found


def _oversampling(tables: Tables, name: str) -> list[Panel]:
    points = average(tables.of(name))
    wanted = ("iterations", "seconds") if points else ()
    return [_sweep(points, list(points), "oversampling", quantity, "1/q", "", log_x=False) for quantity in wanted]


def _noise(tables: Tables, name: str) -> list[Panel]:
    points = average(tables.of(name))
    wanted = ("error", "seconds", "iterations") if points else ()
    return [_sweep(points, list(points), "noise", quantity, f"noise level {SIGMA}", "") for quantity in wanted]


def _sweep(
    points: dict[Case, dict[str, Mean]],
    cases: Sequence[Case],
    x: str,
    quantity: str,
    x_label: str,
    title: str,
    *,
    log_x: bool = True,
) -> Panel:
    """Averages against a parameter, with bars from the smallest to the largest test."""
    usual = max(len(mean.rows) for means in points.values() for mean in means.values())
    chosen = {case: points[case] for case in cases}
    names = ordered(methods(chosen))
    traces, marks = [], set()
    for name in names:
        means = [mean for mean in series(chosen, name) if mean.of(quantity).mean > 0]
        kinds = [mark(mean, usual, quantity) for mean in means]
        marks |= set(kinds) - {""}
        good = [(mean, kind) for mean, kind in zip(means, kinds, strict=True) if kind != FAILED]
        bad = [(mean, kind) for mean, kind in zip(means, kinds, strict=True) if kind == FAILED]
        traces += [_averages(name, some, x, quantity, len(cases)) for some in (good, bad) if some]
    values = sorted({float(getattr(case, x)) for case in cases})
    figure = _figure(traces, x_label, NAMED[quantity], log_x=log_x and len(values) > 1, log_y=True)
    if x == "n1":
        labelled = spaced(values)
        figure["layout"]["xaxis"] |= {"tickvals": labelled, "ticktext": [plain(value) for value in labelled]}
    said = NAMED[quantity]
    return Panel(f"{said}, {title}" if title else said, figure, tuple(names), frozenset(marks))


def _averages(name: str, means: Sequence[tuple[Mean, str]], x: str, quantity: str, cases: int) -> Any:
    from plotly import graph_objects as go  # type: ignore[import-untyped]

    look = style(name)
    stats = [mean.of(quantity) for mean, _ in means]
    failed = means[0][1] == FAILED
    return go.Scatter(
        x=[getattr(mean.case, x) for mean, _ in means],
        y=[_short(stat.mean) for stat in stats],
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [_short(stat.high - stat.mean) for stat in stats],
            "arrayminus": [_short(stat.mean - stat.low) for stat in stats],
            "thickness": 1,
            "width": 0,
        },
        mode="markers" if failed else "lines+markers+text",
        text=None if failed else ["\N{UPWARDS ARROW}" if kind == AT_LEAST else "" for _, kind in means],
        textposition="top center",
        textfont={"size": 17},
        cliponaxis=False,
        line={"dash": look.plotly_dash, "width": 2},
        marker={"size": 9, "symbol": [_symbol(look, kind) for _, kind in means], "line": {"width": 1.5}},
        customdata=[_hover(mean, quantity, kind) for mean, kind in means],
        hovertemplate="%{customdata}<extra></extra>",
        name=html.escape(look.label),
        meta=name,
    )


def _symbol(look: Style, kind: str) -> str:
    opened = f"{look.symbol}-open"
    shapes = {FAILED: "x-thin-open", AT_LEAST: opened, FEWER: opened, MEDIAN: f"{opened}-dot"}
    return shapes.get(kind, look.symbol)


def _hover(mean: Mean, quantity: str, kind: str) -> str:
    stat = mean.of(quantity)
    bound = {AT_LEAST: "at least ", MEDIAN: "median "}.get(kind, "")
    spread = f" ({amount(stat.low, quantity)} to {amount(stat.high, quantity)})" if mean.tests > 1 else ""
    lines = [f"<b>{html.escape(label(mean.method))}</b>", mean.case.label(), f"{bound}{amount(stat.mean, quantity)}{spread}"]
    if quantity not in ("seconds", "error"):
        lines[-1] += f" {quantity}"
    lines.append(f"{mean.reached} of {len(mean.rows)} tests got there")
    return "<br>".join(lines)


# -- curves ------------------------------------------------------------------------------------------------------------
def _movielens(tables: Tables, name: str) -> list[Panel]:
    found = []
    ranks = group(tables.curves_of(name), lambda curve: curve.case.rank)
    for rank in sorted(ranks, key=lambda rank: rank or 0):
        fit = _way(ranks[rank], "iteration", "residual", f"fitting error, r = {rank}", "fitting error")
        fit.figure["layout"] |= _level(math.sqrt(FIT), "squared: 10<sup>-1.4</sup>")
        found.append(fit)
        if any(np.isfinite(curve.heldout_rmse).any() for curve in ranks[rank]):
            title = f"RMSE on ratings held out, r = {rank}"
            found.append(_way(ranks[rank], "iteration", "heldout_rmse", title, "RMSE", log_y=False))
    return found


def _phase(tables: Tables, name: str) -> list[Panel]:
    curves = tables.curves_of(name)
    wanted = (("iteration", "against iterations"), ("seconds", "against time")) if curves else ()
    return [_way(curves, x, "residual", f"relative residual {title}", "relative residual") for x, title in wanted]


def _way(curves: Sequence[Curve], x: str, y: str, title: str, y_label: str, *, log_y: bool = True) -> Panel:
    """Each method's typical test, along its iterations or seconds."""
    from plotly import graph_objects as go  # type: ignore[import-untyped]

    by_method = group(curves, lambda curve: curve.method)
    names = ordered(list(by_method))
    traces = []
    for name in names:
        curve, look = typical(by_method[name]), style(name)
        kept = thin(len(curve.iteration))
        traces.append(
            go.Scatter(
                x=[_short(value) for value in getattr(curve, x)[kept]],
                y=[_short(value) for value in getattr(curve, y)[kept]],
                mode="lines",
                line={"dash": look.plotly_dash, "width": 2.2},
                hovertemplate=f"<b>{html.escape(look.label)}</b><br>{NAMED[x]} %{{x:.4~g}}<br>%{{y:.4~g}}<extra></extra>",
                name=html.escape(look.label),
                meta=name,
            )
        )
    return Panel(title, _figure(traces, NAMED[x], y_label, log_x=False, log_y=log_y), tuple(names))


def _theorem(tables: Tables, name: str) -> list[Panel]:
    """The error, and each step's ratio; curves differ by the number of measurements here, not by method."""
    from plotly import graph_objects as go  # type: ignore[import-untyped]

    errors: list[Any] = []
    ratios: list[Any] = []
    keys = []
    for k, (case, curves) in enumerate(group(tables.curves_of(name), lambda curve: curve.case).items()):
        key = f"#{k}:{case.label('n1', 'rank', 'm')}"
        keys.append(key)
        for curve in curves:
            ratio = contraction(curve)
            for traces, x, y in ((errors, curve.iteration, curve.error), (ratios, curve.iteration[1 : len(ratio) + 1], ratio)):
                kept = thin(len(x))
                where = f"{html.escape(case.label('n1', 'rank', 'm'))}, test {curve.seed}"
                traces.append(
                    go.Scatter(
                        x=[_short(value) for value in x[kept]],
                        y=[_short(value) for value in y[kept]],
                        mode="lines",
                        line={"width": 1.6},
                        hovertemplate=f"{where}<br>iteration %{{x}}<br>%{{y:.4~g}}<extra></extra>",
                        meta=key,
                    )
                )
    if not keys:
        return []
    right = _figure(ratios, "iterations", "error after a step / before it", log_x=False, log_y=False)
    right["layout"] |= _level(MU, f"\N{GREEK SMALL LETTER MU} = {MU}")
    right["layout"]["yaxis"] |= {"rangemode": "tozero"}
    left = _figure(errors, "iterations", "relative error", log_x=False, log_y=True)
    return [Panel("relative error", left, tuple(keys)), Panel("contraction of each step", right, tuple(keys))]


def _level(value: float, text: str) -> dict[str, Any]:
    """A dashed line across, with its name."""
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value, "line": {"width": 1.2, "dash": "dash"}}
    # An annotation on a logarithmic axis is placed by the logarithm: the page keeps it right when the axis changes.
    note = {
        "xref": "paper",
        "x": 1,
        "xanchor": "right",
        "yanchor": "bottom",
        "showarrow": False,
        "text": text,
        "name": str(value),
    }
    return {"shapes": [line], "annotations": [note]}


# -- the map of success rates ------------------------------------------------------------------------------------------
def _success(tables: Tables, name: str) -> list[Panel]:
    from plotly import graph_objects as go  # type: ignore[import-untyped]

    points = average(tables.of(name))
    found = []
    for method in ordered(methods(points)):
        grid, ranks, numbers = success_map(points, method)
        cells = [[None if math.isnan(value) else round(value, 1) for value in row] for row in grid]
        trace = go.Heatmap(
            z=cells,
            x=[str(m) for m in numbers],
            y=[str(rank) for rank in ranks],
            zmin=0,
            zmax=100,
            colorscale=[[0, "#000000"], [1, "#ffffff"]],
            showscale=False,
            xgap=1,
            ygap=1,
            texttemplate="%{z:.0f}",
            textfont={"size": 10},
            hovertemplate=f"<b>{html.escape(label(method))}</b><br>r = %{{y}}, m = %{{x}}<br>%{{z:.0f}} %<extra></extra>",
            meta=method,
        )
        figure = _figure([trace], "measurements m", "rank r", log_x=False, log_y=False)
        for axis in ("xaxis", "yaxis"):
            figure["layout"][axis] |= {"type": "category", "showgrid": False}
        figure["layout"]["plot_bgcolor"] = NOT_RUN if np.isnan(grid).any() else BETWEEN
        found.append(Panel(label(method), figure, (method,), logs=False))
    return found


# -- common ------------------------------------------------------------------------------------------------------------
def thin(length: int) -> np.ndarray:
    """Indices of at most ``MOST`` points of a curve, its ends among them."""
    return np.unique(np.linspace(0, length - 1, min(length, MOST)).round().astype(int))


def _figure(traces: Sequence[Any], x_label: str, y_label: str, *, log_x: bool, log_y: bool) -> dict[str, Any]:
    """A figure as plain data, without plotly's own template: the page colours it."""
    from plotly import graph_objects as go  # type: ignore[import-untyped]

    figure = go.Figure(data=list(traces))
    figure.update_layout(
        template=None,
        margin={"l": 58, "r": 12, "t": 26, "b": 46},
        showlegend=False,
        hovermode="closest",
        xaxis={"title": {"text": x_label}, "type": "log" if log_x else "linear", "automargin": True},
        yaxis={"title": {"text": y_label}, "type": "log" if log_y else "linear", "automargin": True},
    )
    figure.update_xaxes(exponentformat=_exponents(value for trace in traces for value in trace.x or ()))
    figure.update_yaxes(exponentformat=_exponents(value for trace in traces for value in trace.y or ()))
    plain_data: dict[str, Any] = figure.to_plotly_json()
    return plain_data


def _exponents(values: Iterable[Any]) -> str:
    """Powers of ten where numbers are small, and otherwise numbers as people write them."""
    lowest = min((value for value in values if isinstance(value, float) and value > 0), default=1.0)
    return "power" if lowest < 1e-3 else "none"


def _short(value: float) -> float | None:
    """Five digits are more than a screen shows."""
    return float(f"{value:.5g}") if math.isfinite(value) else None


PANELS: dict[str, Callable[[Tables, str], list[Panel]]] = {
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
