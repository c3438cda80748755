"""The diagram of docs/choose.md, boxes and lines, styled by site.css for wide and narrow pages: ``{decision-diagram}``."""

from __future__ import annotations

from html import escape

from docutils import nodes
from docutils.parsers.rst import Directive

# Kinds of data; for each the cases, the model, and its page.
TREE = {
    "A list of user, item, value": [
        ("ratings, stars, amounts", "MatrixCompletion", "ratings.html"),
        ("implicit feedback: clicks, purchases", "ImplicitFactorization", "ratings.html#recommendations"),
    ],
    "A table with missing values": [
        ("rows are records", "TableImputer()", "tables.html"),
        ("rows are times", "TableImputer(time=...)", "tables.html#time-series"),
        ("three axes or keys: sensors, days, hours", "TensorImputer", "tables.html#tensors"),
    ],
    "Some entries of a matrix": [
        ("exact, or with Gaussian noise", "Completion, solve", "guides/completion.html"),
        ("with outliers", 'Completion(loss="robust")', "losses.html#outliers"),
        ("yes/no, classes, counts", "Completion(loss=...)", "losses.html"),
        ("entries of a tensor", "TensorCompletion", "guides/completion.html#tensors"),
    ],
    "Linear measurements of a matrix": [
        ("inner products with known matrices", "Sensing", "guides/sensing.html"),
        ("expectations of Pauli matrices", "PauliTomography", "guides/sensing.html#quantum-states"),
        ("samples of a sum of exponentials", "HankelCompletion", "guides/sensing.html#signals"),
        ("a custom linear map", "Sensing.from_functions", "guides/extending.html"),
    ],
    "Intensities without phases": [
        ("|a x|² for known vectors a", "PhaseRetrieval", "guides/sensing.html#phase-retrieval"),
        ("coded diffraction patterns, by FFT", ".coded_diffraction", "guides/sensing.html#phase-retrieval"),
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
