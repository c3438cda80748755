"""HTML report of a fitted MatrixCompletion: data, model selection, convergence, held-out errors and intervals."""

from __future__ import annotations

import itertools
import platform
from pathlib import Path
from typing import Any

import numpy as np

from ..common.checks import counted
from . import html

Part = tuple[html.Markup, dict[str, html.Plot]]  # HTML, and the plots in it
LEVELS = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
MAX_OUTLIERS = 2000  # points of the plot of outliers
SECTIONS = {
    "Data": ("values", "rows", "cols", "outliers"),
    "Model": ("choice", "strength", "convergence", "spectrum"),
    "Predictions": ("residuals", "coverage"),
}


def write_model_page(
    path: str | Path, model: Any, rows: np.ndarray, cols: np.ndarray, values: np.ndarray, title: str, more: Part | None = None
) -> Path:
    """Write the report; see :func:`build_page`."""
    return html.write_text(path, build_page(model, rows, cols, values, title, more))


def build_page(model: Any, rows: np.ndarray, cols: np.ndarray, values: np.ndarray, title: str, more: Part | None = None) -> str:
    """The report as HTML.

    Parameters
    ----------
    model : MatrixCompletion
        Fitted.
    rows, cols, values : (m,) arrays
        The observations.
    title : str
    more : Part, optional
        HTML and plots placed before the diagnostics.
    """
    found, plots = model.diagnosis_, _plots(model, rows, cols, values)
    shape = f"{found.shape[0]:,} x {found.shape[1]:,}"
    facts = [(f"{found.observations:,}", "observations"), (shape, "rows x columns"), (model.rank_, "rank")]
    if model.heldout_ is not None:
        truth, guess, _ = model.heldout_
        mean = truth.mean() if model.nonnegative else model.mean_
        facts.append((f"{_rmse(truth - guess):.4g}", "RMSE on held-out values"))
        facts.append((f"{_rmse(truth - mean):.4g}", "RMSE of the mean"))
    body: list[object] = [html.element("h1", title), html.element("p", found.verdict, class_="soft"), html.cards(facts)]
    for heading, names in SECTIONS.items():
        shown = {name: plots[name] for name in names if name in plots}
        body += [html.element("h2", heading), html.plot_grid(shown)] if shown else []
    if more is not None:
        body.append(more[0])
        plots = plots | more[1]
    body += [html.element("h2", "Diagnostics"), html.bullets(found.findings or [found.verdict])]
    body += [html.element("h2", "Settings and versions"), html.table((), _settings(model).items())]
    return html.document(title, body, plots=plots)


