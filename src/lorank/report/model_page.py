"""One HTML page about a fitted model: the data, the choice, the fit, the intervals. Nothing is loaded from elsewhere."""

from __future__ import annotations

import html
import itertools
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np

from ..common.checks import counted
from ..io.archive import FileError, atomic

BLUE, ORANGE, GREEN = "#3b82c4", "#d9772b", "#3f9d6d"
Part = tuple[str, dict[str, dict[str, Any]]]  # HTML, and the plots in it
LEVELS = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95])

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5b6675; --paper: #ffffff; --card: #f5f7fa; --line: #dde3ea; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --soft: #9aa5b4; --paper: #14181f; --card: #1d232d; --line: #303947; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 24px 20px 60px; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: 0 0 4px; } h2 { font-size: 1.15rem; margin: 36px 0 10px; } p { margin: 6px 0 10px; }
.soft { color: var(--soft); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 18px 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 14px; }
.card b { display: block; font-size: 1.35rem; font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 14px; }
.plots:not(.alike) > :last-child:nth-child(odd) { grid-column: 1 / -1; }
.plot { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px 8px 4px; min-width: 0; }
.plot h3 { font-size: .98rem; font-weight: 600; margin: 2px 8px 0; } .plot p { font-size: .88rem; margin: 2px 8px 0; }
.chart { width: 100%; height: 290px; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; }
td, th { border-bottom: 1px solid var(--line); padding: 5px 8px; text-align: left; vertical-align: top; }
.numbers td, .numbers th { text-align: right; white-space: nowrap; }
.numbers td:first-child { text-align: left; } .swatch { display: inline-block; width: 12px; height: 12px; margin-right: 7px; }
.numbers :is(td, th):first-child { position: sticky; left: 0; background: var(--paper); }
.wide { overflow-x: auto; margin-bottom: 14px; }
li { margin: 4px 0; }
@media (max-width: 520px) { body { padding: 16px 12px 40px; font-size: 15px; } .chart { height: 240px; } }
"""

SCRIPT = """
const dark = matchMedia('(prefers-color-scheme: dark)');
function draw() {
  const ink = dark.matches ? '#e6e9ee' : '#1d2430', line = dark.matches ? '#303947' : '#dde3ea';
  for (const [id, plot] of Object.entries(PLOTS)) {
    const axis = {gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true};
    const layout = {paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', font: {color: ink, size: 12.5},
      margin: {l: 46, r: 14, t: 14, b: 40}, showlegend: plot.data.length > 1, legend: {orientation: 'h', y: 1.16, x: 0},
      bargap: 0.04, xaxis: {...axis, ...plot.x}, yaxis: {...axis, ...plot.y}, ...plot.layout};
    Plotly.react(id, plot.data, layout, {responsive: true, displayModeBar: false});
  }
  document.body.dataset.drawn = Object.keys(PLOTS).length;
}
dark.addEventListener('change', draw);
draw();
"""


def write_page(
    path: str | Path, model: Any, rows: np.ndarray, cols: np.ndarray, values: np.ndarray, title: str, more: Part | None = None
) -> Path:
    """Write the page.

    Parameters
    ----------
    path : path
    model : MatrixCompletion
        Fitted.
    rows, cols, values : (m,) arrays
        The observations.
    title : str
    more : Part, optional
        HTML and plots that come before the diagnostics.
    """
    content = build_page(model, rows, cols, values, title, more)
    with atomic(path) as temporary:
        temporary.write_text(content, encoding="utf-8")
    return Path(path)


def build_page(model: Any, rows: np.ndarray, cols: np.ndarray, values: np.ndarray, title: str, more: Part | None = None) -> str:
    """The page as text."""
    found, plots = model.diagnosis_, _plots(model, rows, cols, values)
    facts = [
        (f"{found.observations:,}", "observations"),
        (f"{found.shape[0]:,} by {found.shape[1]:,}", "rows by columns"),
        (str(model.rank_), "factors (rank)"),
    ]
    if model.heldout_ is not None:
        truth, guess, _ = model.heldout_
        facts.append((f"{np.sqrt(np.mean((truth - guess) ** 2)):.4g}", "error (RMSE) on held-out values"))
        mean = truth.mean() if model.nonnegative else model.mean_
        facts.append((f"{np.sqrt(np.mean((truth - mean) ** 2)):.4g}", "the same for the mean alone"))
    body = [
        f"<h1>{html.escape(title)}</h1>",
        f'<p class="soft">{html.escape(found.verdict)}</p>',
        cards(facts),
    ]
    for heading, names in (
        ("The data", ("values", "rows", "cols", "outliers")),
        ("The model", ("choice", "strength", "way", "spectrum")),
        ("Predictions", ("scatter", "coverage")),
    ):
        shown = [name for name in names if name in plots]
        if shown:
            body.append(f'<h2>{heading}</h2><div class="plots">{"".join(frame(name, plots[name]) for name in shown)}</div>')
    if more is not None:
        body.append(more[0])
        plots = plots | more[1]
    body.append(
        "<h2>Diagnostics</h2><ul>" + "".join(f"<li>{html.escape(s)}</li>" for s in found.findings or [found.verdict]) + "</ul>"
    )
    body.append("<h2>Settings and versions</h2>" + _settings(model))
    return assemble(title, body, plots)


def assemble(title: str, body: list[str], plots: dict[str, dict[str, Any]]) -> str:
    """A page of parts, whose plots are drawn where :func:`frame` left place for them."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise FileError('a report needs plotly: pip install "lorank[files]"') from None
    data = json.dumps({f"plot-{k}": {key: p[key] for key in ("data", "x", "y", "layout")} for k, p in plots.items()}).replace(
        "<", "\\u003c"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>{''.join(body)}"
        f"<script>{get_plotlyjs()}</script><script>const PLOTS = {data};{SCRIPT}</script></body></html>"
    )


