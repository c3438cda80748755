"""One HTML page about a table whose gaps were filled: for each column what was there, and what was put in. No scripts."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..io.archive import atomic
from .model_page import BLUE, ORANGE, STYLE, cards

BINS = 24
SHOWN = 60  # columns that are drawn, those with most gaps first
NAMED = 5  # levels that have their names below them
LETTERS = 16  # of a name
WIDE, HIGH = 400, 150
WHOLE, DATE = "whole", "date"  # kinds of columns


@dataclass
class FilledColumn:
    """How often a column has which values, where they were known and where they were filled in.

    Attributes
    ----------
    name, kind : str
    levels : list
        Of a category, or empty.
    edges : (bins + 1,) array
        Of the bins of numbers.
    known, filled : (bins,) arrays
        Counts.
    gaps, rows : int
    """

    name: str
    kind: str
    levels: list[Any]
    edges: np.ndarray
    known: np.ndarray = field(init=False)
    filled: np.ndarray = field(init=False)
    gaps: int = 0
    rows: int = 0

    def __post_init__(self) -> None:
        bins = len(self.levels) or len(self.edges) - 1
        self.known, self.filled = np.zeros(bins, np.int64), np.zeros(bins, np.int64)

    def add(self, before: Any, after: Any) -> None:
        """Count the cells of a block, a polars series with gaps and the same filled."""
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


def columns_of(imputer: Any) -> list[FilledColumn]:
    """The columns that an imputer fills."""
    found, at = [], 0
    for column in imputer.columns_:
        if not column.width:
            continue
        low, high = float(imputer.low_[at]), float(imputer.high_[at])
        edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
        if column.kind == WHOLE and high - low < 2 * BINS:  # a bin for each
            edges = np.arange(low - 0.5, high + 1)
        found.append(FilledColumn(column.name, column.kind, list(column.levels), edges))
        at += column.width
    return found


def write_filled_page(path: str | Path, source: str, columns: list[FilledColumn], rank: int) -> Path:
    """Write the page; it is there as a whole or not at all.

    Parameters
    ----------
    path : path
    source : str
        The file that was filled.
    columns : list of FilledColumn
    rank : int
        Of the covariance that filled it.
    """
    path = Path(path)
    rows = columns[0].rows if columns else 0
    gaps = sum(column.gaps for column in columns)
    share = gaps / max(rows * len(columns), 1)
    facts = [
        (f"{rows:,}", "rows"),
        (f"{len(columns)}", "columns filled"),
        (f"{gaps:,}", "gaps"),
        (f"{share:.1%}", "of the cells"),
    ]
    facts.append((str(rank), "rank"))
    with_gaps = sorted((c for c in columns if c.gaps), key=lambda c: -c.gaps)
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>",
        f"<title>What was filled in {html.escape(source)}</title><style>{STYLE}</style>",
        f"<h1>What was filled in {html.escape(source)}</h1>",
        "<p class='soft'>Each picture shows how often a column has which values: "
        f"<span style='color:{BLUE}'>&#9632;</span> where they were known, <span style='color:{ORANGE}'>&#9632;</span> "
        "where they were filled in, both as shares. Filled cells are means given the rest of the row, so that they spread less "
        "than what they stand for.</p>",
        cards(facts),
        "<div class='plots alike'>" + "".join(_plot(column) for column in with_gaps[:SHOWN]) + "</div>",
    ]
    if len(with_gaps) > SHOWN:
        parts.append(f"<p class='soft'>{len(with_gaps) - SHOWN} more columns have gaps, fewer than these.</p>")
    with atomic(path) as temporary:
        temporary.write_text("\n".join(parts) + "</html>\n", encoding="utf-8")
    return path


def _coarser(column: FilledColumn) -> FilledColumn:
    """Bins joined by twos, threes or fours, where few cells were filled: else most bins hold one or none."""
    if column.levels or len(column.known) != BINS:
        return column
    wanted = max(6.0, 2 * float(column.filled.sum()) ** 0.5)
    by = next((k for k in (1, 2, 3) if wanted * k >= BINS), 4)
    joined = FilledColumn(column.name, column.kind, [], column.edges[::by], column.gaps, column.rows)
    joined.known, joined.filled = (counts.reshape(-1, by).sum(axis=1) for counts in (column.known, column.filled))
    return joined


def _plot(column: FilledColumn) -> str:
    column = _coarser(column)
    known, filled = (counts / max(counts.sum(), 1) for counts in (column.known, column.filled))
    order = np.argsort(-column.known, kind="stable")[:BINS] if column.levels else np.arange(len(known))
    top = max(float(known.max()), float(filled.max()), 1e-12)
    step, bars = WIDE / len(order), []
    for place, k in enumerate(order):
        for part, color, shift in ((known, BLUE, 0.08), (filled, ORANGE, 0.5)):
            height = (HIGH - 10) * float(part[k]) / top
            bars.append(
                f"<rect x='{(place + shift) * step:.1f}' y='{HIGH - height:.1f}' width='{0.42 * step:.1f}' "
                f"height='{height:.1f}' fill='{color}'>"
                f"<title>{html.escape(_label(column, int(k)))}: {part[k]:.1%}</title></rect>"
            )
    if column.levels and len(order) <= NAMED:
        places = [((place + 0.5) * step, "middle", _label(column, int(k))) for place, k in enumerate(order)]
    elif column.levels:
        places = [(0.0, "start", _label(column, int(order[0]))), (WIDE, "end", _label(column, int(order[-1])))]
    else:
        ends = ("first", "last") if column.kind == DATE else (f"{column.edges[0]:.4g}", f"{column.edges[-1]:.4g}")
        places = [(0.0, "start", ends[0]), (WIDE, "end", ends[1])]
    text = "".join(
        f"<text x='{x:.1f}' y='{HIGH + 16}' font-size='13' fill='currentColor' text-anchor='{anchor}'>"
        f"{html.escape(label if len(label) <= LETTERS else label[: LETTERS - 1] + '…')}</text>"
        for x, anchor, label in places
    )
    share = column.gaps / max(column.rows, 1)
    return (
        f"<div class='plot'><h3>{html.escape(column.name)}</h3>"
        f"<p class='soft'>{html.escape(column.kind)}, {column.gaps:,} gap{'s' * (column.gaps != 1)} ({share:.1%})</p>"
        f"<svg viewBox='0 0 {WIDE} {HIGH + 22}' width='100%' role='img' "
        f"aria-label='values of {html.escape(column.name, quote=True)}'>{''.join(bars)}{text}</svg></div>"
    )


def _label(column: FilledColumn, k: int) -> str:
    return str(column.levels[k]) if column.levels else f"{column.edges[k]:.4g} to {column.edges[k + 1]:.4g}"
