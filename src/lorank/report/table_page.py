"""HTML report of an imputed table: distributions of observed and imputed values, column by column, without scripts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..common.checks import counted
from .html import BLUE, ORANGE, Markup, cards, document, element, write_text

BINS = 24
MAX_COLUMNS = 60  # columns that are drawn, those with most missing values first
MAX_LABELLED = 5  # levels that have labels below them
MAX_LABEL = 16  # characters of a label
WIDTH, HEIGHT = 400, 150
WHOLE, DATE = "whole", "date"  # kinds of columns
SHOWN_KINDS = {WHOLE: "whole number", "levels": "category"}


@dataclass
class FilledColumn:
    """Histograms of a column's observed and imputed values.

    Attributes
    ----------
    name, kind : str
    levels : list
        Levels of a category; empty for numbers.
    edges : (bins + 1,) array
        Edges of the bins of numbers.
    known, filled : (bins,) arrays
        Counts of observed and of imputed cells.
    gaps, rows : int
        Numbers of missing values and of rows.
    error : float
        Held-out error: root mean square in standard deviations, or share of wrong categories; nan if unknown.
    """

    name: str
    kind: str
    levels: list[Any]
    edges: np.ndarray
    known: np.ndarray = field(init=False)
    filled: np.ndarray = field(init=False)
    gaps: int = 0
    rows: int = 0
    error: float = np.nan

    def __post_init__(self) -> None:
        bins = len(self.levels) or len(self.edges) - 1
        self.known, self.filled = np.zeros(bins, np.int64), np.zeros(bins, np.int64)

    def add(self, before: Any, after: Any) -> None:
        """Count the cells of a block: a polars series with missing values, and the same series imputed."""
        gaps = before.is_null().to_numpy()
        self.rows, self.gaps = self.rows + len(gaps), self.gaps + int(gaps.sum())
        self.known += self._count(before.filter(~gaps))
        self.filled += self._count(after.filter(gaps))

    def _count(self, cells: Any) -> np.ndarray:
        if self.levels:
            found = dict(cells.value_counts().iter_rows())
            return np.array([found.get(level, 0) for level in self.levels], np.int64)
        values = cells.drop_nulls().to_physical().cast(float).to_numpy()
        return np.histogram(np.clip(values, self.edges[0], self.edges[-1]), self.edges)[0]

    @property
    def quality(self) -> str:
        """The held-out error in words; empty if it is unknown."""
        if np.isnan(self.error):
            return ""
        return f"{self.error:.0%} wrong" if self.levels else f"{self.error:.2f} standard deviations"

    def label(self, k: int) -> str:
        """The level or the range of a bin."""
        return str(self.levels[k]) if self.levels else f"{self.edges[k]:.4g} to {self.edges[k + 1]:.4g}"

    def coarser(self) -> FilledColumn:
        """The column with adjacent bins merged where few cells were imputed: most bins would hold one cell or none."""
        if self.levels or len(self.known) != BINS:
            return self
        wanted = max(6.0, 2 * float(self.filled.sum()) ** 0.5)
        by = next((k for k in (1, 2, 3) if wanted * k >= BINS), 4)
        merged = FilledColumn(self.name, self.kind, [], self.edges[::by], self.gaps, self.rows, self.error)
        merged.known, merged.filled = (counts.reshape(-1, by).sum(axis=1) for counts in (self.known, self.filled))
        return merged


def columns_of(imputer: Any) -> list[FilledColumn]:
    """The columns that a fitted TableImputer imputes."""
    found, at = [], 0
    for column, error in zip(imputer.columns_, imputer.quality_.tolist(), strict=True):
        if not column.width:
            continue
        low, high = float(imputer.low_[at]), float(imputer.high_[at])
        edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
        if column.kind == WHOLE and high - low < 2 * BINS:  # one bin a number
            edges = np.arange(low - 0.5, high + 1)
        found.append(FilledColumn(column.name, column.kind, list(column.levels), edges, error=error))
        at += column.width
    return found


def write_table_page(path: str | Path, source: str, columns: list[FilledColumn], rank: int) -> Path:
    """Write the report.

    Parameters
    ----------
    path : path
    source : str
        Name of the imputed file.
    columns : list of FilledColumn
    rank : int
        Rank of the imputation model.
    """
    rows = columns[0].rows if columns else 0
    gaps = sum(column.gaps for column in columns)
    facts = [
        (f"{rows:,}", "rows"),
        (len(columns), "imputed columns"),
        (f"{gaps:,}", "missing values"),
        (f"{gaps / max(rows * len(columns), 1):.1%}", "of the cells"),
        (rank, "rank"),
    ]
    shown = sorted((column for column in columns if column.gaps), key=lambda column: -column.gaps)
    title = f"Imputed values in {source}"
    square = {colour: element("span", "\N{BLACK SQUARE}", style=f"color:{colour}") for colour in (BLUE, ORANGE)}
    text = [
        *("Relative frequencies of ", square[BLUE], " observed and ", square[ORANGE], " imputed values. "),
        "Imputed values are conditional means, so they vary less than observed values. Held-out errors are those of observed ",
        "cells that were predicted from the others; 1 standard deviation is as good as the mean of the column.",
    ]
    body = [element("h1", title), element("p", text, class_="soft"), cards(facts)]
    body.append(element("div", map(_histogram, shown[:MAX_COLUMNS]), class_="plots alike"))
    if len(shown) > MAX_COLUMNS:
        more = f"{len(shown) - MAX_COLUMNS} more columns with fewer missing values are not shown."
        body.append(element("p", more, class_="soft"))
    return write_text(path, document(title, body))


def _histogram(column: FilledColumn) -> Markup:
    """Bars of observed and imputed values, as SVG."""
    column = column.coarser()
    known, filled = (counts / max(counts.sum(), 1) for counts in (column.known, column.filled))
    order = np.argsort(-column.known, kind="stable")[:BINS] if column.levels else np.arange(len(known))
    top = max(float(known.max()), float(filled.max()), 1e-12)
    step, rects = WIDTH / len(order), []
    for place, k in enumerate(order.tolist()):
        for shares, colour, shift in ((known, BLUE, 0.08), (filled, ORANGE, 0.5)):
            height = (HEIGHT - 10) * float(shares[k]) / top
            box = {"x": f"{(place + shift) * step:.1f}", "y": f"{HEIGHT - height:.1f}", "fill": colour}
            hover = element("title", f"{column.label(k)}: {shares[k]:.1%}")
            rects.append(element("rect", hover, width=f"{0.42 * step:.1f}", height=f"{height:.1f}", **box))
    if column.levels and len(order) <= MAX_LABELLED:
        places = [((place + 0.5) * step, "middle", column.label(k)) for place, k in enumerate(order.tolist())]
    else:
        ends = ("first", "last") if column.kind == DATE else (f"{column.edges[0]:.4g}", f"{column.edges[-1]:.4g}")
        if column.levels:
            ends = column.label(int(order[0])), column.label(int(order[-1]))
        places = [(0.0, "start", ends[0]), (float(WIDTH), "end", ends[1])]
    labels = [
        element("text", _short(text), x=f"{x:.1f}", y=HEIGHT + 16, font_size=13, fill="currentColor", text_anchor=anchor)
        for x, anchor, text in places
    ]
    size = {"viewBox": f"0 0 {WIDTH} {HEIGHT + 22}", "width": "100%", "role": "img"}
    kind = SHOWN_KINDS.get(column.kind, column.kind)
    caption = f"{kind}, {counted(column.gaps, 'missing value')} ({column.gaps / max(column.rows, 1):.1%})"
    caption += f"; held-out error: {column.quality}" if column.quality else ""
    return element(
        "div",
        element("h3", column.name),
        element("p", caption, class_="soft"),
        element("svg", rects, labels, aria_label=f"distribution of {column.name}", **size),
        class_="card",
    )


def _short(label: str) -> str:
    return label if len(label) <= MAX_LABEL else label[: MAX_LABEL - 1] + "…"