def cards(facts: list[tuple[str, str]]) -> str:
    """Numbers, and what they are."""
    return '<div class="cards">' + "".join(f'<div class="card"><b>{a}</b>{b}</div>' for a, b in facts) + "</div>"


def frame(name: str, plot: dict[str, Any]) -> str:
    said = f'<p class="soft">{html.escape(plot["said"])}</p>' if plot.get("said") else ""
    return f'<div class="plot"><h3>{html.escape(plot["title"])}</h3>{said}<div class="chart" id="plot-{name}"></div></div>'


def _plots(model: Any, rows: np.ndarray, cols: np.ndarray, values: np.ndarray) -> dict[str, dict[str, Any]]:
    plots = {"values": _histogram(values)}
    for name, index, n in (("rows", rows, model.model_.shape[0]), ("cols", cols, model.model_.shape[1])):
        plots[name] = _counts(np.bincount(index, minlength=n), {"rows": "row", "cols": "column"}[name])
    wrong = getattr(model, "outliers_", None)
    if wrong is not None and wrong.any() and len(wrong) == len(rows):
        plots["outliers"] = _outliers(rows[wrong], cols[wrong], values[wrong], len(wrong))
    learned = [c for c in model.curve_ if c.regularization is None]
    if len(learned) > 1:
        plots["choice"] = plot(
            "Held-out error along the rank",
            [line([c.rank for c in learned], [c.error for c in learned], BLUE, "learned priors", "lines+markers")],
            whole_axis("rank", len(learned)),
            {"title": {"text": "RMSE"}},
            f"Rank {model.rank_} was chosen.",
        )
    path = [c for c in model.curve_ if c.regularization is not None]
    if len(path) > 1:
        said = "A penalty instead of learned priors, for comparison."
        if not learned:
            said = f"A strength of {model.regularization_:.3g} was chosen."
        plots["strength"] = plot(
            "Held-out error along the regularization",
            [line([c.regularization for c in path], [c.error for c in path], ORANGE, "a penalty", "lines+markers")],
            {"title": {"text": "strength"}, "type": "log"},
            {"title": {"text": "RMSE"}},
            said,
        )
    history = model.history_
    plots["way"] = plot(
        "Convergence",
        [line(history.iteration.tolist(), history.residual.tolist(), BLUE, "residual", "lines+markers")],
        whole_axis("sweep", len(history)),
        {"title": {"text": "relative residual"}},
        f"{model.status_.advice}",
    )
    if model.rank_:
        plots["spectrum"] = plot(
            "Spectrum",
            [{"type": "bar", "x": list(range(1, model.rank_ + 1)), "y": model.s_.tolist(), "marker": {"color": BLUE}}],
            whole_axis("factor", model.rank_) | {"range": [0.4, max(model.rank_, 6) + 0.6]},
            {"title": {"text": "singular value"}},
        )
    if model.heldout_ is not None and len(model.heldout_[0]):
        plots["scatter"], plots["coverage"] = _residuals(model), _coverage(model)
    return plots