def _rmse(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def _plots(model: Any, rows: np.ndarray, cols: np.ndarray, values: np.ndarray) -> dict[str, html.Plot]:
    plots = {"values": _histogram(values)}
    plots["rows"] = _counts(np.bincount(rows, minlength=model.model_.shape[0]), "row")
    plots["cols"] = _counts(np.bincount(cols, minlength=model.model_.shape[1]), "column")
    wrong = getattr(model, "outliers_", None)
    if wrong is not None and wrong.any() and len(wrong) == len(rows):
        plots["outliers"] = _outliers(rows[wrong], cols[wrong], values[wrong], len(wrong))
    learned = [one for one in model.curve_ if one.regularization is None]
    if len(learned) > 1:
        curve = html.line([one.rank for one in learned], [one.error for one in learned], html.BLUE, "learned priors")
        x, caption = html.integer_axis("rank", len(learned)), f"Selected rank: {model.rank_}."
        plots["choice"] = html.plot("Held-out error by rank", [curve], x, html.axis("RMSE"), caption)
    path = [one for one in model.curve_ if one.regularization is not None]
    if len(path) > 1:
        curve = html.line([one.regularization for one in path], [one.error for one in path], html.ORANGE, "penalty")
        caption = "For comparison: a fixed penalty instead of learned priors."
        if not learned:
            caption = f"Selected regularization: {model.regularization_:.3g}."
        x = html.axis("regularization", type="log")
        plots["strength"] = html.plot("Held-out error by regularization", [curve], x, html.axis("RMSE"), caption)
    history = model.history_
    moved = np.isfinite(history.step)  # the residual may rise: regularization is learned on the way
    curve = html.line(history.iteration[moved].tolist(), history.step[moved].tolist(), html.BLUE, "change")
    x, y = html.integer_axis("iteration", len(history)), html.axis("change of the matrix", type="log")
    plots["convergence"] = html.plot("Convergence", [curve], x, y, model.status_.advice)
    if model.rank_:
        x = html.integer_axis("factor", model.rank_) | {"range": [0.4, model.rank_ + 0.6]}
        heights = html.bars(list(range(1, model.rank_ + 1)), model.s_.tolist(), html.BLUE)
        plots["spectrum"] = html.plot("Singular values", [heights], x, html.axis("singular value"))
    if model.heldout_ is not None and len(model.heldout_[0]):
        plots["residuals"], plots["coverage"] = _residuals(model), _coverage(model)
    return plots


def _histogram(values: np.ndarray) -> html.Plot:
    if len(np.unique(values[: 1 << 20])) <= 40:
        x, y = np.unique(values, return_counts=True)
    else:
        y, edges = np.histogram(values, 50)
        x = (edges[1:] + edges[:-1]) / 2
    caption = f"Mean {values.mean():.4g}, standard deviation {values.std():.3g}."
    return html.plot("Values", [html.bars(x.tolist(), y.tolist(), html.BLUE)], html.axis("value"), html.axis("count"), caption)


def _counts(counts: np.ndarray, name: str) -> html.Plot:
    """Numbers of rows or columns by their numbers of observations, in bins whose width doubles."""
    top = max(int(counts.max()), 1)
    edges = np.unique(np.concatenate([[0, 1], 2 ** np.arange(1, int(np.log2(top)) + 2)]))
    count, _ = np.histogram(counts, np.append(edges, top + 1) if edges[-1] <= top else edges)
    labels = ["0" if a == 0 else "1" if a == 1 else f"{a}-{b - 1}" for a, b in itertools.pairwise(edges)]
    heights = html.bars(labels[: len(count)], count[: len(labels)].tolist(), html.ORANGE)
    caption = f"Median {np.median(counts):.0f}, minimum {counts.min():,}, maximum {counts.max():,}."
    x, y = html.axis("observations", type="category"), html.axis(f"{name}s")
    return html.plot(f"Observations per {name}", [heights], x, y, caption)


def _outliers(rows: np.ndarray, cols: np.ndarray, values: np.ndarray, m: int) -> html.Plot:
    """Positions of the observations that were treated as outliers; a subset where there are many."""
    some = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MAX_OUTLIERS)).astype(int))
    points = html.line(cols[some].tolist(), rows[some].tolist(), html.ORANGE, "outliers", "markers")
    points["marker"], points["text"] = {"size": 4, "color": html.ORANGE}, [f"{v:.4g}" for v in values[some]]
    caption = f"{len(rows):,} of {counted(m, 'observation')} ({len(rows) / m:.2%}) were excluded as outliers."
    return html.plot("Outliers", [points], html.axis("column"), html.axis("row", autorange="reversed"), caption)


def _residuals(model: Any) -> html.Plot:
    truth, guess, _ = model.heldout_
    off = truth - guess
    low, high = np.percentile(off, [0.1, 99.9])
    count, edges = np.histogram(off, min(60, max(10, int(2 * len(off) ** 0.5))), (low, high) if low < high else None)
    heights = html.bars(((edges[1:] + edges[:-1]) / 2).tolist(), count.tolist(), html.GREEN)
    return html.plot("Errors on held-out values", [heights], html.axis("value - prediction"), html.axis("count"))


def _coverage(model: Any) -> html.Plot:
    """Coverage of intervals calibrated on one half of the held-out observations and checked on the other."""
    truth, guess, spread = model.heldout_
    score = np.abs(truth - guess) / spread
    half = np.random.default_rng(0).permutation(len(score))
    first, second = score[half[::2]], score[half[1::2]]
    actual = [float(np.mean(second <= np.quantile(first, level))) if len(second) else None for level in LEVELS]
    nominal = [round(100 * level) for level in LEVELS]
    measured = [None if share is None else 100 * share for share in actual]
    lines = [
        html.line(nominal, nominal, html.GREY, "nominal", "lines", "dot"),
        html.line(nominal, measured, html.BLUE, "measured"),
    ]
    caption = ""
    if measured[4] is not None:
        caption = f"90 % intervals calibrated on one half of the held-out values cover {measured[4]:.1f} % of the other half."
    x, y = (html.axis(f"{name} coverage", ticksuffix=" %") for name in ("nominal", "measured"))
    return html.plot("Calibration of prediction intervals", lines, x, y, caption)


def _settings(model: Any) -> dict[str, str]:
    import scipy
    import sklearn

    from ..common.version import __version__

    return {
        **{name: repr(value) for name, value in model.get_params().items()},
        "selected rank": str(model.rank_),
        "selected regularization": str(model.regularization_),
        "versions": f"lorank {__version__}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}, Python {platform.python_version()}",
    }
