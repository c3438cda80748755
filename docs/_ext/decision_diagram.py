"""The diagram of docs/choose.md, as SVG that takes the colours of the page: ``{decision-diagram}``."""

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
        ("rows follow each other in time", "TableImputer(time=...)", "tables.html#series"),
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
ROW, HAVE, WHICH, USE, WIDTH = 38, 8, 300, 640, 900


def drawing() -> str:
    parts, y = [], 10
    for have, kinds in TREE.items():
        middle = y + ROW * len(kinds) / 2
        parts.append(
            f'<rect class="ask" x="{HAVE}" y="{middle - 17:g}" width="232" height="34" rx="6"/>'
            f'<text x="{HAVE + 116}" y="{middle + 5:g}" text-anchor="middle" font-weight="600">{escape(have)}</text>'
        )
        for k, (kind, use, page) in enumerate(kinds):
            at = y + ROW * (k + 0.5)
            parts.append(
                f'<path class="ask" d="M {HAVE + 232} {middle:g} C {HAVE + 268} {middle:g}, '
                f'{WHICH - 40} {at:g}, {WHICH - 6} {at:g}"/>'
                f'<text x="{WHICH}" y="{at + 5:g}">{escape(kind)}</text>'
                f'<path class="ask" d="M {USE - 40} {at:g} H {USE - 8}"/>'
                f'<rect class="box" x="{USE}" y="{at - 15:g}" width="{WIDTH - USE - 8}" height="30" rx="6"/>'
                f'<a href="{page}"><text x="{USE + 12}" y="{at + 5:g}" font-family="monospace">{escape(use)}</text></a>'
            )
        y += ROW * len(kinds) + 16
    title = "What one has, which kind of it, and what to use; the table below says the same"
    return (
        f'<div class="decision"><svg viewBox="0 0 {WIDTH} {y}" role="img" aria-label="{title}" font-size="14">'
        f"{''.join(parts)}</svg></div>"
    )


class Diagram(Directive):
    def run(self):
        return [nodes.raw("", drawing(), format="html")]


def setup(app):
    app.add_directive("decision-diagram", Diagram)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