def whole_axis(title: str, count: int) -> dict[str, Any]:
    """An axis of whole numbers: no ticks between them, and some ten at most."""
    return {"title": {"text": title}, "tick0": 0, "dtick": max(1, -(-count // 10))}


def _residuals(model: Any) -> dict[str, Any]:
    truth, guess, _ = model.heldout_
    off = truth - guess
    low, high = np.percentile(off, [0.1, 99.9])
    count, edges = np.histogram(off, min(60, max(10, int(2 * len(off) ** 0.5))), (low, high) if low < high else None)
    bars = {"type": "bar", "x": ((edges[1:] + edges[:-1]) / 2).tolist(), "y": count.tolist(), "marker": {"color": GREEN}}
    return plot("Errors on held-out values", [bars], {"title": {"text": "value less prediction"}}, {"title": {"text": "count"}})


def _coverage(model: Any) -> dict[str, Any]:
    """Calibrated on one half of the held-out observations, checked on the other."""
    truth, guess, spread = model.heldout_
    score = np.abs(truth - guess) / spread
    half = np.random.default_rng(0).permutation(len(score))
    first, second = score[half[::2]], score[half[1::2]]
    actual = [float(np.mean(second <= np.quantile(first, level))) if len(second) else float("nan") for level in LEVELS]
    near = [round(100 * level) for level in LEVELS]
    lines = [
        line(near, near, "#8a94a3", "as asked for", "lines", "dot"),
        line(near, [100 * a for a in actual], BLUE, "found", "lines+markers"),
    ]
    said = f"{100 * actual[4]:.1f} % of one half of the held-out values lie in 90 % intervals calibrated on the other half."
    x, y = ({"title": {"text": text}, "ticksuffix": " %"} for text in ("coverage asked for", "coverage found"))
    return plot("Calibration of intervals", lines, x, y, said)


def _histogram(values: np.ndarray) -> dict[str, Any]:
    distinct = np.unique(values[: 1 << 20])
    if len(distinct) <= 40:
        x, y = np.unique(values, return_counts=True)
    else:
        y, edges = np.histogram(values, 50)
        x = (edges[1:] + edges[:-1]) / 2
    bars = {"type": "bar", "x": x.tolist(), "y": y.tolist(), "marker": {"color": BLUE}}
    said = f"Mean {values.mean():.4g}, standard deviation {values.std():.3g}."
    return plot("Values", [bars], {"title": {"text": "value"}}, {"title": {"text": "count"}}, said)


def _outliers(rows: np.ndarray, cols: np.ndarray, values: np.ndarray, m: int) -> dict[str, Any]:
    """Where the observations are that were held for outliers; of very many, some."""
    some = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), 2000)).astype(int))
    points = line(cols[some].tolist(), rows[some].tolist(), ORANGE, "outliers", "markers")
    points["marker"], points["text"] = {"size": 4, "color": ORANGE}, [f"{v:.4g}" for v in values[some]]
    said = f"{len(rows):,} of {counted(m, 'observation')} ({len(rows) / m:.2%}), far from what the others say: left out."
    return plot("Outliers", [points], {"title": {"text": "column"}}, {"title": {"text": "row"}, "autorange": "reversed"}, said)


def _counts(counts: np.ndarray, name: str) -> dict[str, Any]:
    """How many rows have how many observations, in bins that double."""
    top = max(int(counts.max()), 1)
    edges = np.unique(np.concatenate([[0, 1], 2 ** np.arange(1, int(np.log2(top)) + 2)]))
    count, _ = np.histogram(counts, np.append(edges, top + 1) if edges[-1] <= top else edges)
    labels = ["0" if a == 0 else "1" if a == 1 else f"{a}-{b - 1}" for a, b in itertools.pairwise(edges)]
    bars = {"type": "bar", "x": labels[: len(count)], "y": count[: len(labels)].tolist(), "marker": {"color": ORANGE}}
    said = f"Median {np.median(counts):.0f}, fewest {counts.min():,}, most {counts.max():,}."
    x = {"title": {"text": "observations"}, "type": "category"}
    return plot(f"Observations per {name}", [bars], x, {"title": {"text": f"{name}s"}}, said)


def _settings(model: Any) -> str:
    import scipy
    import sklearn

    from ..common.version import __version__

    lines = {name: repr(value) for name, value in model.get_params().items()}
    lines |= {"chosen rank": str(model.rank_), "chosen regularization": str(model.regularization_)}
    lines["versions"] = (
        f"lorank {__version__}, NumPy {np.__version__}, SciPy {scipy.__version__}, scikit-learn {sklearn.__version__}, "
        f"Python {platform.python_version()}"
    )
    return (
        "<table>"
        + "".join(f"<tr><td>{html.escape(k)}</td><td>{html.escape(v)}</td></tr>" for k, v in lines.items())
        + "</table>"
    )


def bars(x: list[Any], y: list[float], colour: str, name: str) -> dict[str, Any]:
    """Data of a plot: one group of bars."""
    return {"type": "bar", "x": x, "y": y, "name": name, "marker": {"color": colour}}


def line(x: list[Any], y: list[Any], colour: str, name: str, mode: str, dash: str = "solid") -> dict[str, Any]:
    line = {"color": colour, "dash": dash}
    return {"type": "scatter", "x": x, "y": y, "mode": mode, "name": name, "line": line, "marker": {"size": 7}}


def plot(
    title: str, data: list[Any], x: dict[str, Any], y: dict[str, Any], said: str = "", layout: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"title": title, "data": data, "x": x, "y": y, "said": said, "layout": layout or {}}
