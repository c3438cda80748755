"""The diagram of docs/choose.md, boxes and lines that site.css draws for wide and for narrow pages: ``{decision-diagram}``."""

from __future__ import annotations

from html import escape

from docutils import nodes
from docutils.parsers.rst import Directive

# What one has; then, for each kind of it, what to use and the page about it.
TREE = {
    "A list: who, what, how much": [
        ("ratings, stars, amounts", "MatrixCompletion", "ratings.html"),
        ("only that it happened: clicks, purchases", "ImplicitFactorization", "ratings.html#what-to-recommend"),
    ],
    "A table with gaps": [
        ("rows are records", "TableImputer()", "tables.html"),
        ("rows follow each other in time", "TableImputer(time=...)", "tables.html#time-series"),
    ],
    "Some entries of a matrix": [
        ("exact, or with even noise", "Completion, solve", "guides/completion.html"),
        ("some of them are nonsense", 'Completion(loss="robust")', "losses.html#gross-errors"),
        ("yes or no, classes, counts", "Completion(loss=...)", "losses.html"),
    ],
    "Other measurements of it": [
        ("inner products with known matrices", "Sensing", "guides/sensing.html"),
        ("a linear map of my own", "Sensing.from_functions", "guides/extending.html"),
    ],
    "Intensities, phases lost": [
        ("|a x|² for known vectors a", "PhaseRetrieval", "guides/sensing.html#phase-retrieval"),
        ("an image behind masks, by FFT", ".coded_diffraction", "guides/sensing.html#phase-retrieval"),
    ],
}


def drawing() -> str:
    parts = []
    for have, kinds in TREE.items():
        branches = "".join(
            f'<li><span>{escape(kind)}</span><a href="{page}">{escape(use)}</a></li>' for kind, use, page in kinds
        )
        parts.append(f'<div class="have"><div class="ask">{escape(have)}</div><ul>{branches}</ul></div>')
    return f'<div class="decision">{"".join(parts)}</div>'


class Diagram(Directive):
    def run(self):
        return [nodes.raw("", drawing(), format="html")]


def setup(app):
    app.add_directive("decision-diagram", Diagram)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
